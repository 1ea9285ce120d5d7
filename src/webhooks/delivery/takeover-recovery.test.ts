import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION, SYSTEM } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { outcomeSegments, readOutcomeSegment } from '../../apis/outcome-segment.ts'
import { deliveryOutline, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

/** A replica that retries a delivery for which there is an object. */
async function retrying(spec: { ordered?: boolean } = {}) {
  const owner = new EngineBed()
  const one = await owner.endpoint('one', spec)
  const shard = shardOf(one.metadata.uid)
  owner.sender.answers.set('/one', 500)
  owner.engine.start()
  await take(owner, shard)
  const segment = await owner.append(owner.event([one]))
  owner.follower.addSegment(segment)
  await owner.elapse(5 * SECOND)
  const [object] = owner.objects
  if (!object) throw new Error('it has no object')
  const ref = { namespace: ORGANIZATION, name: object.metadata.name }
  return { owner, one, shard, segment, ref }
}

async function take(bed: EngineBed, shard: number): Promise<void> {
  const started = bed.takeOver.start(new Set([shard]), new AbortController().signal)
  started.catch(() => undefined)
  await bed.elapse(SECOND)
  await started
  bed.engine.wake(new Set([shard]))
}

/** Another replica beside it that begins with one of the other shards. */
async function joined(owner: EngineBed, shard: number): Promise<EngineBed> {
  const bed = new EngineBed(owner)
  bed.showOutcomes()
  const own = (shard + 1) % 256
  bed.owns = (one) => one === own
  bed.engine.start()
  await take(bed, own)
  return bed
}

/** The same process gives the shard up and takes it again. */
async function again(bed: EngineBed, shard: number, between: () => Promise<unknown>): Promise<void> {
  await bed.engine.release(new Set([shard]))
  await between()
  await take(bed, shard)
}

async function ends(bed: EngineBed): Promise<number> {
  return (await bed.records()).filter(({ kind }) => kind === 'ended').length
}

it('a delivery whose object was found before its segment was shown is counted once, until its owner says that it ended', async () => {
  const { owner, shard, segment } = await retrying()
  const late = await joined(owner, shard)
  expect(late.engine.counters.total).toBe(1)
  late.follower.addSegment(segment)
  expect(late.engine.counters.total).toBe(1)
  owner.sender.answers.set('/one', 200)
  await owner.elapse(MINUTE)
  expect(owner.engine.counters.total).toBe(0)
  late.showOutcomes()
  expect(late.engine.counters.total).toBe(0)
  expect(late.segments.size).toBe(0)
})

describe('an object that a list by labels does not show', () => {
  it('since somebody took its label away goes on at its time', async () => {
    const { owner, shard, ref } = await retrying()
    const label = { metadata: { labels: { 'davit.dev/shard': null } } }
    await again(owner, shard, () => owner.store.patch(webhookDeliveries, ref, label))
    owner.sender.answers.set('/one', 200)
    await owner.elapse(5 * SECOND)
    expect(owner.begun('one')).toHaveLength(1)
    await owner.elapse(MINUTE)
    expect(owner.begun('one')).toHaveLength(2)
    expect(owner.engine.counters.total).toBe(0)
  })

  it('since it is gone is pending no longer, and the others are told', async () => {
    const { owner, shard, ref } = await retrying()
    await again(owner, shard, () => owner.store.delete(webhookDeliveries, ref))
    expect(owner.engine.counters.total).toBe(0)
    expect(await ends(owner)).toBe(1)
  })

  it('and that cannot be looked up stays, until the start is given up', async () => {
    const { owner, shard, ref } = await retrying()
    await owner.engine.release(new Set([shard]))
    await owner.store.patch(webhookDeliveries, ref, { metadata: { labels: { 'davit.dev/shard': null } } })
    owner.api.fail(calling('get', webhookDeliveries), { before: new ApiError('Unavailable', 'down') }, 1000)
    const abort = new AbortController()
    const started = owner.takeOver.start(new Set([shard]), abort.signal)
    started.catch(() => undefined)
    await owner.elapse(MINUTE)
    abort.abort()
    await owner.elapse(10 * SECOND)
    await expect(started).rejects.toThrow()
    expect(owner.engine.counters.total).toBe(1)
    expect(await ends(owner)).toBe(0)
  })
})

describe.each([
  { label: '7', where: 'in the list' },
  { label: null, where: 'by its name alone' },
])('an object that cannot be read, and is found $where', ({ label }) => {
  it('is still pending, does not hold up what follows, and goes on when it is mended', async () => {
    const { owner, one, shard, ref } = await retrying({ ordered: true })
    const labels = label === null ? { 'davit.dev/shard': null } : {}
    await again(owner, shard, () =>
      owner.store.patch(webhookDeliveries, ref, { metadata: { labels }, spec: { endpoint: 7 } }),
    )
    expect(owner.engine.counters.total).toBe(1)
    expect(await ends(owner)).toBe(0)
    expect(owner.events.map(({ reason }) => reason)).toContain('UnreadableDelivery')
    owner.sender.answers.set('/one', 200)
    const [first] = owner.begun('one')
    const [second] = await owner.accept(owner.event([one]))
    await owner.elapse(MINUTE)
    expect(owner.begun('one')).toEqual([first, second])
    await again(owner, shard, () => owner.store.patch(webhookDeliveries, ref, { spec: { endpoint: 'one' } }))
    await owner.elapse(5 * MINUTE)
    expect(owner.begun('one')).toEqual([first, second, first])
    expect(owner.engine.counters.total).toBe(0)
  })
})

it('an entry whose object cannot be read is not sent beside it', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.start()
  const isMove = (body: object) => JSON.stringify(body).includes(' moved')
  bed.api.fail(calling('create', outcomeSegments, isMove), 'dies before')
  await bed.accept(bed.event([one]))
  await bed.elapse(5 * SECOND)
  const [object] = bed.objects
  if (!object) throw new Error('it has no object')
  const ref = { namespace: ORGANIZATION, name: object.metadata.name }
  await bed.store.patch(webhookDeliveries, ref, { spec: { endpoint: 7 } })
  const next = await bed.restarted(({ sender }) => sender.answers.set('/one', 200))
  await next.elapse(MINUTE)
  expect(next.begun('one')).toEqual([])
  expect(next.engine.counters.total).toBe(1)
  expect(next.segments.size).toBe(0)
})

describe('what a replica had ended, and died before the others were told,', () => {
  async function untold() {
    const { owner, shard } = await retrying()
    const third = await joined(owner, shard)
    // The mark that is written with it is behind the delivery: whoever starts does not hear of it.
    await take(owner, shard)
    owner.sender.answers.set('/one', 200)
    const isEnd = (body: object) => JSON.stringify(body).includes('ended')
    owner.api.fail(calling('create', outcomeSegments, isEnd), 'dies before')
    await owner.elapse(MINUTE)
    expect(owner.api.dead).toBe(true)
    third.showOutcomes()
    expect(third.engine.counters.total).toBe(1)
    return { owner, third, shard }
  }

  it('they are told by the one that starts under its name', async () => {
    const { owner, third } = await untold()
    const next = await owner.restarted()
    await next.elapse(SECOND)
    third.showOutcomes()
    expect(third.engine.counters.total).toBe(0)
    expect(await ends(next)).toBe(1)
    // Once is enough.
    const later = await next.restarted()
    await later.elapse(SECOND)
    expect(await ends(later)).toBe(1)
  })

  it('they are told by one that has come since, and takes its shard over', async () => {
    const { owner, third, shard } = await untold()
    const next = await joined(owner, shard)
    expect(next.engine.counters.total).toBe(0)
    await take(next, shard)
    third.showOutcomes()
    expect(third.engine.counters.total).toBe(0)
    expect(await ends(next)).toBe(1)
    // Who is handed the shard has nothing to tell.
    const ended = next.takeOver.end(new Set([shard]))
    await next.elapse(SECOND)
    await ended
    const later = await joined(next, shard)
    await take(later, shard)
    expect(await ends(later)).toBe(1)
  })

  it('they are told by one that is new where its word came after the claim of that one', async () => {
    const { owner, third, shard } = await untold()
    const next = new EngineBed(owner)
    next.showOutcomes()
    next.engine.start()
    const listed = Promise.withResolvers<void>()
    next.api.fail(calling('list', webhookDeliveries), { hold: listed.promise })
    const started = next.takeOver.start(new Set([shard]), new AbortController().signal)
    await next.elapse(SECOND)
    const [first] = owner.store
      .all(outcomeSegments)
      .toSorted((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))
    if (!first) throw new Error('nothing is recorded')
    const { writer } = readOutcomeSegment(first).spec
    const { position } = deliveryOutline.parse(owner.store.all(webhookDeliveries)[0]).spec
    const records = `${position} ended`
    const spec = { writtenAt: 0, writer, lowWater: '0', records }
    await owner.store.create(outcomeSegments, { metadata: { namespace: SYSTEM, name: 'late' }, spec })
    next.showOutcomes()
    listed.resolve()
    await next.elapse(SECOND)
    await started
    third.showOutcomes()
    expect(third.engine.counters.total).toBe(0)
  })

  it('long ago is told to nobody', async () => {
    const { owner } = await untold()
    await owner.clock.elapse(10 * MINUTE)
    const next = await owner.restarted()
    await next.elapse(SECOND)
    expect(await ends(next)).toBe(0)
  })
})

it('what a replica had ended when its word was void, all others count as ended once it has claimed the shard anew', async () => {
  const owner = new EngineBed()
  const one = await owner.endpoint('one')
  const shard = shardOf(one.metadata.uid)
  owner.sender.answers.set('/one', 200)
  owner.engine.start()
  await take(owner, shard)
  const claim = { writtenAt: 0, writer: 'another', lowWater: '0', records: `claim ${shard}` }
  await owner.store.create(outcomeSegments, { metadata: { namespace: SYSTEM, name: 'claim' }, spec: claim })
  const segment = await owner.append(owner.event([one]))
  const third = new EngineBed(owner)
  third.owns = () => false
  for (const bed of [owner, third]) bed.follower.addSegment(segment)
  await owner.elapse(SECOND)
  expect([owner.begun('one').length, owner.engine.counters.total, owner.segments.size]).toEqual([1, 0, 1])
  await again(owner, shard, async () => undefined)
  third.showOutcomes()
  expect([third.segments.size, third.engine.counters.total]).toEqual([0, 0])
  expect(owner.begun('one')).toHaveLength(1)
})
