import { expect, test } from 'vitest'
import { deleting, ORGANIZATION, RetentionBed } from '../../../test/support/retention-bed.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'
import { DeletionRate } from './retention-deleter.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

test('segments go after a day with the outcomes that speak of them, and the newest outcomes stay', async () => {
  const bed = new RetentionBed()
  await bed.segment('s1')
  await bed.outcomes('o1', 100)
  await bed.segment('s2')
  await bed.outcomes('o2', 101)
  await bed.outcomes('o3', 103)
  await bed.clock.elapse(DAY - MINUTE)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual(['s1', 's2'])
  await bed.segment('s3')
  await bed.clock.elapse(MINUTE)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual(['s3'])
  expect(bed.names(outcomeSegments)).toEqual(['o3'])
  expect(bed.retention.stats()).toMatchObject({ logSegments: 1, outcomeSegments: 1 })
})

test('outcomes stay as long as a segment that they speak of cannot be deleted', async () => {
  const bed = new RetentionBed()
  await bed.segment('s1')
  await bed.outcomes('o1', 100)
  await bed.outcomes('o2', 101)
  await bed.clock.elapse(2 * DAY)
  const failing = bed.api.fail(
    deleting(deliverySegments),
    { before: new ApiError('Forbidden', 'a policy says no') },
    Number.MAX_SAFE_INTEGER,
  )
  await bed.readLog()
  for (let n = 0; n < 5; n += 1) {
    await bed.retention.pass()
    await bed.clock.elapse(5000)
  }
  expect(bed.names(outcomeSegments)).toEqual(['o1', 'o2'])
  failing()
  await bed.settle()
  expect([bed.names(deliverySegments), bed.names(outcomeSegments)]).toEqual([[], ['o2']])
})

test('claims stay as long as an earlier claim, also those that came by the watch', async () => {
  const bed = new RetentionBed()
  const claim = { kind: 'claim', shards: [3] } as const
  await bed.segment('s1')
  await bed.readLog()
  await bed.outcomes('o1', 100, [claim])
  await bed.outcomes('o2', 101, [claim])
  await bed.outcomes('o3', 101)
  await bed.outcomes('o4', 101)
  for (let n = 0; n < 5; n += 1) {
    await bed.clock.elapse(MINUTE)
    await bed.retention.pass()
  }
  expect(bed.names(outcomeSegments)).toEqual(['o1', 'o2', 'o4'])
})

test('nothing of the log goes before all of it was read', async () => {
  const bed = new RetentionBed()
  await bed.segment('s1')
  await bed.clock.elapse(2 * DAY)
  for (let n = 0; n < 5; n += 1) await bed.clock.elapse(await bed.retention.pass())
  expect(bed.names(deliverySegments)).toEqual(['s1'])
})

test('a pass that began late waits as much less before the next', async () => {
  const waitsLateBy = async (lateMs: number) => {
    const bed = new RetentionBed()
    for (let n = 1; n <= 9; n += 1) await bed.segment(`s${n}`)
    await bed.clock.elapse(2 * DAY)
    await bed.readLog()
    return await bed.retention.pass(new DeletionRate(), bed.clock.monotonic() - lateMs)
  }
  expect(await waitsLateBy(0)).toBeCloseTo(40, 1)
  expect(await waitsLateBy(15)).toBeCloseTo(25, 1)
  expect(await waitsLateBy(500)).toBe(0)
})

test('a log that is too large loses its oldest segments, as many as it takes', async () => {
  const bed = new RetentionBed({ maxLogBytes: 100_000 })
  for (let n = 1; n <= 9; n += 1) await bed.segment(`s${n}`, 20_000)
  await bed.clock.elapse(HOUR)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual(['s6', 's7', 's8', 's9'])
  expect(bed.retention.stats().logBytes).toBeLessThanOrEqual(100_000)
  expect(bed.retention.stats().oldestSegmentAgeMs).toBeGreaterThanOrEqual(HOUR)
})

test('a payload that an object refers to keeps its segment, for as long as the object is there', async () => {
  const bed = new RetentionBed()
  await bed.endpoint('billing')
  await bed.segment('s1', 20_000)
  await bed.outcomes('o1', 100)
  await bed.outcomes('o2', 101)
  await bed.delivery({ segment: 's1', state: 'exhausted', version: 101 })
  await bed.clock.elapse(6 * DAY)
  await bed.settle()
  expect([bed.names(deliverySegments), bed.names(outcomeSegments)]).toEqual([['s1'], ['o1', 'o2']])
  await bed.clock.elapse(DAY)
  await bed.settle()
  expect([bed.names(deliverySegments), bed.names(outcomeSegments)]).toEqual([[], ['o2']])
})

test('where large payloads fill the log, finished deliveries go first, and unfinished ones keep theirs', async () => {
  const bed = new RetentionBed({ maxLogBytes: 60_000 })
  await bed.endpoint('billing')
  for (let n = 1; n <= 4; n += 1) await bed.segment(`s${n}`, 20_000)
  const kept = [
    await bed.delivery({ segment: 's1', state: 'retrying' }),
    await bed.delivery({ segment: 's2', state: 'exhausted' }),
  ]
  await bed.delivery({ segment: 's3' })
  await bed.delivery({ segment: 's4' })
  await bed.clock.elapse(HOUR)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual(kept.sort())
  expect(bed.names(deliverySegments)).toEqual(['s1', 's2'])
})

test('what the delivery plane tells of a delivery is all that it takes: its end, and its payload in the log', async () => {
  const bed = new RetentionBed()
  const endpoint = await bed.endpoint('billing')
  const small = await bed.entry(endpoint, 100)
  const large = await bed.entry(endpoint, 20_000)
  for (const delivery of [small, large]) bed.retention.endedWithObject(delivery, 'exhausted')
  expect(bed.retention.stats().finished).toBe(2)
  await bed.clock.elapse(6 * DAY)
  await bed.settle()
  expect(bed.names(deliverySegments)).toHaveLength(1)
  expect(bed.names(webhookDeliveries)).toHaveLength(2)
  await bed.clock.elapse(DAY)
  await bed.settle()
  expect([bed.names(webhookDeliveries), bed.names(deliverySegments)]).toEqual([[], []])
  expect(bed.retention.stats().failed).toBe(0)
})

test('a delivery whose shard has become the one of another process, which deletes it, holds its payload no longer', async () => {
  const bed = new RetentionBed()
  const { metadata } = await bed.endpoint('billing')
  await bed.segment('s1', 20_000)
  const name = await bed.delivery({ segment: 's1' })
  bed.owned = new Set()
  bed.retention.shardsLeft(new Set([shardOf(metadata.uid)]))
  await bed.clock.elapse(DAY)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual(['s1'])
  await bed.store.delete(webhookDeliveries, { namespace: ORGANIZATION, name })
  await bed.clock.elapse(MINUTE)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual([])
})

test('one that could not be deleted before its shard went to another process, which deletes it, does not either', async () => {
  const bed = new RetentionBed()
  const { metadata } = await bed.endpoint('billing')
  await bed.segment('s1', 20_000)
  const name = await bed.delivery({ segment: 's1' })
  await bed.clock.elapse(DAY + MINUTE)
  const mend = bed.api.fail(deleting(webhookDeliveries), { before: new ApiError('Forbidden', 'no') }, 1000)
  await bed.settle()
  mend()
  bed.owned = new Set()
  bed.retention.shardsLeft(new Set([shardOf(metadata.uid)]))
  await bed.store.delete(webhookDeliveries, { namespace: ORGANIZATION, name })
  for (let minutes = 0; minutes < 3; minutes += 1) {
    await bed.clock.elapse(MINUTE)
    await bed.settle()
  }
  expect(bed.names(deliverySegments)).toEqual([])
})

test('outcomes stay until all that they may speak of was shown', async () => {
  const bed = new RetentionBed()
  await bed.segment('s1')
  await bed.outcomes('o1', 100)
  await bed.outcomes('o2', 101)
  bed.deliveredUpTo = bed.store.version - 2
  await bed.clock.elapse(2 * DAY)
  await bed.settle()
  expect([bed.names(deliverySegments), bed.names(outcomeSegments)]).toEqual([[], ['o1', 'o2']])
  bed.deliveredUpTo = bed.store.version
  await bed.settle()
  expect(bed.names(outcomeSegments)).toEqual(['o2'])
})

test('an object that somebody deletes no longer keeps its payload', async () => {
  const bed = new RetentionBed()
  const delivery = await bed.entry(await bed.endpoint('billing'), 20_000)
  await bed.clock.elapse(2 * DAY)
  await bed.settle()
  expect(bed.names(deliverySegments)).toHaveLength(1)
  bed.retention.objectGone(delivery)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual([])
})
