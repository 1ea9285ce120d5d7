import { describe, expect, test, vi } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { logOn } from '../../../test/support/log-on.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { deliverySegments, type SegmentEvent } from '../../apis/delivery-segment.ts'
import { messageId, NAME_ENTROPY_BYTES, sortableName } from '../../apis/ids.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { segmentSpec } from '../log/codec.ts'
import { findOriginals } from './originals.ts'

const NAMESPACE = 'davit-system'
const HOUR_MS = 60 * 60_000
const RETENTION_MS = 24 * HOUR_MS
const NOW = Date.parse('2026-03-01T12:00:00Z')

const endpoint = { metadata: { namespace: 'acme', name: 'shop', uid: 'u-1' } } as unknown as WebhookEndpoint

let drawn = 0
function nameAt(time: number): string {
  const entropy = new Uint8Array(NAME_ENTROPY_BYTES)
  drawn += 1
  new DataView(entropy.buffer).setUint32(0, drawn)
  return sortableName(time, entropy)
}

/** A log with one event an hour for three days, the newest now, and each page that is read of it. */
async function bed() {
  let time = NOW
  const store = new MemoryStore(() => time)
  const ids = new Map<number, string>()
  for (let age = 72; age >= 0; age -= 1) {
    time = NOW - age * HOUR_MS
    const id = nameAt(time)
    ids.set(age, id)
    await append(store, { id, namespace: 'acme', type: 'user.created', payload: `{"age":${age}}` }, time)
  }
  const list = vi.spyOn(store, 'list')
  const signal = new AbortController()
  const find = (deliveryIds: readonly string[]) =>
    findOriginals(
      { resources: store, store: logOn(store, { clock: new FakeClock(), namespace: NAMESPACE }) },
      endpoint,
      deliveryIds,
      {
        retentionMs: RETENTION_MS,
        now: NOW,
        signal: signal.signal,
      },
    )
  const idAt = (age: number) => messageId(ids.get(age) ?? '')
  return { store, list, find, idAt, abort: () => signal.abort(new Error('the pass took too long')) }
}

async function append(store: MemoryStore, event: SegmentEvent, time: number, uid = 'u-1'): Promise<void> {
  const spec = segmentSpec([{ event, targets: [{ name: 'shop', uid }] }], 'writer', time)
  await store.create(deliverySegments, { metadata: { namespace: NAMESPACE, name: nameAt(time) }, spec })
}

describe('originals without an object', () => {
  test('are found in one search, however many are asked for', async () => {
    const { find, idAt, list } = await bed()
    const asked = Array.from({ length: 20 }, (_, age) => idAt(age))
    const { found } = await find(asked)
    expect([...found.keys()].sort()).toEqual([...asked].sort())
    expect(found.get(idAt(7))).toEqual({ deliveryId: idAt(7), type: 'user.created', payload: '{"age":7}' })
    expect(list).toHaveBeenCalledOnce()
  })

  test('that never were end the search an hour before the time in their ids', async () => {
    const { find, list } = await bed()
    const invented = Array.from({ length: 100 }, () => messageId(nameAt(NOW - 2 * HOUR_MS)))
    expect(await find(invented)).toEqual({ found: new Map(), later: new Set() })
    expect(list).toHaveBeenCalledOnce()
  })

  test('that are older than the log keeps, or from no time at all, are not searched for', async () => {
    const { find, idAt, list } = await bed()
    const first = messageId(nameAt(0))
    expect(await find([idAt(26), first, 'msg_unreadable'])).toEqual({ found: new Map(), later: new Set() })
    expect(list).not.toHaveBeenCalled()
  })

  test('that were dated ahead are looked for among the newest', async () => {
    const { find, store } = await bed()
    const ahead = nameAt(NOW + HOUR_MS)
    await append(store, { id: ahead, namespace: 'acme', type: 'user.created', payload: '{}' }, NOW)
    expect([...(await find([messageId(ahead)])).found.keys()]).toEqual([messageId(ahead)])
  })

  test('of large bodies are found in parts, and the rest is for another search', async () => {
    const { find, store } = await bed()
    const ids: string[] = []
    for (let n = 0; n < 5; n += 1) {
      const id = nameAt(NOW)
      ids.push(messageId(id))
      const payload = JSON.stringify('x'.repeat(6 * 1024 * 1024))
      await append(store, { id, namespace: 'acme', type: 'user.created', payload }, NOW)
    }
    const first = await find(ids)
    expect(first.found.size).toBe(3)
    expect([...first.found.keys(), ...first.later].sort()).toEqual([...ids].sort())
    const second = await find([...first.later])
    expect([...second.found.keys()].sort()).toEqual([...first.later].sort())
    expect(second.later).toEqual(new Set())
  })

  test('of another endpoint are not found', async () => {
    const { find, store } = await bed()
    const id = nameAt(NOW)
    await append(store, { id, namespace: 'globex', type: 'user.created', payload: '{}' }, NOW, 'u-2')
    expect(await find([messageId(id)])).toEqual({ found: new Map(), later: new Set() })
  })
})

test('a search ends when the pass is aborted', async () => {
  const { find, idAt, abort } = await bed()
  abort()
  await expect(find([idAt(20)])).rejects.toThrow('the pass took too long')
})
