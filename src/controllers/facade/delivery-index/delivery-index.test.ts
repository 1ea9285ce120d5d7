import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FakeClock, fixedRandom, settle } from '../../../../test/support/fake-clock.ts'
import { LogApi } from '../../../../test/support/log-api.ts'
import type { AcceptedEvent } from '../../../api/delivery-segment.ts'
import { deliveryObjectName, sortableName } from '../../../domain/message-id.ts'
import { ApiError } from '../../../ports/kubernetes.ts'
import { OpenDeliveryIndex } from './delivery-index.ts'

const START = Date.UTC(2026, 0, 31, 12)
const BILLING = { namespace: 'org', name: 'billing', uid: 'uid-a' }
const ALL = { limit: 50 }
const ATTEMPT = { at: '2026-01-31T12:00:01.000Z', latencyMs: 12, code: 200 }
const FAILED = { at: '2026-01-31T12:00:01.000Z', latencyMs: 12, code: 503, error: 'HTTP 503' }

let api: LogApi
let clock: FakeClock
let lines: string[]
let index: OpenDeliveryIndex

beforeEach(() => {
  api = new LogApi()
  clock = new FakeClock()
  lines = []
  index = open()
})

afterEach(async () => {
  await index.stop()
})

function open(maxEntries = 1000): OpenDeliveryIndex {
  const say = (message: string) => void lines.push(message)
  const log = { info: say, warn: say, error: say }
  const metrics = { reconciled: () => undefined, watchRestarted: () => undefined }
  const needs = { api, clock, random: fixedRandom(0), log, metrics }
  return new OpenDeliveryIndex({ needs, namespace: 'org', maxEntries })
}

function idAt(number: number): string {
  return sortableName(START + number * 1000, new Uint8Array(10))
}

function event(number: number, uid = 'uid-a'): AcceptedEvent {
  const accepted = { id: idAt(number), namespace: 'org', type: 'test.happened', payload: '{}' }
  return { event: accepted, targets: [{ name: 'billing', uid }] }
}

function sent(version: number, place = 0) {
  return { kind: 'sent', position: { version, index: place }, attempt: ATTEMPT, object: false } as const
}

async function started(): Promise<void> {
  index.start()
  await index.ready
  await settle()
}

async function idsOf(query = ALL): Promise<string[]> {
  return (await index.list(BILLING, query)).deliveries.map(({ deliveryId }) => deliveryId)
}

describe('the log of an endpoint', () => {
  it('is one list of what lies in segments and what has an object, newest first', async () => {
    const version = api.accept('segment-b', [event(1), event(2)])
    api.accept('segment-a', [event(3)])
    api.tell('outcomes', [sent(version)])
    api.show(idAt(2), 'uid-a', {
      state: 'retrying',
      attemptCount: 2,
      nextAttemptAt: '2026-01-31T12:30:00.000Z',
    })
    api.show(idAt(0), 'uid-a', {
      state: 'exhausted',
      attemptCount: 8,
      completedAt: '2026-01-31T11:00:00.000Z',
    })
    await started()
    expect(await index.list(BILLING, ALL)).toEqual({
      deliveries: [
        {
          deliveryId: `msg_${idAt(3)}`,
          eventType: 'test.happened',
          status: 'pending',
          attemptCount: 0,
          createdAt: '2026-01-31T12:00:03.000Z',
        },
        {
          deliveryId: `msg_${idAt(2)}`,
          eventType: 'test.happened',
          status: 'retrying',
          attemptCount: 2,
          nextAttemptAt: '2026-01-31T12:30:00.000Z',
          createdAt: '2026-01-31T12:00:02.000Z',
        },
        {
          deliveryId: `msg_${idAt(1)}`,
          eventType: 'test.happened',
          status: 'succeeded',
          attemptCount: 1,
          completedAt: '2026-01-31T12:00:01.012Z',
          createdAt: '2026-01-31T12:00:01.000Z',
        },
        {
          deliveryId: `msg_${idAt(0)}`,
          eventType: 'test.happened',
          status: 'exhausted',
          attemptCount: 8,
          completedAt: '2026-01-31T11:00:00.000Z',
          createdAt: '2026-01-31T12:00:00.000Z',
        },
      ],
    })
  })

  it('goes on behind the last id that the reader has, also where that is gone since', async () => {
    api.accept('segment', [event(1), event(3)])
    api.show(idAt(2), 'uid-a', { state: 'succeeded', attemptCount: 1 })
    await started()
    const page = await index.list(BILLING, { limit: 2 })
    expect(page.next).toBe(`msg_${idAt(2)}`)
    api.remove('webhookdeliveries', deliveryObjectName(idAt(2), 'uid-a'))
    await settle()
    expect(await idsOf()).toHaveLength(2)
    expect((await index.list(BILLING, { limit: 2, after: page.next })).deliveries).toMatchObject([
      { deliveryId: `msg_${idAt(1)}` },
    ])
  })

  it('shows at once what this process appended, and nothing of it twice', async () => {
    await started()
    const version = 500
    index.appended({ segment: 'segment', version, firstDelivery: 0 }, [event(1)])
    index.appended({ segment: 'segment', version, firstDelivery: 1 }, [event(2)])
    expect(await idsOf()).toEqual([`msg_${idAt(2)}`, `msg_${idAt(1)}`])
    api.kinds.deliverysegments.version = version - 1
    expect(api.accept('segment', [event(1), event(2), event(3)])).toBe(version)
    api.tell('outcomes', [sent(version, 1)])
    await settle()
    expect((await index.list(BILLING, ALL)).deliveries.map(({ status }) => status)).toEqual([
      'pending',
      'succeeded',
      'pending',
    ])
  })

  it('is empty of what another endpoint got, in this organization or another', async () => {
    api.accept('segment', [event(1, 'uid-b')])
    await started()
    expect(await idsOf()).toEqual([])
    expect((await index.list({ ...BILLING, uid: 'uid-b', namespace: 'other' }, ALL)).deliveries).toEqual([])
    expect((await index.list({ ...BILLING, uid: 'uid-b' }, ALL)).deliveries).toHaveLength(1)
  })

  it('tells which delivery a line repeats', async () => {
    const { event: repeated, targets } = event(1)
    api.accept('segment', [{ event: { ...repeated, redeliveryOf: `msg_${idAt(0)}` }, targets }])
    await started()
    expect((await index.list(BILLING, ALL)).deliveries[0]?.redeliveryOf).toBe(`msg_${idAt(0)}`)
  })

  it('keeps a line that was moved until its object is seen, and drops it where that is gone again', async () => {
    const version = api.accept('segment', [event(1)])
    await started()
    const moved = { kind: 'moved', position: { version, index: 0 } } as const
    api.tell('outcomes-a', [
      { kind: 'failed', position: moved.position, attempt: FAILED, nextAttemptAt: START },
    ])
    api.tell('outcomes-b', [moved])
    await settle()
    expect((await index.list(BILLING, ALL)).deliveries).toMatchObject([
      { status: 'retrying', attemptCount: 1, nextAttemptAt: '2026-01-31T12:00:00.000Z' },
    ])
    api.bookmark()
    await settle()
    expect(await idsOf()).toEqual([])
  })

  it('cannot be read before all of it is known, and says how far that has come', async () => {
    await expect(index.list(BILLING, ALL)).rejects.toMatchObject({ code: 'overloaded', retryAfter: 2 })
    expect(index.progress).toBe('reading the events of the delivery log: 0 lines so far')
    let open = () => undefined as unknown
    api.kinds.outcomesegments.gate = new Promise((resolve) => {
      open = () => resolve()
    })
    api.accept('segment', [event(1)])
    index.start()
    await settle(20)
    expect(index.progress).toBe('reading the outcomes of the delivery log: 1 lines so far')
    expect([...index.unfinished()]).toEqual([])
    await expect(index.read(BILLING, `msg_${idAt(1)}`)).rejects.toMatchObject({ code: 'overloaded' })
    open()
    await index.ready
    expect(index.progress).toBeUndefined()
    expect(await idsOf()).toHaveLength(1)
  })

  it('is read again when the store of the cluster was set back', async () => {
    api.accept('segment-a', [event(1)])
    await started()
    const { deliverysegments: segments } = api.kinds
    for (const kind of Object.values(api.kinds)) kind.version = 5000
    api.accept('segment-b', [event(2)])
    await settle()
    expect(await idsOf()).toHaveLength(2)
    for (const kind of Object.values(api.kinds)) kind.restore(300)
    api.accept('segment-a', [event(1)])
    segments.endWatches(new ApiError('Gone', 'too old', { status: 410 }))
    await clock.elapse(60_000)
    await settle(20)
    expect(await idsOf()).toEqual([`msg_${idAt(1)}`])
    expect(index.stats().restarts).toBe(1)
    expect(lines).toContain('The log of deliveries is read again')
  })

  it('finds after a watch was cut off what went meanwhile', async () => {
    api.accept('segment-a', [event(1)])
    api.accept('segment-b', [event(2)])
    api.show(idAt(3), 'uid-a')
    api.show(idAt(4), 'uid-a')
    await started()
    api.remove('deliverysegments', 'segment-a', true)
    api.remove('webhookdeliveries', deliveryObjectName(idAt(3), 'uid-a'), true)
    for (const kind of Object.values(api.kinds))
      kind.endWatches(new ApiError('Gone', 'too old', { status: 410 }))
    await clock.elapse(60_000)
    expect(await idsOf()).toEqual([`msg_${idAt(4)}`, `msg_${idAt(2)}`])
  })

  it('passes by an object whose name is not that of what it holds', async () => {
    api.kinds.webhookdeliveries.put('0'.repeat(26), { fields: { spec: {} } })
    api.show(idAt(1), 'uid-a')
    const [own] = [...api.kinds.webhookdeliveries.objects.values()].filter(({ spec }) => spec)
    api.kinds.webhookdeliveries.put(deliveryObjectName(idAt(2), 'uid-a'), { fields: { spec: own?.spec } })
    await started()
    expect(await idsOf()).toEqual([`msg_${idAt(1)}`])
  })

  it('ends while it is being read, and reads nothing more', async () => {
    let open = () => undefined as unknown
    api.kinds.deliverysegments.gate = new Promise((resolve) => {
      open = () => resolve()
    })
    index.start()
    await settle()
    const ended = index.stop()
    open()
    await ended
    await settle()
    expect(Object.values(api.kinds).map(({ lists }) => lists)).toEqual([1, 0, 0])
  })
})

describe('one delivery', () => {
  it('has its attempts from the record of its outcome while it has no object', async () => {
    const version = api.accept('segment', [event(1), event(2)])
    api.tell('outcomes', [sent(version, 1), sent(version, 0)])
    await started()
    expect(await index.read(BILLING, `msg_${idAt(1)}`)).toEqual({
      deliveryId: `msg_${idAt(1)}`,
      eventType: 'test.happened',
      status: 'succeeded',
      attemptCount: 1,
      completedAt: '2026-01-31T12:00:01.012Z',
      createdAt: '2026-01-31T12:00:01.000Z',
      attempts: [ATTEMPT],
    })
    expect(api.gets).toBe(1)
  })

  it('has the attempts of all records where nobody could make an object of it', async () => {
    const version = api.accept('segment', [event(1)])
    const position = { version, index: 0 }
    const later = { ...ATTEMPT, at: '2026-01-31T12:05:00.000Z' }
    api.tell('outcomes-b', [{ kind: 'failed', position, attempt: FAILED, nextAttemptAt: START + 300_000 }])
    api.tell('outcomes-a', [{ ...sent(version), attempt: later }])
    await started()
    expect(await index.read(BILLING, `msg_${idAt(1)}`)).toMatchObject({
      status: 'succeeded',
      attemptCount: 2,
      attempts: [FAILED, later],
    })
  })

  it('is what its object says now, also where the watch has not told that yet', async () => {
    api.accept('segment', [event(1)])
    api.show(idAt(1), 'uid-a', { state: 'retrying', attemptCount: 1, attempts: [FAILED] })
    await started()
    const attempts = [FAILED, ATTEMPT]
    api.show(idAt(1), 'uid-a', { state: 'succeeded', attemptCount: 2, attempts }, true)
    expect(await index.read(BILLING, `msg_${idAt(1)}`)).toMatchObject({ status: 'succeeded', attempts })
  })

  it('is what the log says of it where its object has no status yet', async () => {
    const version = api.accept('segment', [event(1)])
    api.tell('outcomes', [{ ...sent(version), object: true }])
    api.show(idAt(1), 'uid-a')
    await started()
    expect(await index.read(BILLING, `msg_${idAt(1)}`)).toMatchObject({
      status: 'succeeded',
      attemptCount: 1,
      attempts: [ATTEMPT],
    })
  })

  it('has no attempts before the first', async () => {
    api.accept('segment', [event(1)])
    await started()
    expect(await index.read(BILLING, `msg_${idAt(1)}`)).toMatchObject({ status: 'pending', attempts: [] })
  })

  it('is found by its object where its line was left out', async () => {
    index = open(1)
    api.show(idAt(1), 'uid-a', { state: 'succeeded', attemptCount: 1, attempts: [ATTEMPT] })
    api.show(idAt(2), 'uid-a', { state: 'succeeded', attemptCount: 1, attempts: [ATTEMPT] })
    await started()
    expect(index.stats()).toMatchObject({ lines: 1, dropped: 1 })
    for (const number of [1, 2])
      expect(await index.read(BILLING, `msg_${idAt(number)}`)).toMatchObject({ attempts: [ATTEMPT] })
  })

  it('is not there once its object is gone, also where the watch has not told that yet', async () => {
    api.show(idAt(1), 'uid-a', { state: 'succeeded', attemptCount: 1 })
    await started()
    api.remove('webhookdeliveries', deliveryObjectName(idAt(1), 'uid-a'), true)
    expect(await index.read(BILLING, `msg_${idAt(1)}`)).toBeUndefined()
  })

  it('stays without its attempts where somebody deleted what told of them', async () => {
    const version = api.accept('segment', [event(1)])
    api.tell('outcomes', [sent(version)])
    await started()
    api.remove('outcomesegments', 'outcomes')
    expect(await index.read(BILLING, `msg_${idAt(1)}`)).toMatchObject({ status: 'succeeded', attempts: [] })
  })

  it.each([
    { why: 'of another endpoint', id: `msg_${idAt(7)}`, endpoint: BILLING },
    {
      why: 'of this name in another organization',
      id: `msg_${idAt(1)}`,
      endpoint: { ...BILLING, namespace: 'x' },
    },
    { why: 'that nobody made', id: `msg_${idAt(99)}`, endpoint: BILLING },
    { why: 'with an id that is none', id: 'msg_../x', endpoint: BILLING },
    { why: 'with an id of a time that is none', id: `msg_${'z'.repeat(26)}`, endpoint: BILLING },
  ])('$why is none', async ({ id, endpoint }) => {
    api.accept('segment', [event(1), event(7, 'uid-b')])
    await started()
    expect(await index.read(endpoint, id)).toBeUndefined()
  })

  it('cannot be read while the cluster does not answer', async () => {
    api.show(idAt(1), 'uid-a')
    await started()
    api.down = new ApiError('Unavailable', 'nobody is there')
    await expect(index.read(BILLING, `msg_${idAt(1)}`)).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('lies in the segment that accepted it, for as long as that is there', async () => {
    api.accept('segment', [event(1)])
    api.show(idAt(1), 'uid-a')
    await started()
    expect(index.segmentOf(BILLING, `msg_${idAt(1)}`)).toBe('segment')
    expect(index.segmentOf(BILLING, `msg_${idAt(2)}`)).toBeUndefined()
    api.remove('deliverysegments', 'segment')
    await settle()
    expect(index.segmentOf(BILLING, `msg_${idAt(1)}`)).toBeUndefined()
    expect(await idsOf()).toHaveLength(1)
  })
})

it('the deliveries that have not ended are counted for each endpoint', async () => {
  const version = api.accept('segment', [event(1), event(2), event(3, 'uid-b')])
  api.tell('outcomes', [sent(version, 0), sent(version, 2)])
  api.show(idAt(4), 'uid-a', { state: 'retrying', attemptCount: 1 })
  await started()
  expect([...index.unfinished()]).toEqual([{ namespace: 'org', uid: 'uid-a', size: 2 }])
})
