import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION, SYSTEM } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import {
  type WebhookDeliveryStatus,
  webhookDeliveries,
  webhookDelivery,
} from '../../apis/webhook-delivery.ts'
import { webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { ApiError } from '../../kube/client.ts'
import { readSegment } from '../log/reader.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

const SUCCEEDED = { state: 'succeeded', attemptCount: 1 }

/** A view that has no status counts as a success. */
function shown(bed: EngineBed): (WebhookDeliveryStatus | undefined)[] {
  return bed.objects.map((raw) => webhookDelivery.parse(raw).status)
}

async function kinds(bed: EngineBed): Promise<string[]> {
  return (await bed.records()).map(({ kind }) => kind)
}

/** One delivery that the process did not survive; the next one takes attempts well. */
async function killed(how: { code: number; at: Parameters<EngineBed['api']['fail']>[0]; after?: boolean }) {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('one')
  bed.sender.answers.set('/one', how.code)
  bed.api.fail(how.at, how.after ? 'dies after' : 'dies before')
  bed.start()
  await bed.accept(bed.event([endpoint]))
  await bed.elapse(10 * SECOND)
  expect(bed.api.dead).toBe(true)
  const next = await bed.restarted(({ sender }) => sender.answers.set('/one', 200))
  return { bed, next }
}

const recording = calling('create', outcomeSegments)
const showing = calling('create', webhookDeliveries)
const telling = calling('patch', webhookDeliveries)
const recorded = (kind: string) =>
  calling('create', outcomeSegments, (body) => JSON.stringify(body).includes(kind))

describe('a process that was killed', () => {
  it('between the append and the first attempt: it is attempted', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    await bed.append(bed.event([endpoint]))
    const next = await bed.restarted(({ sender }) => sender.answers.set('/one', 200))
    await next.elapse(SECOND)
    expect(next.begun('one')).toHaveLength(1)
    expect(shown(next)).toMatchObject([{ state: 'succeeded', attemptCount: 1 }])
    expect(next.segments.size).toBe(0)
  })

  it('between the answer and its record: it is attempted again', async () => {
    const { next } = await killed({ code: 200, at: recording })
    await next.elapse(SECOND)
    expect(next.begun('one')).toHaveLength(1)
    expect(shown(next)).toMatchObject([{ state: 'succeeded', attemptCount: 1 }])
  })

  it('when the record was written and nobody knew: it is not attempted again', async () => {
    const { next } = await killed({ code: 200, at: recording, after: true })
    await next.elapse(SECOND)
    expect(next.begun('one')).toEqual([])
    expect(await kinds(next)).toEqual(['sent'])
    expect(next.segments.size).toBe(0)
  })

  it.each([
    { where: 'before its object', at: showing, objects: [] },
    { where: 'between its object and the status', at: showing, after: true, objects: [SUCCEEDED] },
    { where: 'before the status', at: telling, objects: [SUCCEEDED] },
    { where: 'after the status', at: telling, after: true, objects: [SUCCEEDED] },
  ])(
    'after a success, $where: it is not attempted again, and is a success',
    async ({ at, after = false, objects }) => {
      const { next } = await killed({ code: 200, at, after })
      await next.elapse(SECOND)
      expect(next.begun('one')).toEqual([])
      expect(shown(next)).toMatchObject(objects)
      expect((await kinds(next)).filter((kind) => kind !== 'ended')).toEqual(['sent'])
      expect(next.segments.size).toBe(0)
    },
  )

  it.each([
    { where: 'after the record', at: recorded('failed'), after: true },
    { where: 'between its object and the status', at: showing, after: true },
    { where: 'after the status', at: telling, after: true },
  ])('after a failure, $where: the wait goes on where it was', async ({ at, after }) => {
    const { next } = await killed({ code: 500, at, after })
    await next.elapse(SECOND)
    expect(shown(next)).toMatchObject([{ state: 'retrying', attemptCount: 1 }])
    expect(next.begun('one')).toEqual([])
    await next.elapse(30 * SECOND)
    expect(next.begun('one')).toHaveLength(1)
    expect(shown(next)).toMatchObject([{ state: 'succeeded', attemptCount: 2 }])
  })

  it('while its endpoint was counted as failing: it counts once, and no ninth attempt is made', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { concurrency: 1 })
    bed.sender.answers.set('/one', 500)
    bed.start()
    await bed.accept(bed.event([endpoint]), bed.event([endpoint]), bed.event([endpoint]))
    // Six of the seven waits.
    await bed.elapse(4 * 60 * MINUTE)
    expect(bed.begun('one')).toHaveLength(21)
    bed.api.fail(calling('patch', webhookEndpoints), 'dies after')
    await bed.elapse(6 * 60 * MINUTE)
    expect(bed.api.dead).toBe(true)
    const next = await bed.restarted(({ sender }) => sender.answers.set('/one', 500))
    await next.elapse(12 * 60 * MINUTE)
    const [raw] = next.store.all(webhookEndpoints)
    expect(webhookEndpoint.parse(raw).status?.consecutiveFailures).toBe(3)
    expect(shown(next).map((status) => status?.state)).toEqual(['exhausted', 'exhausted', 'exhausted'])
    const attempts = [...bed.begun('one'), ...next.begun('one')]
    const ofEach = [...new Set(attempts)].map((id) => attempts.filter((other) => other === id).length)
    expect(ofEach).toEqual([8, 8, 8])
  })

  it('with a large backlog of an ordered endpoint, some of it in objects: the order stays', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { ordered: true })
    bed.start()
    const ids: string[] = []
    for (let i = 0; i < 10; i += 1)
      ids.push(...(await bed.accept(bed.event([endpoint]), bed.event([endpoint]))))
    await bed.elapse(10 * SECOND)
    expect(bed.objects).toHaveLength(20)
    for (let i = 0; i < 10; i += 1) ids.push(...(await bed.accept(bed.event([endpoint]))))
    const next = await bed.restarted(({ sender }) => sender.answers.set('/one', 200))
    await next.elapse(MINUTE)
    expect(next.begun('one')).toEqual(ids)
  })

  it('of several deliveries only the open ones go on', async () => {
    const bed = new EngineBed()
    const good = await bed.endpoint('good')
    const bad = await bed.endpoint('bad', { ordered: true })
    bed.sender.answers.set('/good', 200)
    bed.start()
    await bed.accept(...Array.from({ length: 50 }, () => bed.event([good, bad])))
    await bed.elapse(500)
    expect(bed.begun('good')).toHaveLength(50)
    const next = await bed.restarted(({ sender }) => sender.answers.set('/good', 200).set('/bad', 200))
    await next.elapse(MINUTE)
    expect(next.begun('good')).toEqual([])
    expect(next.begun('bad')).toHaveLength(50)
    expect(next.segments.lowWater).toBeGreaterThan(0)
  })
})

describe('an event that was appended twice', () => {
  it('is delivered once', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.start()
    const event = bed.event([endpoint], 'key')
    await bed.accept(event, event)
    await bed.accept(event)
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(1)
    expect(bed.segments.size).toBe(0)
    expect((await bed.records()).filter(({ kind }) => kind === 'canceled')).toMatchObject([
      { reason: 'Duplicate' },
      { reason: 'Duplicate' },
    ])
  })

  it('is delivered once, though the first place was closed before a restart and the second seen after it', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.start()
    const open = bed.event([await bed.endpoint('hangs')])
    const event = bed.event([endpoint], 'key')
    // Something older stays open, so that the first place is ahead of the mark.
    await bed.accept(open)
    await bed.accept(event)
    await bed.elapse(SECOND)
    const next = await bed.restarted(({ sender }) => sender.answers.set('/one', 200))
    await next.accept(event)
    await next.elapse(MINUTE)
    expect(next.begun('one')).toEqual([])
  })

  it('is delivered once, though the first place is behind the mark', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.start()
    const event = bed.event([endpoint], 'key')
    await bed.accept(event)
    await bed.elapse(SECOND)
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(SECOND)
    const next = await bed.restarted(({ sender }) => sender.answers.set('/one', 200))
    expect(next.segments.lowWater).toBeGreaterThan(0)
    await next.accept(event)
    await next.elapse(MINUTE)
    expect(next.begun('one')).toEqual([])
  })
})

describe('what comes from a backup', () => {
  it('is not sent: a segment that is older than its creation is canceled', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.start()
    const segment = await bed.append(bed.event([endpoint]))
    await bed.elapse(6 * MINUTE)
    const { metadata, ...rest } = await bed.store.get(deliverySegments, {
      namespace: SYSTEM,
      name: segment.name,
    })
    await bed.store.delete(deliverySegments, { namespace: SYSTEM, name: segment.name })
    const restored = await bed.store.create(deliverySegments, { ...rest, metadata })
    const read = readSegment(restored)
    if (read) bed.follower.addSegment(read)
    await bed.elapse(MINUTE)
    expect(bed.sender.attempts).toEqual([])
    expect(await bed.records()).toMatchObject([{ kind: 'canceled', reason: 'Restored' }])
    expect(bed.segments.size).toBe(0)
  })

  it('is not sent: an object that is older than its creation is canceled, however long that cannot be written', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 500)
    bed.start()
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(6 * MINUTE)
    const [object] = bed.objects
    if (!object) throw new Error('it has no object')
    const ref = { namespace: ORGANIZATION, name: object.metadata.name }
    await bed.store.delete(webhookDeliveries, ref)
    await bed.store.create(webhookDeliveries, object)
    const next = await bed.restarted(({ api, sender }) => {
      sender.answers.set('/one', 200)
      api.fail(calling('get', webhookDeliveries), { before: new ApiError('Unavailable', 'no answer') }, 5)
    })
    await next.elapse(60 * MINUTE)
    expect(next.sender.attempts).toEqual([])
    expect(shown(next)).toMatchObject([{ state: 'canceled', reason: 'Restored' }])
    expect(next.engine.counters.total).toBe(0)
  })
})

it('a record of what the store had before it was set back does not close what is written in its place', async () => {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  bed.start()
  const segment = await bed.append(bed.event([endpoint]))
  const { version } = segment
  const moved = { kind: 'moved', position: { version, index: 0 } } as const
  bed.follower.applyOutcomes({ version: version - 10, writer: 'another', records: [moved] })
  bed.follower.addSegment(segment)
  await bed.elapse(SECOND)
  expect(bed.begun('one')).toHaveLength(1)
})

describe('reading back', () => {
  it('goes on when lists of deliveries fail or expire, and takes none twice', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 500)
    bed.start()
    await bed.accept(...Array.from({ length: 20 }, () => bed.event([endpoint])))
    await bed.elapse(10 * SECOND)
    const next = await bed.restarted(({ api }) => {
      const listing = calling('list', webhookDeliveries)
      api.fail(listing, { before: new ApiError('Unavailable', 'no answer') }, 3)
      api.fail(listing, { before: new ApiError('Gone', 'the page has expired') }, 2)
    })
    expect(next.engine.counters.total).toBe(20)
    next.sender.answers.set('/one', 200)
    await next.elapse(MINUTE)
    expect(next.begun('one')).toHaveLength(20)
  })

  it('leaves out an object that cannot be read, and goes on with the others', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 500)
    bed.start()
    await bed.accept(bed.event([endpoint]), bed.event([endpoint]))
    await bed.elapse(10 * SECOND)
    await bed.store.create(webhookDeliveries, {
      metadata: { namespace: ORGANIZATION, name: 'strange' },
      spec: { endpoint: 7 },
    })
    const next = await bed.restarted()
    expect(next.engine.counters.total).toBe(2)
    expect(next.complaints).toEqual(['failed to read a WebhookDelivery'])
  })
})
