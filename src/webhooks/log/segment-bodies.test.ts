import { describe, expect, it } from 'vitest'
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { type RawObject, UnreadableError } from '../../kube/client.ts'
import { segmentSpec } from './codec.ts'
import { SegmentBodies } from './segment-bodies.ts'

function event(namespace: string, payload: string): AcceptedEvent {
  return { event: { id: '0'.repeat(26), namespace, type: 'test.happened', payload }, targets: [] }
}

function segment(name: string, events: readonly AcceptedEvent[]): RawObject {
  const metadata = { name, namespace: 'davit-system', resourceVersion: '7', uid: 'u' }
  return { metadata, spec: segmentSpec(events, 'writer', 0) }
}

function start(stored: readonly RawObject[], maxBytes = 1_000_000) {
  const byName = new Map(stored.map((one) => [one.metadata.name, one]))
  const asked: string[] = []
  const read: number[] = []
  const gates: (() => void)[] = []
  let isGated = false
  const gate = () => {
    isGated = true
  }
  const get = async (_: unknown, name: string) => {
    asked.push(name)
    if (isGated) await new Promise<void>((resolve) => gates.push(resolve))
    return byName.get(name)
  }
  const bodies = new SegmentBodies({
    store: { read: get },
    maxBytes,
    onRead: (bytes) => read.push(bytes),
  })
  const text = async (name: string, index: number, organization = 'acme') =>
    (await bodies.read({ segment: name, event: index }, organization))?.toString('utf8')
  return { bodies, asked, read, text, gates, gate }
}

describe('the bodies of a segment', () => {
  it('are read once for everything that is due from it', async () => {
    const { text, asked, read } = start([
      segment('s1', [event('acme', '{"a":"ä"}'), event('acme', '{"b":1}')]),
    ])
    expect(await Promise.all([text('s1', 0), text('s1', 1)])).toEqual(['{"a":"ä"}', '{"b":1}'])
    expect(await text('s1', 0)).toBe('{"a":"ä"}')
    expect([asked, read]).toEqual([['s1'], [10 + 7 + 3 * 200]])
  })

  it('are kept while there is room', async () => {
    const large = (name: string) => segment(name, [event('acme', 'x'.repeat(600))])
    const { text, asked, bodies } = start([large('s1'), large('s2')], 1500)
    await text('s1', 0)
    await text('s2', 0)
    expect(bodies.bytes).toBeLessThanOrEqual(1500)
    await text('s1', 0)
    expect(asked).toEqual(['s1', 's2', 's1'])
  })

  it('are not shown to another organization, and not made up', async () => {
    const { text } = start([segment('s1', [event('acme', '{}')])])
    expect(await text('s1', 0, 'other')).toBeUndefined()
    expect(await text('s1', 1)).toBeUndefined()
    expect(await text('deleted', 0)).toBeUndefined()
  })

  it('that cannot be read are an error, and are asked for again', async () => {
    const broken = { metadata: { name: 's1', namespace: 'davit-system' }, spec: { events: 'no list' } }
    const { text, asked } = start([broken])
    await expect(text('s1', 0)).rejects.toThrow(UnreadableError)
    await expect(text('s1', 0)).rejects.toThrow(UnreadableError)
    expect(asked).toHaveLength(2)
  })

  it('are read four at a time, in turns by organization', async () => {
    const names = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1']
    const { text, asked, gates, gate } = start(names.map((name) => segment(name, [event('acme', '{}')])))
    gate()
    const all = names.map((name) => text(name, 0, name.startsWith('a') ? 'acme' : 'other'))
    await Promise.resolve()
    expect(asked).toEqual(['a1', 'a2', 'a3', 'a4'])
    for (let done = 0; done < names.length; done += 1) {
      gates.shift()?.()
      await new Promise(setImmediate)
    }
    await Promise.all(all)
    expect(asked.slice(4)).toEqual(['a5', 'b1', 'a6'])
  })
})
