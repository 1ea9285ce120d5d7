import { expect, test } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { type WebhookDeliveryStatus, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import type { WebhookEndpointSpec } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const ALL_SHARDS = new Set(Array.from({ length: 256 }, (_, shard) => shard))

function statusOf(bed: EngineBed, endpoint: string): WebhookDeliveryStatus | undefined {
  const object = bed.objects.find(({ spec }) => (spec as { endpoint: string }).endpoint === endpoint)
  return object?.status as WebhookDeliveryStatus | undefined
}

/** Its owners end one after the other; the last one has just started. @param before elapses in each of them */
async function afterEnds(bed: EngineBed, ends: number, before = SECOND): Promise<EngineBed> {
  let next = bed
  for (let end = 1; end <= ends; end += 1) {
    await next.elapse(before)
    next = await next.restarted(({ sender }) => sender.answers.set('/good', 200))
  }
  return next
}

/** A delivery whose attempts never end, beside one that is answered. */
async function deadly(spec: Partial<WebhookEndpointSpec> = {}) {
  const bed = new EngineBed()
  const poison = await bed.endpoint('poison', spec)
  const good = await bed.endpoint('good')
  bed.sender.answers.set('/good', 200)
  const taken = bed.takeOver.start(ALL_SHARDS, new AbortController().signal)
  await bed.elapse(SECOND)
  await taken
  bed.engine.start()
  await bed.accept(bed.event([poison]))
  return { bed, poison, good }
}

async function kindsOf(bed: EngineBed): Promise<string[]> {
  return (await bed.records()).map(({ kind }) => kind)
}

test('two ends in a row cost nothing: what was open is sent again at once, and nothing is recorded before', async () => {
  const { bed: first } = await deadly()
  const bed = await afterEnds(first, 2)
  await bed.elapse(0)
  expect(bed.begun('poison')).toHaveLength(1)
  expect(await kindsOf(bed)).toEqual([])
})

test('what was begun is suspicious although its object was created meanwhile', async () => {
  const { bed: first, poison } = await deadly()
  const bed = await afterEnds(first, 3)
  await bed.accept(bed.event([poison]))
  await bed.elapse(3 * SECOND)
  expect(await kindsOf(bed)).toEqual(expect.arrayContaining(['begin', 'creating', 'moved']))
  const next = await bed.restarted()
  await next.elapse(SECOND)
  expect(next.begun('poison')).toEqual([])
})

test('after three, each attempt is recorded before it is made', async () => {
  const { bed: first, good } = await deadly()
  const bed = await afterEnds(first, 3)
  const released = Promise.withResolvers<void>()
  bed.api.fail(calling('create', outcomeSegments), { hold: released.promise })
  await bed.accept(bed.event([good]))
  await bed.elapse(SECOND)
  expect(bed.begun('good')).toEqual([])
  released.resolve()
  await bed.elapse(SECOND)
  expect(bed.begun('good')).toHaveLength(1)
  expect(bed.begun('poison')).toHaveLength(1)
  expect((await kindsOf(bed)).filter((kind) => kind === 'begin')).toHaveLength(2)
})

test('what was begun when a careful owner ended is tried alone, behind everything else, one after the other', async () => {
  const { bed: first, poison, good } = await deadly()
  let bed = await afterEnds(first, 3)
  await bed.accept(bed.event([poison]))
  bed = await afterEnds(bed, 1)
  await bed.accept(bed.event([good]))
  await bed.elapse(4 * SECOND)
  expect([bed.begun('good'), bed.begun('poison')].map(({ length }) => length)).toEqual([1, 0])
  await bed.elapse(2 * SECOND)
  expect(bed.begun('poison')).toHaveLength(1)
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(30 * SECOND)
  expect(new Set(bed.begun('poison')).size).toBe(2)
})

test('a delivery that ends its owner alone has failed, is retried after five minutes, and the endpoint says so', async () => {
  const { bed: first, good } = await deadly()
  const bed = await afterEnds(await afterEnds(first, 4), 1, 6 * SECOND)
  await bed.elapse(10 * SECOND)
  expect(bed.begun('poison')).toEqual([])
  expect(statusOf(bed, 'poison')).toMatchObject({
    state: 'retrying',
    attemptCount: 1,
    attempts: [{ error: 'the Davit controller stopped during this attempt' }],
  })
  expect(bed.events.map(({ reason }) => reason)).toEqual(['DeliverySetAside'])
  await bed.accept(bed.event([good]))
  await bed.elapse(SECOND)
  expect(bed.begun('good')).toHaveLength(1)
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(5 * MINUTE)
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'succeeded', attemptCount: 2 })
  expect(bed.segments.size).toBe(0)
})

test('one that does so again costs one end each time', async () => {
  const { bed: first } = await deadly()
  let bed = await afterEnds(await afterEnds(first, 4), 1, 6 * SECOND)
  await bed.elapse(6 * MINUTE)
  expect(bed.begun('poison')).toHaveLength(1)
  bed = await afterEnds(bed, 1)
  await bed.elapse(4 * MINUTE)
  expect(bed.begun('poison')).toEqual([])
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'retrying', attemptCount: 2 })
})

test('a suspect whose attempt fails is retried like any other', async () => {
  const { bed: first } = await deadly()
  const bed = await afterEnds(first, 4)
  bed.sender.answers.set('/poison', 500)
  await bed.elapse(10 * SECOND)
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'retrying', attemptCount: 1 })
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(MINUTE)
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'succeeded', attemptCount: 2 })
})

test('a suspect that cannot be tried yet is tried when it can', async () => {
  const { bed: first, poison } = await deadly()
  const bed = await afterEnds(first, 4)
  await bed.change(poison, { state: 'disabled' })
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(30 * SECOND)
  expect(bed.begun('poison')).toEqual([])
  await bed.change(poison, { state: 'enabled' })
  await bed.elapse(10 * SECOND)
  expect(bed.begun('poison')).toHaveLength(1)
})

test('what follows a suspect at an ordered endpoint waits for it', async () => {
  const { bed: first, poison } = await deadly({ ordered: true })
  const bed = await afterEnds(first, 4)
  await bed.accept(bed.event([poison]))
  await bed.elapse(4 * SECOND)
  expect(bed.begun('poison')).toEqual([])
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(10 * SECOND)
  expect(new Set(bed.begun('poison')).size).toBe(2)
})

test('an owner that lives for a minute ends the series, and one that hands over does', async () => {
  const { bed: first, poison, good } = await deadly()
  let bed = await afterEnds(first, 3)
  bed.sender.answers.set('/poison', 200)
  await bed.accept(bed.event([poison]))
  await bed.elapse(70 * SECOND)
  const begun = async () => (await kindsOf(bed)).filter((kind) => kind === 'begin').length
  const before = await begun()
  await bed.accept(bed.event([good]))
  await bed.elapse(SECOND)
  expect(await begun()).toBe(before)
  bed = await afterEnds(bed, 1)
  await bed.accept(bed.event([good]))
  await bed.elapse(SECOND)
  expect(await begun()).toBe(before)
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

test('owners that hand over in order, however often, are no series', async () => {
  const { bed: first, one, follow, handOver } = await stuck()
  let bed = first
  for (let n = 0; n < 4; n += 1) {
    await handOver(bed)
    bed = await follow(bed)
  }
  bed.sender.answers.set('/one', 200)
  await bed.change(one, { state: 'enabled' })
  await bed.elapse(SECOND)
  expect(bed.begun('one')).toHaveLength(1)
  expect(await kindsOf(bed)).not.toContain('begin')
})

test('a hand-over that the store does not take counts as an end, and holds nobody up', async () => {
  const { bed, shards, follow } = await stuck()
  bed.api.fail(calling('create', outcomeSegments), { before: new ApiError('Unavailable', 'down') }, 1000)
  const ended = bed.takeOver.end(shards)
  await bed.elapse(3 * SECOND)
  await ended
  bed.api.die()
  const next = await follow(bed)
  const [shard = 0] = shards
  expect(next.follower.claims.endsOf(shard)).toBe(1)
})
