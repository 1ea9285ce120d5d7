import { describe, expect, it } from 'vitest'
import { API_VERSION } from '../../../src/apis/meta.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import { segmentSpec } from '../../../src/webhooks/log/codec.ts'
import type { Archive, Kept } from './archive.ts'
import type { FaultRecord } from './fault-work.ts'
import { goneEarly, overdueOf, type Retained } from './retained.ts'

/** By `performance.now()`; creation times have a resolution of seconds. */
const CREATED = Math.ceil(performance.timeOrigin / 1000) * 1000 - performance.timeOrigin
const UID = '11111111-1111-4111-8111-111111111111'
const RETENTION_MS = 60_000

function metadataOf(name: string) {
  const creationTimestamp = new Date(performance.timeOrigin + CREATED).toISOString()
  return { namespace: 'acme', name, uid: name, resourceVersion: '7', creationTimestamp }
}

function segment(name: string, more: Partial<Kept> = {}): Kept {
  const event = { id: '7ybqwpzse3vf3wvee8n1ej6g5a', namespace: 'acme', type: 't', payload: '{}' }
  const spec = segmentSpec([{ event, targets: [{ name: 'o', uid: UID }] }], 'w', 1)
  const raw = { apiVersion: API_VERSION, kind: 'DeliverySegment', metadata: metadataOf(name), spec }
  return { raw: raw as unknown as RawObject, openAt: CREATED, seenAt: CREATED, ...more }
}

function delivery(state: string, more: Partial<Kept> = {}, segment?: string): Kept {
  const spec = {
    endpoint: 'o',
    endpointUid: UID,
    deliveryId: 'msg_7ybqwpzse3vf3wvee8n1ej6g5a',
    eventType: 't',
    position: '5/0',
    writtenAt: new Date(0).toISOString(),
    ...(segment === undefined ? { payload: '{}' } : { payloadRef: { segment, event: 0 } }),
  }
  const raw = {
    apiVersion: API_VERSION,
    kind: 'WebhookDelivery',
    metadata: metadataOf('d'),
    spec,
    status: { state, attemptCount: 1 },
  }
  return { raw: raw as unknown as RawObject, openAt: CREATED, seenAt: CREATED, ...more }
}

function given(kept: { segments?: Kept[]; deliveries?: Kept[] }, faults: FaultRecord[] = []): Retained {
  const archive = { segments: [], deliveries: [], ...kept } as unknown as Archive
  return {
    archive,
    deleted: new Set(),
    faults,
    startedAt: new Map([[4, CREATED + 5000]]),
    retentionMs: RETENTION_MS,
  }
}

function clock(stepMs: number, from: number, to: number, life = 4): FaultRecord {
  const times = { from: CREATED + from, to: CREATED + to, readyAt: CREATED + to }
  return { kind: 'clock step', stepMs, lives: [life], blows: [], ...times }
}

describe('what is gone', () => {
  it('before two minutes, of the log, is early', () => {
    const early = given({ segments: [segment('s', { missedAt: CREATED + 110_000 })] })
    expect(goneEarly(early)).toEqual(['1 segments of the log were gone before their time: s'])
    expect(goneEarly(given({ segments: [segment('s', { missedAt: CREATED + 121_000 })] }))).toEqual([])
    expect(goneEarly(given({ segments: [segment('s')] }))).toEqual([])
  })

  it('while a delivery refers to it, of the log, is early, however old it is', () => {
    const gone = (seenAt: number) => {
      const segments = [segment('s', { missedAt: CREATED + 300_000 })]
      const missedAt = CREATED + 310_000
      return goneEarly(given({ segments, deliveries: [delivery('succeeded', { seenAt, missedAt }, 's')] }))
    }
    expect(gone(CREATED + 300_001)).toEqual([
      '1 segments that a delivery refers to were gone before their time: s',
    ])
    expect(gone(CREATED + 300_000)).toEqual([])
  })

  it('where the log has reached its bound, is early only while a delivery refers to it', () => {
    const early = { segments: [segment('s', { missedAt: CREATED + 1000 })] }
    const bounded = (deliveries: Kept[]) => goneEarly({ ...given({ ...early, deliveries }), logBytes: 1 })
    expect(bounded([delivery('exhausted', { missedAt: CREATED + 2000 })])).toEqual([])
    expect(bounded([delivery('exhausted', { seenAt: CREATED + 2000 }, 's')])).toHaveLength(1)
  })

  it('before its retention, of deliveries, is early, and one that did not succeed always is', () => {
    const gone = (state: string, at: number, more: Partial<Retained> = {}) =>
      goneEarly({ ...given({ deliveries: [delivery(state, { missedAt: CREATED + at })] }), ...more })
    expect(gone('succeeded', 50_000)).toHaveLength(1)
    expect(gone('succeeded', 61_000)).toEqual([])
    expect(gone('exhausted', 500_000)).toEqual(['1 deliveries that did not were gone before their time: d'])
    expect(gone('retrying', 500_000)).toHaveLength(1)
    expect(gone('retrying', 10, { deleted: new Set(['o']) })).toEqual([])
  })

  it('is as old as its last attempt, however late that could be stored', () => {
    const gone = (completedAt: number) => {
      const late = { openAt: CREATED + 100_000, missedAt: CREATED + 150_000 }
      const kept = delivery('succeeded', late)
      Object.assign(kept.raw.status ?? {}, {
        completedAt: new Date(performance.timeOrigin + completedAt).toISOString(),
      })
      return goneEarly(given({ deliveries: [kept] }))
    }
    expect(gone(CREATED + 80_000)).toEqual([])
    expect(gone(CREATED + 95_000)).toHaveLength(1)
    expect(gone(CREATED - 3_600_000)).toEqual([])
    expect(gone(CREATED + 3_600_000)).toHaveLength(1)
  })

  it('is excused by a process that started while its clock was ahead, and by no other step', () => {
    const gone = (...faults: FaultRecord[]) =>
      goneEarly(given({ deliveries: [delivery('succeeded', { missedAt: CREATED + 15_000 })] }, faults))
    expect(gone(clock(3_600_000, 4000, 10_000))).toEqual([])
    expect(gone(clock(3_600_000, 5500, 10_000))).toHaveLength(1)
    expect(gone(clock(-3_600_000, 4000, 10_000))).toHaveLength(1)
    expect(gone(clock(3_600_000, 4000, 4500))).toHaveLength(1)
  })

  it('may be earlier by as much as a clock was set a little', () => {
    const gone = (at: number) =>
      goneEarly(
        given({ deliveries: [delivery('succeeded', { missedAt: CREATED + at })] }, [
          clock(30_000, 10_000, 20_000, 9),
        ]),
      )
    expect(gone(30_000)).toEqual([])
    expect(gone(28_000)).toHaveLength(1)
  })
})

describe('what is still there', () => {
  it('is overdue, but for what did not succeed, and the payload of that', () => {
    const archive = (deliveries: Kept[]) => given({ segments: [segment('s')], deliveries }).archive
    expect(overdueOf(archive([]))).toEqual(['1 segments of the log stay beyond their time: s'])
    expect(overdueOf(archive([delivery('exhausted', {}, 's')]))).toEqual([])
    expect(overdueOf(archive([delivery('exhausted', { missedAt: CREATED }, 's')]))).toHaveLength(1)
    expect(overdueOf(archive([delivery('succeeded', {}, 's')]))).toEqual([
      '1 deliveries that succeeded stay beyond their time: d',
    ])
  })
})
