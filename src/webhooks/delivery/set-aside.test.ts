import { expect, test } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { type WebhookDeliveryStatus, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

function statusOf(bed: EngineBed, endpoint: string): WebhookDeliveryStatus | undefined {
  const object = bed.objects.find(({ spec }) => (spec as { endpoint: string }).endpoint === endpoint)
  return object?.status as WebhookDeliveryStatus | undefined
}

/** A process that ends over its attempt at `poison`, and two more that do. */
async function endedThreeTimes(ordered = false) {
  let bed = new EngineBed()
  const poison = await bed.endpoint('poison', { ordered })
  const good = await bed.endpoint('good')
  bed.sender.answers.set('/good', 200)
  bed.start()
  await bed.accept(bed.event([poison, good]), ...(ordered ? [bed.event([poison])] : []))
  await bed.elapse(SECOND)
  for (let start = 1; start <= 3; start += 1) {
    expect(bed.begun('poison')).toHaveLength(1)
    bed = await bed.restarted(({ sender }) => sender.answers.set('/good', 200))
    await bed.elapse(SECOND)
    if (start < 3) expect(statusOf(bed, 'poison')).toBeUndefined()
  }
  return { bed, poison, good }
}

test('a delivery that two starts did not survive is set aside, and the endpoint says so', async () => {
  const { bed, good } = await endedThreeTimes()
  expect(bed.begun('poison')).toEqual([])
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'retrying', attemptCount: 0 })
  expect(bed.events.map(({ reason }) => reason)).toEqual(['SetAside'])
  await bed.accept(bed.event([good]))
  await bed.elapse(SECOND)
  expect(bed.begun('good')).toHaveLength(1)
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(5 * MINUTE)
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'succeeded', attemptCount: 1 })
  expect(bed.segments.size).toBe(0)
})

test('a process that ends over it again leaves it alone at its start', async () => {
  const { bed } = await endedThreeTimes()
  await bed.elapse(5 * MINUTE)
  expect(bed.begun('poison')).toHaveLength(1)
  const next = await bed.restarted()
  await next.elapse(4 * MINUTE)
  expect(next.begun('poison')).toEqual([])
  next.sender.answers.set('/poison', 200)
  await next.elapse(MINUTE)
  expect(statusOf(next, 'poison')).toMatchObject({ state: 'succeeded', attemptCount: 1 })
})

test('what follows it at an ordered endpoint waits for it', async () => {
  const { bed } = await endedThreeTimes(true)
  await bed.elapse(4 * MINUTE)
  expect(bed.begun('poison')).toEqual([])
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(6 * MINUTE)
  const ids = bed.begun('poison')
  expect(ids).toHaveLength(2)
  expect(bed.objects.every(({ status }) => (status as WebhookDeliveryStatus).state === 'succeeded')).toBe(
    true,
  )
})

test('a delivery that waits two seconds gets its object, and is never taken for a cause', async () => {
  let bed = new EngineBed()
  const slow = await bed.endpoint('slow')
  bed.start()
  await bed.accept(bed.event([slow]))
  for (let start = 0; start < 4; start += 1) {
    await bed.elapse(3 * SECOND)
    expect(bed.begun('slow')).toHaveLength(1)
    bed = await bed.restarted()
  }
  expect(bed.events).toEqual([])
})

/** An entry that stays in the log: its endpoint is disabled, and nobody may make its object. */
async function stuck() {
  const bed = new EngineBed()
  const one = await bed.endpoint('one', { state: 'disabled' })
  const shards = new Set([shardOf(one.metadata.uid)])
  const refuse = (of: EngineBed) =>
    of.api.fail(calling('create', webhookDeliveries), { before: new ApiError('Quota', 'full') }, 1000)
  const take = async (of: EngineBed) => {
    refuse(of)
    of.engine.start()
    const started = of.takeOver.start(shards, new AbortController().signal)
    await of.elapse(SECOND)
    await started
    of.engine.wake(shards)
  }
  await take(bed)
  const segment = await bed.append(bed.event([one]))
  bed.follower.addSegment(segment)
  await bed.elapse(5 * SECOND)
  const follow = async (before: EngineBed) => {
    const next = new EngineBed(before)
    next.showOutcomes()
    next.follower.addSegment(segment)
    await take(next)
    await next.elapse(5 * SECOND)
    return next
  }
  const handOver = async (of: EngineBed) => {
    const ended = of.takeOver.end(shards)
    await of.elapse(SECOND)
    await ended
  }
  return { bed, one, shards, follow, handOver }
}

test('what was handed over in order, however often, is not set aside', async () => {
  const { bed: first, one, follow, handOver } = await stuck()
  let bed = first
  for (let n = 0; n < 4; n += 1) {
    await handOver(bed)
    bed = await follow(bed)
  }
  expect((await bed.records()).map(({ kind }) => kind)).toEqual([])
  bed.sender.answers.set('/one', 200)
  await bed.change(one, { state: 'enabled' })
  await bed.elapse(SECOND)
  expect(bed.begun('one')).toHaveLength(1)
  expect(bed.events.map(({ reason }) => reason)).not.toContain('SetAside')
})

test('hand-overs in order between them do not hide that processes ended over it', async () => {
  const { bed: first, one, follow, handOver } = await stuck()
  let bed = first
  for (let n = 0; n < 3; n += 1) {
    bed.api.die()
    bed.sender.dead = true
    bed = await follow(bed)
    if (n === 2) break
    await handOver(bed)
    bed = await follow(bed)
  }
  expect((await bed.records()).map(({ kind }) => kind)).toEqual(['reopened', 'reopened'])
  expect(bed.events.map(({ reason }) => reason)).toContain('SetAside')
  bed.sender.answers.set('/one', 200)
  await bed.change(one, { state: 'enabled' })
  await bed.elapse(SECOND)
  expect(bed.begun('one')).toEqual([])
})

test('a hand-over that the store does not take counts as the end of a process, and holds nobody up', async () => {
  const { bed, shards, follow } = await stuck()
  bed.api.fail(calling('create', outcomeSegments), { before: new ApiError('Unavailable', 'down') }, 1000)
  const ended = bed.takeOver.end(shards)
  await bed.elapse(3 * SECOND)
  await ended
  bed.api.die()
  const next = await follow(bed)
  expect((await next.records()).map(({ kind }) => kind)).toEqual(['reopened'])
})
