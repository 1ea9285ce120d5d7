/** A claim that stood on its way while its writer stood still, and is written when another replica has the shard. */

import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import {
  decodeLogRecords,
  type LogRecord,
  outcomeSegments,
  readOutcomeSegment,
} from '../../apis/outcome-segment.ts'
import { shardOf } from '../../ha/assignment.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

/** Two replicas: one was about to take a shard, and the other one has it by now. */
async function overtaken() {
  const late = new EngineBed()
  const one = await late.endpoint('one')
  const shards = new Set([shardOf(one.metadata.uid)])
  const way = Promise.withResolvers<void>()
  late.api.fail(calling('create', outcomeSegments), { hold: way.promise })
  const started = late.takeOver.start(shards, new AbortController().signal)
  const lateStart = started.then(
    () => 'taken',
    () => 'not taken',
  )
  await late.elapse(SECOND)
  const owner = new EngineBed(late)
  const claimedElsewhere: number[] = []
  owner.onClaimedElsewhere = (claimed) => void claimedElsewhere.push(...claimed)
  owner.sender.answers.set('/one', 200)
  owner.engine.start()
  const taken = owner.takeOver.start(shards, new AbortController().signal)
  await owner.elapse(SECOND)
  await taken
  owner.engine.wake(shards)
  /** The claim is written, and everybody reads it. */
  const arrive = async () => {
    await owner.elapse(31 * SECOND)
    way.resolve()
    await owner.elapse(SECOND)
    owner.showOutcomes()
  }
  return { late, lateStart, owner, one, shards, arrive, claimedElsewhere }
}

it('a claim that comes late takes nothing from the one who has the shard, and nothing is sent again', async () => {
  const { lateStart, owner, one, arrive, claimedElsewhere } = await overtaken()
  await arrive()
  expect(await lateStart).toBe('not taken')
  expect(claimedElsewhere).toEqual([])
  await owner.accept(owner.event([one]))
  await owner.elapse(SECOND)
  expect(owner.begun('one')).toHaveLength(1)
  expect([owner.segments.size, owner.engine.counters.total]).toEqual([0, 0])
  const next = await owner.restarted((bed) => bed.sender.answers.set('/one', 200))
  await next.elapse(MINUTE)
  expect(next.begun('one')).toEqual([])
})

it('whose claim came late has the shard once it claims it in the knowledge of the other one', async () => {
  const { late, owner, one, shards, arrive, claimedElsewhere } = await overtaken()
  await arrive()
  late.showOutcomes()
  late.sender.answers.set('/one', 200)
  late.engine.start()
  const again = late.takeOver.start(shards, new AbortController().signal)
  await late.elapse(SECOND)
  await again
  late.engine.wake(shards)
  owner.showOutcomes()
  expect(claimedElsewhere).toEqual([...shards])
  await late.accept(late.event([one]))
  await late.elapse(SECOND)
  expect(late.begun('one')).toHaveLength(1)
  expect(late.segments.size).toBe(0)
})

it('who has begun to read only lately comes to the same', async () => {
  const { owner, one, shards, arrive } = await overtaken()
  const claims = owner.store.all(outcomeSegments).map(({ metadata }) => metadata)
  // It is behind the mark by then, and deleted.
  await owner.elapse(3 * MINUTE)
  await arrive()
  for (const { name = '', namespace } of claims)
    await owner.store.delete(outcomeSegments, { name, ...(namespace ? { namespace } : {}) })
  const [last] = owner.store.all(outcomeSegments)
  if (!last) throw new Error('nothing is claimed')
  expect(decodeLogRecords(readOutcomeSegment(last).spec).records).toMatchObject([{ kind: 'claim' }])
  const third = new EngineBed(owner)
  third.owns = () => false
  third.showOutcomes()
  const segment = await owner.append(owner.event([one]))
  for (const bed of [owner, third]) bed.follower.addSegment(segment)
  await owner.elapse(SECOND)
  third.showOutcomes()
  expect(owner.begun('one')).toHaveLength(1)
  expect([third.segments.size, third.engine.counters.total]).toEqual([0, 0])
  expect(third.follower.holdsClaims(shards)).toBe(false)
})

/** A replica that knows what was said from a while after the delivery on, and drives nothing. */
async function newcomer() {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  const shards = [shardOf(one.metadata.uid)]
  bed.owns = () => false
  const segment = await bed.append(bed.event([one]))
  bed.follower.addSegment(segment)
  const position = { version: segment.version, index: 0 }
  const [from, createdAt] = [position.version + 10, bed.clock.now() - SECOND]
  const say = (version: number, writer: string, ...records: readonly LogRecord[]) =>
    bed.follower.applyOutcomes({ version: from + version, writer, createdAt, records })
  say(0, 'another')
  return { bed, shards, position, from, say }
}

it('who has begun to read between a claim and a release believes whoever has claimed the shard next, and knew neither', async () => {
  const { bed, shards, position, from, say } = await newcomer()
  say(1, 'before', { kind: 'release', shards, after: from })
  say(2, 'owner', { kind: 'claim', shards, after: position.version })
  say(3, 'owner', { kind: 'moved', position })
  expect(bed.segments.size).toBe(0)
  say(4, 'owner', { kind: 'ended', position })
  expect(bed.engine.counters.total).toBe(0)
})

it('who has begun to read after what an owner knew does not take a late claim for a good one', async () => {
  const { bed, shards, position, from, say } = await newcomer()
  say(2, 'owner', { kind: 'claim', shards, after: position.version })
  say(3, 'late', { kind: 'claim', shards, after: from + 1 })
  say(4, 'owner', { kind: 'moved', position })
  expect(bed.segments.size).toBe(0)
  say(5, 'owner', { kind: 'ended', position })
  expect(bed.engine.counters.total).toBe(0)
})

it('who has lost a shard hands over nothing of it', async () => {
  const { owner, shards } = await overtaken()
  const others = [...shards]
  const version = owner.store.version + 1
  owner.follower.applyOutcomes({ version, writer: 'another', records: [{ kind: 'claim', shards: others }] })
  const before = owner.store.all(outcomeSegments).length
  const ended = owner.takeOver.end(shards)
  await owner.elapse(SECOND)
  await ended
  expect(owner.store.all(outcomeSegments)).toHaveLength(before)
})
