import { describe, expect, it, test } from 'vitest'
import { sortableName } from '../../apis/ids.ts'
import { INLINE_PAYLOAD_BYTES } from '../../webhooks/log/codec.ts'
import { NO_ENDPOINT } from './endpoint-logs.ts'
import { NONE, packedName } from './line-table.ts'
import { DeliveryLines, type ObjectDelivery } from './line-updates.ts'

const START = Date.UTC(2026, 0, 31, 12)

function nameAt(number: number): string {
  const entropy = Buffer.alloc(10)
  entropy.writeUInt32BE(number)
  return sortableName(START + number, entropy)
}

/** A segment of one event, without its deliveries. */
function segment(number: number) {
  const times = { writtenAt: START, createdAt: START }
  const content = { bytes: 1000, bodies: ['{}'], unreadable: 0 }
  return { name: nameAt(number + 1_000_000), version: number, ...times, ...content }
}

/** A segment of one delivery of an endpoint, which is the `number`th to be accepted. */
function accept(index: DeliveryLines, number: number, uid = 'uid-a'): void {
  const event = { id: nameAt(number), namespace: 'org', type: 'test.happened', bodyBytes: 2, receivers: 1 }
  const delivery = { index: 0, eventIndex: 0, event, endpoint: { name: 'billing', uid } }
  index.segment({ ...segment(number), deliveries: [delivery] })
  for (const _ of index.segmentsSeenUpTo(number));
}

/** A segment of an event that nobody gets. */
function acceptForNobody(index: DeliveryLines, number: number): void {
  const event = { id: nameAt(number), namespace: 'org', type: 'test.happened', bodyBytes: 2, receivers: 0 }
  index.segment({ ...segment(number), deliveries: [], undelivered: [{ eventIndex: 0, event }] })
}

function send(index: DeliveryLines, number: number): void {
  const attempt = { at: new Date(START).toISOString(), latencyMs: 1, code: 200 }
  const record = { kind: 'sent', position: { version: number, index: 0 }, attempt, object: false } as const
  const version = number + 10_000
  index.outcomes({ name: nameAt(version), version, writtenAt: START, writer: 'w', records: [record] })
}

function shown(number: number, state: ObjectDelivery['state'] = 'succeeded'): ObjectDelivery {
  const id = packedName(nameAt(number)) ?? new Uint32Array(4)
  const body = { bodyBytes: 2, sharesBody: false }
  const about = { namespace: 'org', endpointUid: 'uid-a', id, type: 'test.happened', ...body }
  return { ...about, state, attempts: 1, at: START }
}

function held(index: DeliveryLines, uid = 'uid-a'): string[] {
  const names: string[] = []
  const log = index.lines.logs.find('org', uid)
  log?.lines.walkOldest((line) => names.push(index.lines.table.name(line)) > 0)
  return names
}

function names(...numbers: number[]): string[] {
  return numbers.map(nameAt)
}

const never = () => {
  throw new Error('nothing is lost here')
}

test.each([
  ['small', INLINE_PAYLOAD_BYTES, 2],
  ['large', INLINE_PAYLOAD_BYTES + 1, 1],
])(
  'a %s body is counted as controllers do, in the log and after its deliveries have objects',
  (_, bodyBytes, copies) => {
    const index = new DeliveryLines(3, never)
    const event = { id: nameAt(1), namespace: 'org', type: 'test.happened', bodyBytes, receivers: 2 }
    const deliveries = ['uid-a', 'uid-b'].map((uid, at) => {
      return { index: at, eventIndex: 0, event, endpoint: { name: uid, uid } }
    })
    index.segment({ ...segment(1), deliveries })
    expect(index.lines.bodies.total).toBe(copies * bodyBytes)
    const objects = new DeliveryLines(3, never)
    for (const [at, endpointUid] of ['uid-a', 'uid-b'].entries())
      objects.object({ ...shown(1, 'retrying'), endpointUid, bodyBytes, sharesBody: copies === 1 }, at + 1)
    expect(objects.lines.bodies.total).toBe(copies * bodyBytes)
  },
)

describe('an event that nobody gets', () => {
  it('is known, open nowhere, and goes with its segment', () => {
    const index = new DeliveryLines(3, never)
    acceptForNobody(index, 1)
    acceptForNobody(index, 1)
    expect(held(index, NO_ENDPOINT)).toEqual(names(1))
    expect(index.lines.bodies.total).toBe(0)
    index.segmentGone(nameAt(1_000_001))
    expect([index.size, index.lines.logs.size, index.lines.segments.size]).toEqual([0, 0, 0])
  })

  it('is known at once where this process appended it, before and after its segment was seen', () => {
    const index = new DeliveryLines(3, never)
    const event = { id: nameAt(1), namespace: 'org', type: 'test.happened', payload: '{}' }
    const place = { segment: nameAt(1_000_001), version: 1, firstDelivery: 0 }
    index.appended(place, [{ event, targets: [] }])
    expect(held(index, NO_ENDPOINT)).toEqual(names(1))
    acceptForNobody(index, 1)
    expect(held(index, NO_ENDPOINT)).toEqual(names(1))
    index.segmentGone(nameAt(1_000_001))
    expect(index.size).toBe(0)
  })

  it('stays behind of a delivery that is gone, once for all of its endpoints, and goes with its segment', () => {
    const index = new DeliveryLines(3, never)
    const event = { id: nameAt(1), namespace: 'org', type: 'test.happened', bodyBytes: 2, receivers: 2 }
    const deliveries = ['uid-a', 'uid-b'].map((uid, at) => {
      return { index: at, eventIndex: 0, event, endpoint: { name: uid, uid } }
    })
    const about = { name: nameAt(9), version: 1, writtenAt: START, createdAt: START, bytes: 1000 }
    index.segment({ ...about, deliveries, bodies: ['{}'], unreadable: 0 })
    for (const _ of index.segmentsSeenUpTo(1));
    const records = deliveries.map(
      ({ index }) => ({ kind: 'moved', position: { version: 1, index } }) as const,
    )
    index.outcomes({ name: 'outcomes', version: 5, writtenAt: START, writer: 'w', records })
    index.objectsSeenUpTo(5)
    expect([held(index), held(index, 'uid-b'), held(index, NO_ENDPOINT)]).toEqual([[], [], names(1)])
    expect([index.size, index.lines.bodies.total]).toEqual([1, 0])
    index.segmentGone(nameAt(9))
    expect([index.size, index.lines.logs.size, index.lines.segments.size]).toEqual([0, 0, 0])
  })

  it('makes room like a delivery that has ended', () => {
    const index = new DeliveryLines(3, never)
    for (const number of [1, 2, 3]) acceptForNobody(index, number)
    accept(index, 4)
    expect([held(index), held(index, NO_ENDPOINT)]).toEqual([names(4), names(2, 3)])
    index.segmentGone(nameAt(1_000_001))
    expect(index.size).toBe(3)
  })
})

describe('the room for lines', () => {
  it('is made by leaving out the oldest that have ended', () => {
    const index = new DeliveryLines(3, never)
    for (const number of [1, 2, 3]) accept(index, number)
    send(index, 2)
    send(index, 3)
    accept(index, 4)
    expect(held(index)).toEqual(names(1, 3, 4))
    accept(index, 5)
    expect(held(index)).toEqual(names(1, 4, 5))
    expect(index.lines.dropped).toBe(2)
  })

  it('is made by the endpoint that has most of them, so that nobody pushes out the log of another', () => {
    const index = new DeliveryLines(4, never)
    accept(index, 1, 'uid-quiet')
    for (const number of [2, 3, 4]) accept(index, number)
    for (const number of [1, 2, 3, 4]) send(index, number)
    for (const number of [5, 6, 7, 8]) {
      accept(index, number)
      send(index, number)
    }
    expect(held(index, 'uid-quiet')).toEqual(names(1))
    expect(held(index)).toEqual(names(6, 7, 8))
  })

  it('is not there for a new line while none has ended, and the line is counted as left out', () => {
    const index = new DeliveryLines(2, never)
    for (const number of [1, 2, 3]) accept(index, number)
    expect(held(index)).toEqual(names(1, 2))
    expect(index.lines.dropped).toBe(1)
    expect(index.lines.logs.size).toBe(1)
  })

  it('is not given back to what was left out when a list shows its object again', () => {
    const index = new DeliveryLines(2, never)
    for (const number of [1, 2, 3]) index.object(shown(number), number + 1)
    expect(held(index)).toEqual(names(2, 3))
    index.object(shown(1), 2)
    expect(held(index)).toEqual(names(2, 3))
    expect(index.lines.dropped).toBe(1)
    index.object(shown(1, 'retrying'), 9)
    expect(held(index)).toEqual(names(1, 3))
  })

  it('can be that of one line, which each new one takes', () => {
    const index = new DeliveryLines(1, never)
    for (const number of [1, 2, 3]) {
      accept(index, number)
      send(index, number)
    }
    expect(held(index)).toEqual(names(3))
    index.segmentGone(nameAt(1_000_003))
    expect(index.lines.logs.size).toBe(0)
  })
})

describe('a line', () => {
  it('whose number stands for another one by now takes no outcome of the one before', () => {
    const index = new DeliveryLines(1, never)
    accept(index, 1)
    send(index, 1)
    accept(index, 2)
    send(index, 1)
    const line = index.lines.logs
      .find('org', 'uid-a')
      ?.lines.find(packedName(nameAt(2)) ?? new Uint32Array(4))
    expect(index.lines.table.status(line ?? NONE).state).toBe('pending')
  })

  it('of an endpoint is not that of another organization that has an endpoint of the same UID', () => {
    const index = new DeliveryLines(10, never)
    index.object({ ...shown(1), namespace: 'other' }, 1)
    expect(held(index)).toEqual([])
  })

  it('waits for no segment that its outcome cannot know of', () => {
    const index = new DeliveryLines(10, never)
    accept(index, 5)
    const attempt = { at: new Date(START).toISOString(), latencyMs: 1 }
    const records = [5, 999_999].map((version) => {
      return { kind: 'sent', position: { version, index: 0 }, attempt, object: false } as const
    })
    index.outcomes({ name: 'outcomes', version: 10, writtenAt: START, writer: 'w', records })
    expect(index.held).toBe(0)
    expect(index.lines.logs.find('org', 'uid-a')?.counts).toEqual([0, 0, 1, 0, 0])
  })

  it('is lost, and everything read again, where more outcomes wait than can be held', () => {
    let lost = 0
    const onLost = () => {
      lost += 1
    }
    const index = new DeliveryLines(10, onLost)
    const attempt = { at: new Date(START).toISOString(), latencyMs: 1 }
    const record = { kind: 'sent', position: { version: 5, index: 0 }, attempt, object: false } as const
    const records = Array.from({ length: 100_000 }, () => record)
    for (const version of [10, 11])
      index.outcomes({ name: 'outcomes', version, writtenAt: START, writer: 'w', records })
    expect(lost).toBe(0)
    index.outcomes({ name: 'outcomes', version: 12, writtenAt: START, writer: 'w', records })
    expect(lost).toBe(1)
  })

  it('that the log moved stays until its object is seen, or must have been', () => {
    const index = new DeliveryLines(10, never)
    for (const number of [1, 2]) {
      accept(index, number)
      const moved = { kind: 'moved', position: { version: number, index: 0 } } as const
      index.outcomes({
        name: 'outcomes',
        version: number * 10,
        writtenAt: START,
        writer: 'w',
        records: [moved],
      })
    }
    index.objectsSeenUpTo(9)
    expect(held(index)).toEqual(names(1, 2))
    index.object(shown(2), 8)
    index.objectsSeenUpTo(20)
    expect(held(index)).toEqual(names(2))
  })

  it('whose object has ended takes nothing of what the log says of earlier attempts', () => {
    const index = new DeliveryLines(10, never)
    accept(index, 1)
    index.object({ ...shown(1, 'canceled'), attempts: 0 }, 5)
    send(index, 1)
    expect(index.lines.logs.find('org', 'uid-a')?.counts).toEqual([0, 0, 0, 0, 1])
  })

  it('goes with its object where its place in the log is one that does not count', () => {
    const index = new DeliveryLines(10, never)
    index.object(shown(1, 'retrying'), 5)
    accept(index, 1)
    const record = { kind: 'canceled', position: { version: 1, index: 0 }, reason: 'Duplicate' } as const
    index.outcomes({ name: 'outcomes', version: 10, writtenAt: START, writer: 'w', records: [record] })
    expect(held(index)).toEqual(names(1))
    const line = index.lines.logs
      .find('org', 'uid-a')
      ?.lines.find(packedName(nameAt(1)) ?? new Uint32Array(4))
    index.objectGone(line ?? NONE)
    expect(held(index)).toEqual([])
  })
})
