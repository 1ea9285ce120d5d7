/** Views of bodies that stay in the log: their segment must stay too, whichever replica deletes it. */
import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { logOn } from '../../../test/support/log-on.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { webhookDeliveries, webhookDelivery } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'
import { Retention } from '../log/retention-loop.ts'
import { createEventLog } from '../log/writers.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const LARGE = JSON.stringify('x'.repeat(17 * 1024))

const isCreate = calling('create', webhookDeliveries)

/** A replica that sends, and another one that only follows the log. */
async function two() {
  const owner = new EngineBed()
  const one = await owner.endpoint('one')
  owner.sender.answers.set('/one', 200)
  owner.start()
  const other = new EngineBed(owner)
  other.owns = () => false
  const publish = async (dataText?: string) => {
    const segment = await owner.append(owner.event([one], undefined, dataText))
    for (const bed of [owner, other]) bed.follower.addSegment(segment)
    return segment
  }
  const elapse = async (ms: number) => {
    await owner.elapse(ms)
    other.showOutcomes()
  }
  return { owner, other, one, publish, elapse }
}

/** Both have nothing pending, and count the segment as closed or not. */
function expectAtBoth(beds: readonly EngineBed[], { isOpen }: { isOpen: boolean }): void {
  for (const { engine, segments } of beds)
    expect([engine.counters.total, segments.size]).toEqual([0, isOpen ? 1 : 0])
}

describe('the entry of a first success with a large body', () => {
  it('stays open at all replicas until its view exists, and its delivery has ended', async () => {
    const { owner, other, publish, elapse } = await two()
    const made = Promise.withResolvers<void>()
    owner.api.fail(isCreate, { hold: made.promise })
    const segment = await publish(LARGE)
    await elapse(10 * SECOND)
    expectAtBoth([owner, other], { isOpen: true })
    expect(owner.ended).toMatchObject([{ state: 'succeeded' }])
    expect([owner.objects, owner.engine.ctx.payloads.bytes, other.promotedElsewhere]).toEqual([[], 0, []])
    made.resolve()
    await elapse(SECOND)
    expectAtBoth([owner, other], { isOpen: false })
    expect(other.promotedElsewhere).toEqual([[segment.name, 0]])
    expect(owner.objects.map((raw) => webhookDelivery.parse(raw))).toMatchObject([
      { spec: { payloadRef: { segment: segment.name } }, status: { state: 'succeeded', attemptCount: 1 } },
    ])
  })

  it('is closed when its view is left out', async () => {
    const { owner, other, publish, elapse } = await two()
    const grant = owner.api.fail(isCreate, { before: new ApiError('Quota', 'exceeded quota') }, 1000)
    await publish(LARGE)
    await elapse(5 * SECOND)
    expectAtBoth([owner, other], { isOpen: false })
    grant()
    owner.api.fail(isCreate, { before: new ApiError('Unavailable', 'down') }, 1000)
    await publish(LARGE)
    await elapse(5 * SECOND)
    expectAtBoth([owner, other], { isOpen: true })
    await elapse(2 * MINUTE)
    expectAtBoth([owner, other], { isOpen: false })
    expect(owner.objects).toEqual([])
  })

  it('is closed at once if there is no room for its view', async () => {
    const { owner, other, publish, elapse } = await two()
    owner.engine.views.hasRoom = () => false
    await publish(LARGE)
    await elapse(5 * SECOND)
    expectAtBoth([owner, other], { isOpen: false })
    expect([owner.objects, other.promotedElsewhere]).toEqual([[], []])
  })

  it('gets its object from the next process if this one dies before', async () => {
    const { owner, publish, elapse } = await two()
    owner.api.fail(isCreate, { before: new ApiError('Unavailable', 'down') }, 1000)
    await publish(LARGE)
    await elapse(5 * SECOND)
    const next = await owner.restarted()
    await next.elapse(5 * SECOND)
    expect(next.objects.map((raw) => webhookDelivery.parse(raw).status)).toMatchObject([
      { state: 'succeeded', attemptCount: 1 },
    ])
    expect(next.begun('one')).toEqual([])
    expectAtBoth([next], { isOpen: false })
  })

  it('is closed, and nothing is sent again, if the shard is handed over before', async () => {
    const { owner, other, one, publish, elapse } = await two()
    const shards = new Set([shardOf(one.metadata.uid)])
    const take = async (bed: EngineBed) => {
      bed.owns = (shard) => shards.has(shard)
      const started = bed.takeOver.start(shards, new AbortController().signal)
      await elapse(SECOND)
      await started
    }
    await take(owner)
    owner.api.fail(isCreate, { before: new ApiError('Unavailable', 'down') }, 1000)
    await publish(LARGE)
    await elapse(5 * SECOND)
    owner.owns = () => false
    const ended = owner.takeOver.end(shards)
    await elapse(SECOND)
    await ended
    other.engine.start()
    await take(other)
    await elapse(2 * MINUTE)
    owner.showOutcomes()
    expectAtBoth([owner, other], { isOpen: false })
    expect([owner.begun('one').length, other.begun('one')]).toEqual([1, []])
  })
})

it('the entry of a first success with a small body is closed by its record', async () => {
  const { owner, other, publish, elapse } = await two()
  owner.api.fail(isCreate, { before: new ApiError('Unavailable', 'down') }, 1000)
  await publish()
  await elapse(5 * SECOND)
  expectAtBoth([owner, other], { isOpen: false })
})

it('the replica that deletes segments keeps that of a view that another one is making, or has made', async () => {
  const { owner, other, publish, elapse } = await two()
  const { clock, store } = owner
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const limits = { succeededMs: HOUR, failedMs: HOUR, maxFinishedPerEndpoint: 9, maxFinishedBytes: 1e6 }
  const retention = new Retention({
    resources: other.api,
    store: logOn(other.api, { clock }),
    clock,
    log,
    limits: { ...limits, maxLogBytes: 1e6 },
    directory: other.directory,
    lowWater: () => other.segments.lowWater,
    isClosed: (position) => other.segments.isClosed(position),
    healthy: () => true,
    cancelHeld: () => undefined,
    isOurs: () => false,
    eventLog: createEventLog({ store: logOn(other.api, { clock }), writer: 'other', clock }),
  })
  const made = Promise.withResolvers<void>()
  owner.api.fail(isCreate, { hold: made.promise })
  const segment = await publish(LARGE)
  const pass = async () => {
    for (const [from] of other.promotedElsewhere.splice(0)) {
      const [{ metadata } = { metadata: { name: 'none' } }] = owner.objects
      retention.payloadReferred({ namespace: ORGANIZATION, name: metadata.name }, from)
    }
    const read = retention.followLog(() => Number.POSITIVE_INFINITY)
    await clock.elapse(MINUTE)
    await read
    for (let times = 0; times < 3; times += 1) {
      await retention.pass()
      await elapse(5 * SECOND)
    }
  }
  const names = () => store.all(deliverySegments).map(({ metadata }) => metadata.name)
  // It waited for long before it was sent.
  await elapse(2 * HOUR)
  await pass()
  expect(names()).toEqual([segment.name])
  made.resolve()
  await elapse(SECOND)
  await pass()
  expect(names()).toEqual([segment.name])
  const [view] = owner.objects
  await store.delete(webhookDeliveries, { namespace: ORGANIZATION, name: view?.metadata.name ?? '' })
  await elapse(2 * MINUTE)
  await pass()
  expect(names()).toEqual([])
})
