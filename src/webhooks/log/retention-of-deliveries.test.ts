import { expect, test } from 'vitest'
import { settle } from '../../../test/support/fake-clock.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { deleting, ORGANIZATION, RetentionBed } from '../../../test/support/retention-bed.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { VIEW_LABEL } from '../../apis/meta.ts'
import { deliveryOutline, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { SHARD_COUNT } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

test('successes go after a day, failures after a week, and what has not finished stays', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  await bed.delivery({ age: DAY + 1 })
  await bed.delivery({ age: 7 * DAY + 1, state: 'exhausted' })
  await bed.delivery({ age: 7 * DAY + 1, state: 'canceled' })
  const kept = [
    await bed.delivery({ age: DAY - MINUTE }),
    await bed.delivery({ age: 7 * DAY - MINUTE, state: 'exhausted' }),
    await bed.delivery({ age: 30 * DAY, state: 'retrying' }),
    await bed.delivery({ state: 'pending' }),
  ]
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual(kept.sort())
  expect(bed.retention.stats()).toMatchObject({ finished: 2, deleted: 3, failed: 0 })
})

test('what ended by a clock that was a month ahead stays no longer than other successes', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  await bed.delivery({ age: -30 * DAY })
  bed.clock.advance(DAY - MINUTE)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toHaveLength(1)
  bed.clock.advance(2 * MINUTE)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([])
})

test('what ended by a clock that was a month behind is as old as its object', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: MINUTE })
  const completedAt = new Date(bed.clock.now() - 30 * DAY).toISOString()
  const ref = { namespace: ORGANIZATION, name }
  const raw = await bed.store.patch(
    webhookDeliveries,
    ref,
    { status: { completedAt } },
    { subresource: 'status' },
  )
  bed.retention.objectFound(deliveryOutline.parse(raw))
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toHaveLength(1)
  bed.clock.advance(DAY)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([])
})

test('a view whose process died before it had a status goes at once, and one that has its status stays', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const labels = { [VIEW_LABEL]: 'true' }
  await bed.delivery({ labels, state: 'pending' })
  const kept = await bed.delivery({ labels })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([kept])
})

test('of an endpoint with too many, the oldest successes go', async () => {
  const bed = new RetentionBed({ maxFinishedPerEndpoint: 3 })
  await bed.endpoint('billing')
  const kept = [
    await bed.delivery({ age: 9 * MINUTE, state: 'exhausted' }),
    await bed.delivery({ age: 2 * MINUTE }),
    await bed.delivery({ age: 1 * MINUTE }),
  ]
  for (const age of [5, 4, 3]) await bed.delivery({ age: age * MINUTE })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual(kept.sort())
})

test('a delivery whose entry in the log is open stays: it would be delivered again without its object', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  bed.lowWater = 6
  const kept = await bed.delivery({ age: 2 * DAY, version: 7 })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([kept])
  bed.lowWater = 7
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([])
})

test('a delivery goes when its own entry is closed, although the mark waits for another one', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  bed.lowWater = 6
  bed.closed.add('7/0')
  await bed.delivery({ age: 2 * DAY, version: 7 })
  const open = await bed.delivery({ age: 2 * DAY, version: 8 })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([open])
})

test('a view that was abandoned goes at once, if it was made at all', async () => {
  const bed = new RetentionBed()
  const endpoint = await bed.endpoint('billing')
  const delivery = await bed.entry(endpoint, 10)
  const before = bed.names(webhookDeliveries)
  await bed.store.patch(
    webhookDeliveries,
    { namespace: ORGANIZATION, name: before[0] ?? '' },
    { metadata: { labels: { [VIEW_LABEL]: 'true' } } },
  )
  for (let times = 0; times < 2; times += 1) {
    bed.retention.viewAbandoned(delivery)
    await bed.settle()
  }
  expect([before.length, bed.names(webhookDeliveries)]).toEqual([1, []])
  expect(bed.complaints).toEqual([])
})

test.each([
  { state: 'succeeded', old: 2 * DAY },
  { state: 'exhausted', old: 8 * DAY },
] as const)(
  'a young delivery that $state stays while the log entry of an expired one is open',
  async ({ state, old }) => {
    const bed = new RetentionBed()
    await bed.endpoint('billing')
    bed.lowWater = 6
    const kept = [
      await bed.delivery({ age: old, version: 7, state }),
      await bed.delivery({ age: MINUTE, version: 5, state }),
    ]
    const due = await bed.delivery({ age: old - MINUTE, version: 6, state })
    await bed.settle()
    expect(bed.names(webhookDeliveries)).toEqual(kept.sort())
    expect(bed.names(webhookDeliveries)).not.toContain(due)
  },
)

test('one that turns out not to have finished stays', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: 2 * DAY })
  const ref = { namespace: ORGANIZATION, name }
  await bed.store.patch(webhookDeliveries, ref, { status: { state: 'retrying' } }, { subresource: 'status' })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([name])
  expect(bed.complaints).toEqual(['kept a delivery that was recorded as finished but is not'])
})

test.each([
  { what: 'all shards were', left: 0 },
  { what: 'its shard was', left: 1 },
])(
  'what ends after $what handed over stays, however small the share of this process is',
  async ({ left }) => {
    const bed = new RetentionBed({ maxFinishedBytes: 0 })
    const delivery = await bed.entry(await bed.endpoint('billing'), 10)
    const others = [...Array(SHARD_COUNT).keys()].filter((shard) => shard !== delivery.queue.shard)
    bed.owned = new Set(others.slice(0, left))
    bed.retention.endedWithObject(delivery, 'exhausted')
    await bed.settle()
    expect(bed.names(webhookDeliveries)).toHaveLength(1)
    bed.owned = new Set([delivery.queue.shard])
    bed.retention.endedWithObject(delivery, 'exhausted')
    await bed.settle()
    expect(bed.names(webhookDeliveries)).toEqual([])
  },
)

test('one that changes under the deletion stays for a minute, and is looked at again', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: 2 * DAY })
  const ref = { namespace: ORGANIZATION, name }
  const change = (mine: string) => bed.store.patch(webhookDeliveries, ref, { metadata: { labels: { mine } } })
  await change('before it is looked at')
  const held = Promise.withResolvers<void>()
  bed.api.fail(deleting(webhookDeliveries), { hold: Promise.resolve() })
  bed.api.fail(deleting(webhookDeliveries), { hold: held.promise })
  const passing = bed.retention.pass()
  await settle()
  await change('after it was looked at')
  held.resolve()
  await passing
  expect([bed.names(webhookDeliveries), bed.retention.stats().failed]).toEqual([[name], 1])
  await bed.clock.elapse(59_000)
  await bed.retention.pass()
  expect(bed.names(webhookDeliveries)).toEqual([name])
  await bed.clock.elapse(6000)
  await bed.retention.pass()
  expect(bed.names(webhookDeliveries)).toEqual([])
})

test('one that is as it was when it finished goes without another look', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  await bed.delivery({ age: 2 * DAY })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([])
  expect(
    bed.api.calls.filter(({ verb, plural }) => verb === 'get' && plural === 'webhookdeliveries'),
  ).toEqual([])
})

test('one that has changed since it finished is looked at, and goes', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: 2 * DAY })
  await bed.store.patch(
    webhookDeliveries,
    { namespace: ORGANIZATION, name },
    { metadata: { labels: { a: 'b' } } },
  )
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([])
})

test('one that somebody else has deleted is no failure', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: 2 * DAY })
  await bed.store.delete(webhookDeliveries, { namespace: ORGANIZATION, name })
  await bed.settle()
  expect([bed.complaints, bed.retention.stats().failed, bed.retention.stats().finished]).toEqual([[], 0, 0])
})

test('what may not be deleted holds nothing up', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const stuck: string[] = []
  for (let n = 0; n < 20; n += 1) stuck.push(await bed.delivery({ age: 3 * DAY }))
  bed.api.fail(
    (call) => deleting(webhookDeliveries)(call) && stuck.includes(call.name ?? ''),
    { before: new ApiError('Forbidden', 'a policy says no') },
    Number.MAX_SAFE_INTEGER,
  )
  await bed.delivery({ age: 2 * DAY })
  for (let n = 0; n < 8; n += 1) await bed.clock.elapse(await bed.retention.pass())
  expect(bed.names(webhookDeliveries)).toEqual(stuck.sort())
  await bed.clock.elapse(5000)
  await bed.retention.pass()
  expect(bed.complaints).toEqual(['failed to delete; retrying'])
})

test('a store that does not answer is left alone for as long as it asks', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  await bed.delivery({ age: 2 * DAY })
  const error = new ApiError('TooManyRequests', 'later', { retryAfterMs: 7000 })
  bed.api.fail(deleting(webhookDeliveries), { before: error })
  expect(await bed.retention.pass()).toBe(7000)
  expect(await bed.retention.pass()).toBe(1000)
})

test('while outcomes cannot be stored, for want of space perhaps, it deletes slowly', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  for (let n = 0; n < 5; n += 1) await bed.delivery({ age: 2 * DAY })
  bed.healthy = false
  expect(await bed.retention.pass()).toBe(400)
  expect(bed.names(webhookDeliveries)).toHaveLength(1)
})

test('deliveries of an endpoint that is gone go with it, whether it went before the start or after', async () => {
  const bed = new RetentionBed()
  const billing = await bed.endpoint('billing')
  await bed.endpoint('audit')
  await bed.delivery()
  await bed.delivery({ state: 'exhausted' })
  await bed.delivery({ endpoint: 'gone-long-ago' })
  const unfinished = await bed.delivery({ endpoint: 'gone-long-ago', state: 'pending' })
  const kept = await bed.delivery({ endpoint: 'audit' })
  await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name: 'billing' })
  bed.directory.remove(billing)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([unfinished, kept].sort())
})

test('the deliveries of an endpoint that the watch has not shown stay if it exists, or cannot be looked up', async () => {
  const bed = new RetentionBed()
  const endpoint = await bed.endpoint('billing')
  const name = await bed.delivery()
  bed.directory.remove(endpoint)
  const looking = calling('get', webhookEndpoints)
  bed.api.fail(looking, { before: new ApiError('Unavailable', 'no answer') })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([name])
  expect(bed.api.calls.filter(looking)).toHaveLength(2)
})

test('an endpoint made anew under the same name keeps nothing of the one before', async () => {
  const bed = new RetentionBed()
  const before = await bed.endpoint('billing')
  await bed.delivery()
  await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name: 'billing' })
  bed.directory.remove(before)
  await bed.endpoint('billing')
  const kept = await bed.delivery()
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([kept])
})

test('a clock that is set a week ahead by mistake deletes nothing', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  const name = await bed.delivery()
  await bed.segment('s1')
  await bed.clock.elapse(HOUR)
  bed.clock.setWallBy(8 * DAY)
  await bed.settle()
  expect([bed.names(webhookDeliveries), bed.names(deliverySegments)]).toEqual([[name], ['s1']])
})

test('started, it deletes at most a hundred a second, looks at what is held every five seconds, and stops', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  for (let n = 0; n < 150; n += 1) await bed.delivery({ age: 2 * DAY })
  bed.retention.start()
  await bed.clock.elapse(1000)
  const left = bed.names(webhookDeliveries).length
  expect(left).toBeGreaterThanOrEqual(40)
  expect(left).toBeLessThan(60)
  await bed.clock.elapse(9000)
  expect([bed.names(webhookDeliveries), bed.heldLooks]).toEqual([[], 2])
  const stopping = bed.retention.stop()
  await settle()
  await stopping
  await bed.delivery({ age: 2 * DAY })
  await bed.clock.elapse(10_000)
  expect(bed.names(webhookDeliveries)).toHaveLength(1)
  expect(bed.clock.pending).toBe(0)
})

test('what a backup brought from another cluster goes in its time, and keeps nothing else from going', async () => {
  const bed = new RetentionBed({ maxFinishedPerEndpoint: 1000 })
  const endpoint = await bed.endpoint('billing')
  for (let n = 0; n < 70; n += 1) {
    const restored = await bed.entry(endpoint, 10)
    bed.retention.endedWithObject({ ...restored, version: 100_000_000 + n }, 'canceled')
  }
  bed.retention.endedWithObject(await bed.entry(endpoint, 10), 'exhausted')
  bed.clock.advance(7 * DAY - HOUR)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toHaveLength(71)
  bed.clock.advance(2 * HOUR)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([])
})
