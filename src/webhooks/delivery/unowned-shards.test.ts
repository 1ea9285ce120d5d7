import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { type WebhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

function without(endpoint: WebhookEndpoint): (shard: number) => boolean {
  const lost = shardOf(endpoint.metadata.uid)
  return (shard) => shard !== lost
}

/** Two endpoints of different shards whose receivers take everything. */
async function twoShards() {
  const bed = new EngineBed()
  const ours = await bed.endpoint('ours')
  const theirs = await bed.endpoint('theirs')
  expect(shardOf(ours.metadata.uid)).not.toBe(shardOf(theirs.metadata.uid))
  bed.sender.answers.set('/ours', 200).set('/theirs', 200)
  return { bed, ours, theirs }
}

function shownOf(bed: EngineBed): (string | undefined)[] {
  return bed.objects.map(({ spec }) => (spec as { endpoint?: string }).endpoint)
}

describe('what belongs to a shard that another replica owns', () => {
  it('is pending, and left alone when it comes: no attempt, no object, no record, and its segment stays open', async () => {
    const { bed, ours, theirs } = await twoShards()
    bed.owns = without(theirs)
    bed.start()
    await bed.accept(bed.event([ours, theirs]))
    await bed.elapse(MINUTE)
    expect(bed.begun('ours')).toHaveLength(1)
    expect(bed.begun('theirs')).toEqual([])
    expect(shownOf(bed)).toEqual(['ours'])
    expect((await bed.records()).map(({ position }) => position.index)).toEqual([0])
    expect(bed.segments.size).toBe(1)
    expect(bed.segments.lowWater).toBe(0)
    expect(bed.engine.counters.total).toBe(1)
  })

  it('is left alone when it is read back, in the log as in objects', async () => {
    const { bed, ours, theirs } = await twoShards()
    bed.sender.answers.set('/ours', 500).set('/theirs', 500)
    bed.start()
    await bed.accept(bed.event([ours, theirs]))
    await bed.elapse(5 * SECOND)
    expect(shownOf(bed).sort()).toEqual(['ours', 'theirs'])
    await bed.append(bed.event([ours, theirs]))
    const next = await bed.restarted((one) => {
      one.owns = without(theirs)
      one.sender.answers.set('/ours', 200).set('/theirs', 200)
    })
    expect(next.engine.counters.total + next.ended.length).toBe(4)
    await next.elapse(MINUTE)
    expect(next.engine.counters.total).toBe(2)
    expect(next.begun('ours')).toHaveLength(2)
    expect(next.begun('theirs')).toEqual([])
    expect(next.segments.size).toBe(1)
  })

  it('is closed where its owner has recorded its end', async () => {
    const { bed, ours, theirs } = await twoShards()
    bed.start()
    await bed.accept(bed.event([ours, theirs]))
    await bed.elapse(MINUTE)
    const next = await bed.restarted((one) => {
      one.owns = () => false
    })
    expect(next.segments.size).toBe(0)
    expect(next.sender.attempts).toEqual([])
  })

  it('still makes a later place of the same key a repeat', async () => {
    const { bed, ours, theirs } = await twoShards()
    bed.owns = without(theirs)
    bed.start()
    await bed.accept(bed.event([theirs], 'key'))
    await bed.accept(bed.event([ours], 'key'))
    await bed.elapse(MINUTE)
    expect(bed.sender.attempts).toEqual([])
    expect(await bed.records()).toMatchObject([{ kind: 'canceled', reason: 'Duplicate' }])
  })
})

it('a delivery whose shard was lost is held, and goes on when the shard is back', async () => {
  const { bed, ours, theirs } = await twoShards()
  bed.sender.answers.set('/ours', 500)
  bed.start()
  await bed.accept(bed.event([ours]))
  await bed.elapse(SECOND)
  expect(bed.begun('ours')).toHaveLength(1)
  bed.owns = without(ours)
  const [id] = await bed.accept(bed.event([theirs]))
  await bed.elapse(10 * MINUTE)
  expect(bed.begun('ours')).toHaveLength(1)
  expect(bed.begun('theirs')).toEqual([id])
  bed.owns = () => true
  bed.engine.wake(new Set([shardOf(ours.metadata.uid)]))
  await bed.elapse(2 * SECOND)
  expect(bed.begun('ours')).toHaveLength(2)
})

it('a delivery of another replica whose endpoint is gone is not tried again and again when it is taken over', async () => {
  const { bed, theirs } = await twoShards()
  bed.owns = without(theirs)
  bed.start()
  await bed.accept(bed.event([theirs]))
  await bed.elapse(SECOND)
  const { uid, name } = theirs.metadata
  expect(bed.engine.queues.get(uid)?.paused).toBe(false)
  await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name })
  bed.directory.remove(theirs)
  expect(bed.engine.queues.get(uid)?.paused).toBe(true)
  const started = bed.takeOver.start(new Set([shardOf(uid)]), new AbortController().signal)
  await bed.elapse(SECOND)
  await started
  expect(bed.begun('theirs')).toEqual([])
  expect(bed.engine.counters.total).toBe(0)
})
