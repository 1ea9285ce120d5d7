import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { codeOf } from '../../../test/support/code-of.ts'
import {
  ATTEMPT,
  BILLING,
  DeliveryIndexBed,
  event,
  FAILED,
  idAt,
  nameAt,
  START,
  sent,
} from '../../../test/support/delivery-index-bed.ts'
import { settle } from '../../../test/support/fake-clock.ts'
import { deliveryObjectName } from '../../apis/ids.ts'
import { ApiError } from '../../kube/client.ts'

let bed: DeliveryIndexBed

beforeEach(() => {
  bed = new DeliveryIndexBed()
})

afterEach(async () => {
  await bed.index.stop()
})

describe('one delivery', () => {
  it('has its attempts from the record of its outcome while it has no object', async () => {
    const version = bed.api.accept('segment', [event(1), event(2)])
    bed.api.tell('outcomes', [sent(version, 1), sent(version, 0)])
    await bed.start()
    expect(await bed.read(1)).toEqual({
      deliveryId: idAt(1),
      endpointId: 'whe_billing',
      eventType: 'test.happened',
      status: 'succeeded',
      attemptCount: 1,
      completedAt: '2026-01-31T12:00:01.012Z',
      createdAt: '2026-01-31T12:00:01.000Z',
      attempts: [ATTEMPT],
    })
    expect(bed.api.gets).toBe(1)
  })

  it('has the attempts of all records where nobody could make an object of it', async () => {
    const version = bed.api.accept('segment', [event(1)])
    const position = { version, index: 0 }
    const later = { ...ATTEMPT, at: '2026-01-31T12:05:00.000Z' }
    bed.api.tell('outcomes-b', [
      { kind: 'failed', position, attempt: FAILED, nextAttemptAt: START + 300_000 },
    ])
    bed.api.tell('outcomes-a', [{ ...sent(version), attempt: later }])
    await bed.start()
    expect(await bed.read(1)).toMatchObject({
      status: 'succeeded',
      attemptCount: 2,
      attempts: [FAILED, later],
    })
  })

  it.each([
    { what: 'success', record: (version: number) => sent(version), attempts: [ATTEMPT] },
    {
      what: 'last failure',
      record: (version: number) =>
        ({
          kind: 'failed',
          position: { version, index: 0 },
          attempt: FAILED,
          nextAttemptAt: 0,
        }) as const,
      attempts: [FAILED],
    },
  ])('has its $what once, although that is in the log twice', async ({ record, attempts }) => {
    const version = bed.api.accept('segment', [event(1)])
    // The list has the second one first.
    bed.api.tell('outcomes-b', [record(version)])
    bed.api.tell('outcomes-a', [record(version)])
    await bed.start()
    expect(await bed.read(1)).toMatchObject({ attemptCount: 1, attempts })
  })

  it('is what its object says now, also where the watch has not told that yet', async () => {
    bed.api.accept('segment', [event(1)])
    bed.api.show(nameAt(1), 'uid-a', { state: 'retrying', attemptCount: 1, attempts: [FAILED] })
    await bed.start()
    const attempts = [FAILED, ATTEMPT]
    bed.api.show(nameAt(1), 'uid-a', { state: 'succeeded', attemptCount: 2, attempts }, { silently: true })
    expect(await bed.read(1)).toMatchObject({ status: 'succeeded', attempts })
  })

  it('is what the log says of it where its object has no status yet', async () => {
    const version = bed.api.accept('segment', [event(1)])
    bed.api.tell('outcomes', [{ ...sent(version), object: true }])
    bed.api.show(nameAt(1), 'uid-a')
    await bed.start()
    expect(await bed.read(1)).toMatchObject({
      status: 'succeeded',
      attemptCount: 1,
      attempts: [ATTEMPT],
    })
  })

  it('is what the log says of it where its view has no status yet', async () => {
    const version = bed.api.accept('segment', [event(1)])
    bed.api.tell('outcomes', [sent(version)])
    bed.api.show(nameAt(1), 'uid-a', { state: 'pending' }, { isView: true })
    await bed.start()
    const want = { status: 'succeeded', attemptCount: 1, attempts: [ATTEMPT] }
    expect(await bed.read(1)).toMatchObject(want)
    expect(await bed.lines()).toMatchObject([{ status: 'succeeded', attemptCount: 1 }])
  })

  it('has no attempts before the first', async () => {
    bed.api.accept('segment', [event(1)])
    await bed.start()
    expect(await bed.read(1)).toMatchObject({ status: 'pending', attempts: [] })
  })

  it('is found by its object where its line was left out', async () => {
    bed = new DeliveryIndexBed(1)
    bed.api.show(nameAt(1), 'uid-a', { state: 'succeeded', attemptCount: 1, attempts: [ATTEMPT] })
    bed.api.show(nameAt(2), 'uid-a', { state: 'succeeded', attemptCount: 1, attempts: [ATTEMPT] })
    await bed.start()
    expect(bed.index.stats()).toMatchObject({ lines: 1, dropped: 1 })
    for (const number of [1, 2]) expect(await bed.read(number)).toMatchObject({ attempts: [ATTEMPT] })
  })

  it('is not there once its object is gone, also where the watch has not told that yet', async () => {
    bed.api.show(nameAt(1), 'uid-a', { state: 'succeeded', attemptCount: 1 })
    await bed.start()
    bed.api.remove('webhookdeliveries', deliveryObjectName(nameAt(1), 'uid-a'), true)
    bed.clock.setWallBy(60_000)
    expect(await bed.read(1)).toBeUndefined()
  })

  it('stays without its attempts where somebody deleted what told of them', async () => {
    const version = bed.api.accept('segment', [event(1)])
    bed.api.tell('outcomes', [sent(version)])
    await bed.start()
    bed.api.remove('outcomesegments', 'outcomes')
    expect(await bed.read(1)).toMatchObject({ status: 'succeeded', attempts: [] })
  })

  it.each([
    { why: 'of another endpoint', id: idAt(7), endpoint: BILLING },
    {
      why: 'of this name in another organization',
      id: idAt(1),
      endpoint: { ...BILLING, namespace: 'x' },
    },
    { why: 'that nobody made', id: idAt(99), endpoint: BILLING },
    { why: 'with an id that is none', id: 'msg_../x', endpoint: BILLING },
    { why: 'with an id of a time that is none', id: `msg_${'z'.repeat(26)}`, endpoint: BILLING },
  ])('$why is none', async ({ id, endpoint }) => {
    bed.api.accept('segment', [event(1), event(7, 'uid-b')])
    await bed.start()
    bed.clock.setWallBy(-60_000)
    expect(await bed.index.read(endpoint, id)).toBeUndefined()
  })

  it('cannot be read while the cluster does not answer', async () => {
    bed.api.show(nameAt(1), 'uid-a')
    await bed.start()
    bed.api.down = new ApiError('Unavailable', 'nobody is there')
    expect(await codeOf(bed.read(1))).toBe('unavailable')
  })

  it('lies in the segment that accepted it, for as long as that is there', async () => {
    bed.api.accept('segment', [event(1)])
    bed.api.show(nameAt(1), 'uid-a')
    await bed.start()
    expect(bed.index.segmentOf(BILLING, idAt(1))).toBe('segment')
    expect(bed.index.segmentOf(BILLING, idAt(2))).toBeUndefined()
    bed.api.remove('deliverysegments', 'segment')
    await settle()
    expect(bed.index.segmentOf(BILLING, idAt(1))).toBeUndefined()
    expect(await bed.ids()).toHaveLength(1)
  })

  it('has a body as long as its object or its segment is there', async () => {
    const { event: accepted, targets } = event(1)
    bed.api.accept('segment', [{ event: { ...accepted, payload: '{"data":1}' }, targets }, event(7, 'uid-b')])
    bed.api.show(nameAt(2), 'uid-a')
    await bed.start()
    const body = (number: number) => bed.index.body(BILLING, idAt(number))
    expect(await Promise.all([1, 2, 7, 9].map(body))).toEqual(['{"data":1}', '{}', undefined, undefined])
    bed.api.remove('deliverysegments', 'segment', true)
    expect(await body(1)).toBeUndefined()
  })
})
