import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  ALL,
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
import { deliveryObjectName, endpointTag } from '../../apis/ids.ts'
import { ApiError } from '../../kube/client.ts'
import { objectBytes } from '../../webhooks/log/written-bytes.ts'

let bed: DeliveryIndexBed

beforeEach(() => {
  bed = new DeliveryIndexBed()
})

afterEach(async () => {
  await bed.index.stop()
})

describe('the log of an endpoint', () => {
  it('is one list of what lies in segments and what has an object, newest first', async () => {
    const version = bed.api.accept('segment-b', [event(1), event(2)])
    bed.api.accept('segment-a', [event(3)])
    bed.api.tell('outcomes', [sent(version)])
    bed.api.show(nameAt(2), 'uid-a', {
      state: 'retrying',
      attemptCount: 2,
      nextAttemptAt: '2026-01-31T12:30:00.000Z',
    })
    bed.api.show(nameAt(0), 'uid-a', {
      state: 'exhausted',
      attemptCount: 8,
      completedAt: '2026-01-31T11:00:00.000Z',
    })
    await bed.start()
    expect(await bed.index.list([BILLING], ALL)).toEqual({
      deliveries: [
        {
          deliveryId: idAt(3),
          endpointId: 'whe_billing',
          eventType: 'test.happened',
          status: 'pending',
          attemptCount: 0,
          createdAt: '2026-01-31T12:00:03.000Z',
        },
        {
          deliveryId: idAt(2),
          endpointId: 'whe_billing',
          eventType: 'test.happened',
          status: 'retrying',
          attemptCount: 2,
          nextAttemptAt: '2026-01-31T12:30:00.000Z',
          createdAt: '2026-01-31T12:00:02.000Z',
        },
        {
          deliveryId: idAt(1),
          endpointId: 'whe_billing',
          eventType: 'test.happened',
          status: 'succeeded',
          attemptCount: 1,
          completedAt: '2026-01-31T12:00:01.012Z',
          createdAt: '2026-01-31T12:00:01.000Z',
        },
        {
          deliveryId: idAt(0),
          endpointId: 'whe_billing',
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
    bed.api.accept('segment', [event(1), event(3)])
    bed.api.show(nameAt(2), 'uid-a', { state: 'succeeded', attemptCount: 1 })
    await bed.start()
    const page = await bed.index.list([BILLING], { limit: 2 })
    expect(page.next).toBe(`${idAt(2)}-${endpointTag('uid-a')}`)
    bed.api.remove('webhookdeliveries', deliveryObjectName(nameAt(2), 'uid-a'))
    await settle()
    expect(await bed.ids()).toHaveLength(2)
    expect((await bed.index.list([BILLING], { limit: 2, after: page.next })).deliveries).toMatchObject([
      { deliveryId: idAt(1) },
    ])
  })

  it('shows at once what this process appended, and nothing of it twice', async () => {
    await bed.start()
    const version = 500
    bed.index.appended({ segment: 'segment', version, firstDelivery: 0 }, [event(1)])
    bed.index.appended({ segment: 'segment', version, firstDelivery: 1 }, [event(2)])
    expect(await bed.ids()).toEqual([idAt(2), idAt(1)])
    bed.api.kinds.deliverysegments.version = version - 1
    expect(bed.api.accept('segment', [event(1), event(2), event(3)])).toBe(version)
    bed.api.tell('outcomes', [sent(version, 1)])
    await settle()
    expect((await bed.lines()).map(({ status }) => status)).toEqual(['pending', 'succeeded', 'pending'])
  })

  it('is empty of what another endpoint got, in this organization or another', async () => {
    bed.api.accept('segment', [event(1, 'uid-b')])
    await bed.start()
    expect(await bed.ids()).toEqual([])
    expect(
      (await bed.index.list([{ ...BILLING, uid: 'uid-b', namespace: 'other' }], ALL)).deliveries,
    ).toEqual([])
    expect((await bed.index.list([{ ...BILLING, uid: 'uid-b' }], ALL)).deliveries).toHaveLength(1)
  })

  it('of several endpoints is one list, whose pages neither skip nor repeat a delivery', async () => {
    const toBoth = [1, 2, 3].map((number) => {
      const { event: accepted, targets } = event(number)
      return { event: accepted, targets: [...targets, { name: 'audit', uid: 'uid-b' }] }
    })
    bed.api.accept('segment', [...toBoth, event(4, 'uid-c')])
    bed.api.show(nameAt(2), 'uid-b', { state: 'retrying', attemptCount: 1 })
    await bed.start()
    const endpoints = [BILLING, { namespace: 'org', name: 'audit', uid: 'uid-b' }]
    const found: string[] = []
    let after: string | undefined
    do {
      const page = await bed.index.list(endpoints, { limit: 2, after })
      found.push(...page.deliveries.map(({ deliveryId, endpointId }) => `${deliveryId} ${endpointId}`))
      after = page.next
    } while (after !== undefined)
    const wanted = [3, 2, 1].flatMap((number) => [`${idAt(number)} whe_audit`, `${idAt(number)} whe_billing`])
    expect(found.toSorted()).toEqual(wanted.toSorted())
    expect(found.map((one) => one.slice(0, 30))).toEqual(wanted.map((one) => one.slice(0, 30)))
    expect((await bed.index.list(endpoints, { limit: 9, status: 'retrying' })).deliveries).toMatchObject([
      { deliveryId: idAt(2), endpointId: 'whe_audit' },
    ])
    const ofEvent = { eventId: idAt(2), since: START + 2000, until: START + 2001 }
    const first = await bed.index.list(endpoints, { ...ofEvent, limit: 1 })
    const second = await bed.index.list(endpoints, { ...ofEvent, limit: 1, after: first.next })
    const both = [...first.deliveries, ...second.deliveries]
    expect(both.map(({ deliveryId, endpointId }) => `${deliveryId} ${endpointId}`).toSorted()).toEqual(
      wanted.slice(2, 4),
    )
    expect(second.next).toBeUndefined()
    for (const other of [{ since: START + 2001 }, { until: START + 2000 }, { eventId: idAt(5) }])
      expect((await bed.index.list(endpoints, { ...ofEvent, limit: 9, ...other })).deliveries).toEqual([])
    const [since, until] = [START + 2000, START + 3000]
    const one = await bed.index.list(endpoints, { limit: 9, since, until })
    expect(one.deliveries.map(({ deliveryId }) => deliveryId)).toEqual([idAt(2), idAt(2)])
  })

  it('tells which delivery a line repeats', async () => {
    const { event: repeated, targets } = event(1)
    bed.api.accept('segment', [{ event: { ...repeated, redeliveryOf: idAt(0) }, targets }])
    await bed.start()
    expect((await bed.lines())[0]?.redeliveryOf).toBe(idAt(0))
  })

  it('keeps a line that was moved until its object is seen, and drops it where that is gone again', async () => {
    const version = bed.api.accept('segment', [event(1)])
    await bed.start()
    const moved = { kind: 'moved', position: { version, index: 0 } } as const
    bed.api.tell('outcomes-a', [
      { kind: 'failed', position: moved.position, attempt: FAILED, nextAttemptAt: START },
    ])
    bed.api.tell('outcomes-b', [moved])
    await settle()
    expect(await bed.lines()).toMatchObject([
      { status: 'retrying', attemptCount: 1, nextAttemptAt: '2026-01-31T12:00:00.000Z' },
    ])
    bed.api.bookmark()
    await settle()
    expect(await bed.ids()).toEqual([])
  })

  it('leads to the event of a delivery whose object is gone, until its segment is gone', async () => {
    const version = bed.api.accept('segment', [event(-20)])
    const position = { version, index: 0 }
    bed.api.tell('outcomes-a', [{ kind: 'failed', position, attempt: FAILED, nextAttemptAt: START }])
    bed.api.show(nameAt(-20), 'uid-a', { state: 'retrying', attemptCount: 1, attempts: [FAILED] })
    bed.api.tell('outcomes-b', [{ kind: 'moved', position }])
    bed.api.show(nameAt(-20), 'uid-a', { state: 'succeeded', attemptCount: 2 })
    await bed.start()
    const found = async () => [
      (await bed.ids()).length,
      (await bed.index.event('org', idAt(-20)))?.segment,
      bed.index.segmentOf(BILLING, idAt(-20)),
    ]
    expect(await found()).toEqual([1, 'segment', 'segment'])
    bed.api.remove('webhookdeliveries', deliveryObjectName(nameAt(-20), 'uid-a'))
    await settle()
    expect(await found()).toEqual([0, 'segment', 'segment'])
    expect(await bed.read(-20)).toBeUndefined()
    bed.api.remove('deliverysegments', 'segment')
    await settle()
    expect(await found()).toEqual([0, undefined, undefined])
  })

  it('cannot be read before all of it is known, and says how far that has come', async () => {
    await expect(bed.index.list([BILLING], ALL)).rejects.toMatchObject({
      code: 'overloaded',
      detail: 'The delivery log is still loading (0 deliveries so far). Retry the request.',
      retryAfter: 2,
    })
    expect(bed.index.progress).toBe('loading the events of the delivery log (0 deliveries so far)')
    let open = () => undefined as unknown
    bed.api.kinds.outcomesegments.gate = new Promise((resolve) => {
      open = () => resolve()
    })
    bed.api.accept('segment', [event(1)])
    bed.index.start()
    await settle(20)
    expect(bed.index.progress).toBe('loading the outcomes of the delivery log (1 delivery so far)')
    expect([...bed.index.unfinished()]).toEqual([])
    await expect(bed.read(1)).rejects.toMatchObject({ code: 'overloaded' })
    open()
    await bed.index.ready
    expect(bed.index.progress).toBeUndefined()
    expect(await bed.ids()).toHaveLength(1)
  })

  it('is read again when the store of the cluster was set back', async () => {
    bed.api.accept('segment-a', [event(1)])
    await bed.start()
    const { deliverysegments: segments } = bed.api.kinds
    for (const kind of Object.values(bed.api.kinds)) kind.version = 5000
    bed.api.accept('segment-b', [event(2)])
    await settle()
    expect(await bed.ids()).toHaveLength(2)
    for (const kind of Object.values(bed.api.kinds)) kind.restore(300)
    bed.api.accept('segment-a', [event(1)])
    segments.endWatches(new ApiError('Gone', 'too old', { status: 410 }))
    await bed.clock.elapse(60_000)
    await settle(20)
    expect(await bed.ids()).toEqual([idAt(1)])
    expect(bed.index.stats().restarts).toBe(1)
    expect(bed.logLines).toContain('rebuilding delivery index')
  })

  it('keeps the process from being ready only while it is read for the first time', async () => {
    expect(bed.index.problem).toMatch(/^loading the events/)
    await bed.start()
    expect(bed.index.problem).toBeUndefined()
    const { kinds } = bed.api
    for (const kind of Object.values(kinds)) kind.version = 5000
    bed.api.accept('segment-b', [event(2)])
    await settle()
    for (const kind of Object.values(kinds)) kind.restore(300)
    let open = () => undefined as unknown
    kinds.outcomesegments.gate = new Promise((resolve) => {
      open = () => resolve()
    })
    kinds.deliverysegments.endWatches(new ApiError('Gone', 'too old', { status: 410 }))
    await bed.clock.elapse(60_000)
    expect(bed.index.progress).toMatch(/^loading the outcomes/)
    expect(bed.index.stats().reading).toBe(true)
    expect(bed.index.problem).toBeUndefined()
    open()
    await settle(20)
    expect(bed.index.progress).toBeUndefined()
    expect(bed.logLines).toContain('rebuilt delivery index')
  })

  it('counts while it is read the open bodies of before, and what this process appends meanwhile, once', async () => {
    const { kinds } = bed.api
    let open = () => undefined as unknown
    const hold = () => {
      kinds.outcomesegments.gate = new Promise((resolve) => {
        open = () => resolve()
      })
    }
    const append = (version: number, number: number) => {
      const accepted = event(number)
      for (const kind of Object.values(kinds)) kind.version = version - 1
      expect(bed.api.accept(`segment-${version}`, [accepted])).toBe(version)
      bed.index.appended({ segment: `segment-${version}`, version, firstDelivery: 0 }, [accepted])
    }
    const bytes = () => [bed.index.openBodies().total, bed.index.openBodies().of('org')]
    hold()
    bed.index.start()
    append(300, 1)
    await settle(20)
    append(310, 2)
    expect(bytes()).toEqual([4, 4])
    open()
    await bed.index.ready
    expect(bytes()).toEqual([4, 4])

    hold()
    for (const kind of Object.values(kinds)) kind.version = 5000
    bed.api.accept('segment-z', [event(3)])
    await settle()
    for (const kind of Object.values(kinds)) kind.restore(300)
    kinds.deliverysegments.endWatches(new ApiError('Gone', 'too old', { status: 410 }))
    await bed.clock.elapse(60_000)
    expect(bed.index.progress).toMatch(/^loading the outcomes/)
    expect(bytes()).toEqual([6, 6])
    append(400, 4)
    expect(bytes()).toEqual([8, 8])
    open()
    await settle(20)
    expect(bed.index.progress).toBeUndefined()
    expect(bytes()).toEqual([2, 2])
  })

  it('finds after a watch was cut off what went meanwhile', async () => {
    bed.api.accept('segment-a', [event(1)])
    bed.api.accept('segment-b', [event(2)])
    bed.api.show(nameAt(3), 'uid-a')
    bed.api.show(nameAt(4), 'uid-a')
    await bed.start()
    bed.api.remove('deliverysegments', 'segment-a', true)
    bed.api.remove('webhookdeliveries', deliveryObjectName(nameAt(3), 'uid-a'), true)
    for (const kind of Object.values(bed.api.kinds))
      kind.endWatches(new ApiError('Gone', 'too old', { status: 410 }))
    await bed.clock.elapse(60_000)
    expect(await bed.ids()).toEqual([idAt(4), idAt(2)])
  })

  it('passes by an object whose name is not that of what it holds', async () => {
    bed.api.kinds.webhookdeliveries.put('0'.repeat(26), { fields: { spec: {} } })
    bed.api.show(nameAt(1), 'uid-a')
    const [own] = [...bed.api.kinds.webhookdeliveries.objects.values()].filter(({ spec }) => spec)
    bed.api.kinds.webhookdeliveries.put(deliveryObjectName(nameAt(2), 'uid-a'), {
      fields: { spec: own?.spec },
    })
    await bed.start()
    expect(await bed.ids()).toEqual([idAt(1)])
  })

  it('ends while it is being read, and reads nothing more', async () => {
    let open = () => undefined as unknown
    bed.api.kinds.deliverysegments.gate = new Promise((resolve) => {
      open = () => resolve()
    })
    bed.index.start()
    await settle()
    const ended = bed.index.stop()
    open()
    await ended
    await settle()
    expect(Object.values(bed.api.kinds).map(({ lists }) => lists)).toEqual([1, 0, 0])
  })
})

describe('a delivery that another process has just accepted', () => {
  const now = event(0)
  const id = idAt(0)

  it('is waited for, and read as soon as the log has shown it', async () => {
    await bed.start()
    const answer = bed.index.read(BILLING, id)
    await bed.clock.elapse(500)
    bed.api.accept('segment', [now])
    await bed.clock.elapse(50)
    expect(await answer).toMatchObject({ deliveryId: id, status: 'pending' })
  })

  it('is not found when it has not come after a second', async () => {
    await bed.start()
    let over = false
    const answer = bed.index.read(BILLING, id).finally(() => {
      over = true
    })
    await bed.clock.elapse(900)
    expect(over).toBe(false)
    await bed.clock.elapse(100)
    expect(await answer).toBeUndefined()
  })

  it('is not waited for when its id is of another time, or as many of its organization wait as may', async () => {
    await bed.start()
    for (const seconds of [-6, 6]) expect(await bed.read(seconds)).toBeUndefined()
    const waiting = Array.from({ length: 20 }, () => bed.read(0))
    await settle()
    expect(await bed.read(0)).toBeUndefined()
    expect(await bed.index.event('org', id)).toBeUndefined()
    await bed.clock.elapse(1000)
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([undefined]))
  })

  it('is waited for however many requests of other organizations wait', async () => {
    await bed.start()
    const others = Array.from({ length: 1000 }, (_, number) => {
      const namespace = `other-${number % 5}`
      return number % 2 === 0 ? bed.index.read({ ...BILLING, namespace }, id) : bed.index.event(namespace, id)
    })
    await settle()
    const answer = bed.read(0)
    await bed.clock.elapse(500)
    bed.api.accept('segment', [now])
    await bed.clock.elapse(50)
    expect(await answer).toMatchObject({ deliveryId: id, status: 'pending' })
    await bed.clock.elapse(1000)
    expect(new Set(await Promise.all(others))).toEqual(new Set([undefined]))
  })
})

it('while the log cannot be watched, what is not known may be there all the same', async () => {
  bed.api.accept('before', [event(-20)])
  await bed.start()
  const { deliverysegments } = bed.api.kinds
  deliverysegments.endWatches(new ApiError('Unavailable', 'connection reset'))
  await settle()
  bed.api.accept('meanwhile', [event(-19)])
  expect(await bed.read(-20)).toMatchObject({ status: 'pending' })
  await expect(bed.read(-19)).rejects.toMatchObject({ code: 'overloaded', retryAfter: 2 })
  await bed.clock.elapse(60_000)
  expect(await bed.read(-19)).toMatchObject({ status: 'pending' })
  expect(await bed.read(-18)).toBeUndefined()
})

it('the deliveries that have not ended are counted for each endpoint', async () => {
  const version = bed.api.accept('segment', [event(1), event(2), event(3, 'uid-b')])
  bed.api.tell('outcomes', [sent(version, 0), sent(version, 2)])
  bed.api.show(nameAt(4), 'uid-a', { state: 'retrying', attemptCount: 1 })
  await bed.start()
  expect([...bed.index.unfinished()]).toEqual([{ namespace: 'org', uid: 'uid-a', size: 2, bytes: 4 }])
})

describe('what objects add to the store', () => {
  it('is called for each write that the watch reports, and not for what existed before', async () => {
    const written: [string, number][] = []
    bed.index.onObjectWritten = (organization, bytes) => void written.push([organization, bytes])
    bed.api.show(nameAt(1), 'uid-a', { state: 'retrying', attemptCount: 1 })
    await bed.start()
    expect(written).toEqual([])
    bed.api.show(nameAt(2), 'uid-a')
    bed.api.show(nameAt(1), 'uid-a', { state: 'retrying', attemptCount: 2 })
    await settle()
    expect(written).toEqual([
      ['org', objectBytes(2, 0)],
      ['org', objectBytes(2, 2)],
    ])
    bed.api.remove('webhookdeliveries', deliveryObjectName(nameAt(1), 'uid-a'))
    await settle()
    expect(written).toHaveLength(2)
  })
})
