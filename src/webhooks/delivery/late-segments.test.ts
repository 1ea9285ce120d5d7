/** The watches of segments and of outcomes have no mutual order: records come before the segment that they speak of. */

import { describe, expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { type OutcomeRecord, outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

/** A replica that has heard of a claim, and not of a segment that was written before it. */
async function behind(whose: 'ours' | "another's", how: { released?: boolean } = {}) {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  const shards = [shardOf(one.metadata.uid)]
  bed.sender.answers.set('/one', 200)
  bed.engine.start()
  const segment = await bed.append(bed.event([one]))
  // Takes the next version, in which the one before has its say.
  await bed.endpoint('two')
  const position = { version: segment.version, index: 0 }
  const say = (version: number, writer: string, ...records: OutcomeRecord[]) =>
    bed.follower.applyOutcomes({ version, writer, records })
  bed.follower.applyOutcomes({ version: 10, writer: 'before', records: [{ kind: 'claim', shards }] })
  if (how.released)
    bed.follower.applyOutcomes({ version: 11, writer: 'before', records: [{ kind: 'release', shards }] })
  /** The new owner has claimed the shard, and works. */
  const claim = async () => {
    if (whose === "another's") {
      bed.owns = () => false
      const version = segment.version + 2
      bed.follower.applyOutcomes({ version, writer: 'next', records: [{ kind: 'claim', shards }] })
      return
    }
    const started = bed.takeOver.start(new Set(shards), new AbortController().signal)
    await bed.elapse(SECOND)
    await started
    bed.engine.wake(new Set(shards))
  }
  const attempt = { at: new Date(bed.clock.now()).toISOString(), latencyMs: 1, code: 500 }
  const failed = { kind: 'failed', position, attempt, nextAttemptAt: bed.clock.now() + 30 * SECOND } as const
  const sent = { kind: 'sent', position, attempt: { ...attempt, code: 200 }, object: false } as const
  return { bed, segment, position, say, claim, failed, sent }
}

async function kinds(bed: EngineBed): Promise<string[]> {
  return (await bed.records()).map(({ kind }) => kind)
}

const isMove = (body: object) => JSON.stringify(body).includes(' moved')

describe('what was recorded before a segment of another replica is shown', () => {
  it('counts then: it is pending as long as it has not ended', async () => {
    const { bed, segment, position, say, claim, failed } = await behind("another's")
    await claim()
    say(segment.version + 3, 'next', failed, { kind: 'moved', position })
    expect(bed.engine.counters.total).toBe(0)
    bed.follower.addSegment(segment)
    expect(bed.engine.counters.total).toBe(1)
    expect(bed.segments.size).toBe(0)
    say(segment.version + 4, 'next', { kind: 'ended', position })
    expect(bed.engine.counters.total).toBe(0)
  })

  it('with its end is over when it is shown', async () => {
    const { bed, segment, position, say, claim, failed } = await behind("another's")
    await claim()
    say(segment.version + 3, 'next', failed, { kind: 'moved', position }, { kind: 'ended', position })
    bed.follower.addSegment(segment)
    expect(bed.engine.counters.total).toBe(0)
    expect(bed.segments.size).toBe(0)
  })

  it('by the one before, after the claim, is void', async () => {
    const { bed, segment, say, claim, sent } = await behind("another's")
    await claim()
    say(segment.version + 3, 'before', sent)
    bed.follower.addSegment(segment)
    expect(bed.engine.counters.total).toBe(1)
    expect(bed.segments.size).toBe(1)
  })
})

it('an entry whose segment is shown while objects are listed, its own among them, is not sent beside that', async () => {
  const before = new EngineBed()
  const one = await before.endpoint('one')
  before.start()
  before.api.fail(calling('create', outcomeSegments, isMove), 'dies before')
  const segment = await before.append(before.event([one]))
  before.follower.addSegment(segment)
  await before.elapse(5 * SECOND)
  expect(before.objects).toHaveLength(1)
  const bed = new EngineBed(before)
  bed.showOutcomes()
  bed.owns = () => false
  bed.sender.answers.set('/one', 200)
  bed.engine.start()
  const listed = Promise.withResolvers<void>()
  bed.api.fail(calling('list', webhookDeliveries), { hold: listed.promise })
  const shards = new Set([shardOf(one.metadata.uid)])
  const started = bed.takeOver.start(shards, new AbortController().signal)
  await bed.elapse(SECOND)
  bed.follower.addSegment(segment)
  listed.resolve()
  await bed.elapse(SECOND)
  await started
  bed.owns = () => true
  bed.engine.wake(shards)
  await bed.elapse(MINUTE)
  expect([...before.begun('one'), ...bed.begun('one')]).toHaveLength(2)
  expect(bed.objects).toMatchObject([{ status: { state: 'succeeded', attemptCount: 1 } }])
  expect(bed.engine.counters.total).toBe(0)
  expect(bed.segments.size).toBe(0)
})

describe('a segment that is shown after its shard was taken over', () => {
  it('and of which the one before had recorded a failure goes on at its time, once', async () => {
    const { bed, segment, say, claim, failed } = await behind('ours')
    say(segment.version + 1, 'before', failed)
    await claim()
    bed.follower.addSegment(segment)
    await bed.elapse(20 * SECOND)
    expect(bed.begun('one')).toEqual([])
    expect(bed.objects).toMatchObject([{ status: { state: 'retrying', attemptCount: 1 } }])
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(1)
    expect(bed.objects).toMatchObject([{ status: { state: 'succeeded', attemptCount: 2 } }])
    expect(bed.engine.counters.total).toBe(0)
  })

  it('and of which the one before had recorded the end is not sent again', async () => {
    const { bed, segment, say, claim, sent } = await behind('ours')
    say(segment.version + 1, 'before', sent)
    await claim()
    bed.follower.addSegment(segment)
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toEqual([])
    expect(bed.segments.size).toBe(0)
  })

  it('and whose object one that died was about to create has its end in an object', async () => {
    const { bed, segment, position, say, claim } = await behind('ours')
    say(segment.version + 1, 'before', { kind: 'creating', position })
    await claim()
    bed.follower.addSegment(segment)
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(1)
    expect(await kinds(bed)).toEqual(['sent', 'moved'])
    expect(bed.objects).toMatchObject([{ status: { state: 'succeeded' } }])
  })

  it.each([{ released: false }, { released: true }])(
    'and of which nothing was recorded has its end in the log, released: $released',
    async (how) => {
      const { bed, segment, claim } = await behind('ours', how)
      await claim()
      bed.follower.addSegment(segment)
      await bed.elapse(MINUTE)
      expect(bed.begun('one')).toHaveLength(1)
      expect(await kinds(bed)).toEqual(['sent'])
      expect(bed.objects).toMatchObject([{ metadata: { labels: { 'davit.dev/view': 'true' } } }])
    },
  )

  it('and was written after the claim was under way nowhere', async () => {
    const { bed, claim } = await behind('ours')
    await claim()
    const [endpoint] = bed.directory.all()
    if (!endpoint) throw new Error('it has an endpoint')
    await bed.accept(bed.event([endpoint.endpoint]))
    await bed.elapse(MINUTE)
    expect(await kinds(bed)).toEqual(['sent'])
  })
})
