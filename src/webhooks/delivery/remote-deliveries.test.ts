import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'

const ATTEMPT = { at: '2026-01-31T12:00:00.000Z', latencyMs: 1, code: 200 }

/** A replica that drives two deliveries, and whose endpoint takes none yet; another one has taken their shard over. */
async function overtaken() {
  const bed = new EngineBed()
  const one = await bed.endpoint('one', { state: 'disabled' })
  const shards = new Set([shardOf(one.metadata.uid)])
  bed.start()
  const segment = await bed.append(bed.event([one]), bed.event([one]))
  bed.follower.addSegment(segment)
  const at = (index: number) => ({ version: segment.version, index })
  let version = bed.store.version
  const another = (...records: Parameters<typeof bed.follower.applyOutcomes>[0]['records']) => {
    version += 0.001
    bed.follower.applyOutcomes({ version, writer: 'another', records })
  }
  another({ kind: 'claim', shards: [...shards] })
  return { bed, shards, at, another }
}

it('what another replica ended while the shard was not let go of yet is pending until that is done, and not after', async () => {
  const { bed, shards, at, another } = await overtaken()
  another({ kind: 'sent', position: at(0), attempt: ATTEMPT, object: false })
  expect(bed.engine.counters.total).toBe(2)
  await bed.engine.release(shards)
  expect(bed.engine.counters.total).toBe(1)
  another({ kind: 'sent', position: at(1), attempt: ATTEMPT, object: false })
  expect(bed.engine.counters.total).toBe(0)
  expect(bed.segments.size).toBe(0)
})

it('what another replica showed and then ended meanwhile is pending no longer', async () => {
  const { bed, shards, at, another } = await overtaken()
  another({ kind: 'moved', position: at(0) }, { kind: 'moved', position: at(1) })
  another({ kind: 'ended', position: at(0) })
  await bed.engine.release(shards)
  expect(bed.engine.counters.total).toBe(1)
  another({ kind: 'ended', position: at(1) })
  expect(bed.engine.counters.total).toBe(0)
})

it('of what another replica drives is told once that it has its object, also where it succeeded at once, or is refused here', async () => {
  const bed = new EngineBed()
  bed.owns = () => false
  const one = await bed.endpoint('one')
  bed.start()
  const segment = await bed.append(bed.event([one]), bed.event([one]), bed.event([one], 'k'))
  const repeat = await bed.append(bed.event([one], 'k'))
  for (const shown of [segment, repeat]) bed.follower.addSegment(shown)
  const at = (index: number) => ({ version: segment.version, index })
  const records = [
    { kind: 'moved' as const, position: at(0) },
    { kind: 'sent' as const, position: at(1), attempt: ATTEMPT, object: true },
    { kind: 'moved' as const, position: at(1) },
    { kind: 'moved' as const, position: { version: repeat.version, index: 0 } },
  ]
  bed.follower.applyOutcomes({ version: bed.store.version + 1, writer: 'another', records })
  expect(bed.promotedElsewhere).toEqual([
    [segment.name, 0],
    [segment.name, 1],
    [repeat.name, 0],
  ])
})

it('what the one before says after the claim changes nothing', async () => {
  const { bed, shards, at } = await overtaken()
  const version = bed.store.version + 1
  const records = [{ kind: 'sent', position: at(0), attempt: ATTEMPT, object: false }] as const
  bed.follower.applyOutcomes({ version, writer: 'before', records })
  await bed.engine.release(shards)
  expect(bed.engine.counters.total).toBe(2)
  expect(bed.segments.lowWater).toBe(0)
})

it('what another replica ended before this one heard that its own record was written is pending no longer after that', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  const shards = new Set([shardOf(one.metadata.uid)])
  bed.sender.answers.set('/one', 500)
  bed.start()
  const segment = await bed.append(bed.event([one]))
  const isMoved = (call: Parameters<ReturnType<typeof calling>>[0]) =>
    calling('create', outcomeSegments)(call) && JSON.stringify(call.body).includes(' moved')
  bed.api.fail(isMoved, { after: new ApiError('Unavailable', 'no answer') })
  const mend = bed.api.fail(isMoved, { before: new ApiError('Unavailable', 'down') }, 1000)
  bed.follower.addSegment(segment)
  await bed.elapse(1000)
  expect([bed.segments.size, bed.engine.counters.total]).toEqual([0, 1])
  const version = bed.store.version + 1
  bed.follower.applyOutcomes({
    version,
    writer: 'another',
    records: [{ kind: 'claim', shards: [...shards] }],
  })
  const position = { version: segment.version, index: 0 }
  bed.follower.applyOutcomes({
    version: version + 1,
    writer: 'another',
    records: [{ kind: 'ended', position }],
  })
  mend()
  await bed.elapse(10_000)
  await bed.engine.release(shards)
  expect(bed.engine.counters.total).toBe(0)
})

it('what it could not cancel for an endpoint that is gone is not pending here once its shard is let go of', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one', { state: 'disabled' })
  const shards = new Set([shardOf(one.metadata.uid)])
  bed.start()
  bed.follower.addSegment(await bed.append(bed.event([one])))
  await bed.elapse(5000)
  bed.api.fail(calling('delete', webhookDeliveries), { before: new ApiError('Unavailable', 'down') }, 1000)
  bed.directory.remove(one)
  await bed.elapse(5000)
  expect(bed.engine.counters.total).toBe(1)
  const released = bed.engine.release(shards)
  await bed.elapse(25_000)
  expect(await released).toBe(false)
  expect(bed.engine.counters.total).toBe(0)
})
