import { expect, it } from 'vitest'
import { EngineBed, ORGANIZATION, SYSTEM } from '../../../test/support/engine-bed.ts'
import { settle } from '../../../test/support/fake-clock.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { secrets } from '../../apis/core-kinds.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { DISABLE_ANNOTATION, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'
import { keysObject } from '../endpoints/signing-keys.ts'
import { readSegment } from '../log/reader.ts'

/** What became of it by now. */
async function stateOf(work: Promise<unknown>): Promise<string> {
  await settle()
  return await Promise.race([work.then(() => 'done').catch(() => 'failed'), settle().then(() => 'open')])
}

it.each([
  ['endpoints', webhookEndpoints],
  ['deliveries', webhookDeliveries],
])('a start that is given up while %s are listed ends at once', async (_, type) => {
  const bed = new EngineBed()
  const { uid } = (await bed.endpoint('one')).metadata
  const answer = Promise.withResolvers<void>()
  bed.api.fail(calling('list', type), { hold: answer.promise })
  const abort = new AbortController()
  const started = bed.takeOver.start(new Set([shardOf(uid)]), abort.signal)
  started.catch(() => undefined)
  await bed.elapse(20)
  expect(await stateOf(started)).toBe('open')
  abort.abort()
  answer.resolve()
  await bed.elapse(0)
  // The list that is under way ends; nothing is asked for after it.
  const calls = bed.api.calls.length
  await bed.elapse(60_000)
  expect(bed.api.calls).toHaveLength(calls)
  if (type === webhookEndpoints) expect(await stateOf(started)).toBe('failed')
  else expect(await stateOf(started)).not.toBe('open')
})

it('a start that is given up while the store does not answer is not tried again', async () => {
  const bed = new EngineBed()
  const { uid } = (await bed.endpoint('one')).metadata
  bed.api.fail(calling('list', webhookEndpoints), { before: new ApiError('Unavailable', 'down') }, 1000)
  const abort = new AbortController()
  const started = bed.takeOver.start(new Set([shardOf(uid)]), abort.signal)
  started.catch(() => undefined)
  await bed.elapse(10_000)
  expect(await stateOf(started)).toBe('open')
  abort.abort()
  await bed.elapse(10_000)
  expect(await stateOf(started)).toBe('failed')
})

it('shards are confirmed if nobody has claimed them since, and not otherwise', async () => {
  const bed = new EngineBed()
  const mine = new Set([3, 4])
  const { signal } = new AbortController()
  const done = async (work: Promise<unknown>) => {
    const outcome = work.then(
      () => 'done',
      (error: Error) => error.message,
    )
    await bed.elapse(1000)
    return await outcome
  }
  const lost = 'another replica claimed a shard in the meantime'
  expect(await done(bed.takeOver.confirm(mine, signal))).toBe(lost)
  expect(await done(bed.takeOver.start(mine, signal))).toBe('done')
  const { length } = bed.api.calls
  expect(await done(bed.takeOver.confirm(mine, signal))).toBe('done')
  const other = new EngineBed(bed)
  other.showOutcomes()
  expect(await done(other.takeOver.start(new Set([4]), signal))).toBe('done')
  expect(await done(bed.takeOver.confirm(mine, signal))).toBe(lost)
  expect(await done(bed.takeOver.confirm(new Set([3]), signal))).toBe('done')
  const lists = bed.api.calls.slice(length).filter(({ verb }) => verb === 'list')
  expect(new Set(lists.map(({ plural }) => plural))).toEqual(new Set([webhookEndpoints.plural]))
})

const ref = { namespace: ORGANIZATION, name: 'one' }

it.each([
  {
    what: 'was deleted',
    change: (bed: EngineBed) => bed.store.delete(webhookEndpoints, ref),
  },
  {
    what: 'was deleted and created again',
    change: async (bed: EngineBed) => {
      const { metadata, ...rest } = await bed.store.get(webhookEndpoints, ref)
      await bed.store.delete(webhookEndpoints, ref)
      await bed.store.create(webhookEndpoints, {
        ...rest,
        metadata: { ...ref, labels: metadata.labels ?? {} },
      })
    },
  },
  {
    what: 'was disabled',
    change: (bed: EngineBed) => bed.store.patch(webhookEndpoints, ref, { spec: { state: 'disabled' } }),
  },
  {
    what: 'has to be disabled, as asked by annotation',
    change: (bed: EngineBed) =>
      bed.store.patch(webhookEndpoints, ref, {
        metadata: { annotations: { [DISABLE_ANNOTATION]: '2026-01-31T12:00:00Z' } },
      }),
  },
  {
    what: 'is being deleted',
    change: (bed: EngineBed) =>
      bed.store.patch(webhookEndpoints, ref, { metadata: { deletionTimestamp: '2026-01-31T12:00:00Z' } }),
  },
])(
  'an endpoint that $what while the Lease was lost gets nothing, though no watch shows it',
  async ({ change }) => {
    const bed = new EngineBed()
    const one = await bed.endpoint('one')
    const two = await bed.endpoint('two')
    for (const { metadata } of [one, two]) bed.sender.answers.set(`/${metadata.name}`, 200)
    const shards = new Set([one, two].map(({ metadata }) => shardOf(metadata.uid)))
    const { signal } = new AbortController()
    bed.engine.start()
    const started = bed.takeOver.start(shards, signal)
    await bed.elapse(20)
    await started
    bed.owns = () => false
    bed.follower.addSegment(await bed.append(bed.event([one, two])))
    await bed.elapse(90_000)
    await change(bed)
    const confirmed = bed.takeOver.confirm(shards, signal)
    await bed.elapse(1000)
    await confirmed
    bed.owns = () => true
    bed.engine.wake(shards)
    await bed.elapse(60_000)
    expect([bed.begun('one'), bed.begun('two').length]).toEqual([[], 1])
  },
)

it('shards are not confirmed while endpoints cannot be read', async () => {
  const bed = new EngineBed()
  const { uid } = (await bed.endpoint('one')).metadata
  const shards = new Set([shardOf(uid)])
  const { signal } = new AbortController()
  const started = bed.takeOver.start(shards, signal)
  await bed.elapse(20)
  await started
  bed.api.fail(calling('list', webhookEndpoints), { before: new ApiError('Unavailable', 'down') }, 4)
  const confirmed = bed.takeOver.confirm(shards, signal)
  await bed.elapse(50)
  expect(await stateOf(confirmed)).toBe('open')
  await bed.elapse(60_000)
  expect(await stateOf(confirmed)).toBe('done')
})

it('a shard that another replica has claimed meanwhile is not taken', async () => {
  const bed = new EngineBed()
  const { uid } = (await bed.endpoint('one')).metadata
  const shard = shardOf(uid)
  const seen = bed.follower.applyOutcomes.bind(bed.follower)
  bed.follower.applyOutcomes = (outcomes) => {
    seen(outcomes)
    const { version } = outcomes
    seen({ version: version + 0.5, writer: 'another', records: [{ kind: 'claim', shards: [shard] }] })
  }
  const started = bed.takeOver.start(new Set([shard]), new AbortController().signal)
  started.catch(() => undefined)
  await bed.elapse(20)
  expect(await stateOf(started)).toBe('failed')
  expect(bed.engine.queues.isOurs(shard)).toBe(false)
})

it('what the watch of segments shows only after a take-over is attempted then, once', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  const segment = await bed.append(bed.event([one]))
  bed.engine.start()
  const shards = new Set([shardOf(one.metadata.uid)])
  const started = bed.takeOver.start(shards, new AbortController().signal)
  await bed.elapse(20)
  expect(await started).toEqual({ unfinished: 0, resumed: 0 })
  bed.engine.wake(shards)
  bed.follower.addSegment(segment)
  await bed.elapse(60_000)
  expect(bed.begun('one')).toHaveLength(1)
  expect(bed.engine.counters.total).toBe(0)
})

it('a start that failed is begun again, and nothing is counted twice', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  bed.follower.addSegment(await bed.append(bed.event([one]), bed.event([one])))
  bed.engine.start()
  const shards = new Set([shardOf(one.metadata.uid)])
  const abort = new AbortController()
  bed.api.fail(calling('list', webhookDeliveries), { before: new ApiError('Unavailable', 'down') }, 2)
  const failed = bed.takeOver.start(shards, abort.signal)
  failed.catch(() => undefined)
  await bed.elapse(20)
  abort.abort()
  await bed.elapse(1000)
  await expect(failed).rejects.toThrow()
  const again = bed.takeOver.start(shards, new AbortController().signal)
  await bed.elapse(1000)
  expect(await again).toEqual({ unfinished: 0, resumed: 2 })
  expect(bed.engine.counters.total + bed.ended.length).toBe(2)
  bed.engine.wake(shards)
  await bed.elapse(60_000)
  expect(bed.begun('one')).toHaveLength(2)
  expect(bed.engine.counters.total).toBe(0)
})

it.each(['log', 'object'])(
  'a delivery in the %s whose endpoint goes while its shard is taken over is canceled',
  async (home) => {
    const bed = new EngineBed()
    const one = await bed.endpoint('one')
    const { name } = one.metadata
    const shards = new Set([shardOf(one.metadata.uid)])
    bed.follower.addSegment(await bed.append(bed.event([one])))
    if (home === 'object') {
      // The one before has made the object, and did not say so.
      const before = new EngineBed(bed)
      before.start()
      before.follower.addSegment(readSegment(bed.store.all(deliverySegments)[0] ?? { metadata: { name } }))
      before.api.fail(calling('create', outcomeSegments), 'dies before')
      await bed.elapse(3000)
      expect(bed.objects).toHaveLength(1)
    }
    bed.engine.start()
    const answer = Promise.withResolvers<void>()
    bed.api.fail(calling('list', webhookDeliveries), { hold: answer.promise })
    const recorded = Promise.withResolvers<void>()
    const isCancel = (body: object) => JSON.stringify(body).includes('canceled')
    bed.api.fail(calling('create', outcomeSegments, isCancel), { hold: recorded.promise })
    const started = bed.takeOver.start(shards, new AbortController().signal)
    await bed.elapse(50)
    await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name })
    bed.directory.remove(one)
    await bed.elapse(50)
    answer.resolve()
    await bed.elapse(50)
    recorded.resolve()
    await bed.elapse(60_000)
    await started
    expect(bed.engine.counters.total).toBe(0)
    expect(bed.segments.size).toBe(0)
    expect(bed.objects).toEqual([])
    expect(bed.begun('one')).toEqual([])
  },
)

it('nothing is sent to an endpoint that went before its shard was taken over, though its watch has not shown that yet', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  const made = await bed.endpoint('made')
  const { name } = one.metadata
  const shards = new Set([one, made].map(({ metadata }) => shardOf(metadata.uid)))
  bed.follower.addSegment(await bed.append(bed.event([one])))
  bed.engine.start()
  await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name })
  const answer = Promise.withResolvers<void>()
  bed.api.fail(calling('list', webhookDeliveries), { hold: answer.promise })
  const started = bed.takeOver.start(shards, new AbortController().signal)
  await bed.elapse(50)
  // Made after the list was read.
  const late = await bed.endpoint('late')
  answer.resolve()
  await bed.elapse(1000)
  await started
  bed.engine.wake(shards)
  await bed.elapse(60_000)
  expect(bed.begun('one')).toEqual([])
  expect(bed.engine.counters.total).toBe(0)
  expect([made, late].map(({ metadata }) => bed.directory.get(ORGANIZATION, metadata.name))).not.toContain(
    undefined,
  )
})

it('a delivery that was found while another replica drove it goes on when its shard is taken over later', async () => {
  const before = new EngineBed()
  const first = await before.endpoint('first')
  const later = await before.endpoint('later')
  before.sender.answers.set('/later', 500)
  before.start()
  await before.accept(before.event([later]))
  await before.elapse(5000)
  const shard = shardOf(later.metadata.uid)
  expect(shardOf(first.metadata.uid)).not.toBe(shard)
  const next = await before.restarted((bed) => {
    bed.owns = (one) => one !== shard
  })
  next.sender.answers.set('/later', 200)
  expect(next.engine.counters.total).toBe(1)
  next.owns = () => true
  const started = next.takeOver.start(new Set([shard]), new AbortController().signal)
  await next.elapse(1000)
  expect(await started).toEqual({ unfinished: 1, resumed: 0 })
  expect(next.engine.counters.total).toBe(1)
  await next.elapse(60_000)
  expect(next.begun('later')).toHaveLength(1)
  expect(next.engine.counters.total).toBe(0)
})

it('an object that says to be of a segment from after itself, as when the store was set back, holds no start up', async () => {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('one')
  bed.sender.answers.set('/one', 500)
  bed.start()
  await bed.accept(bed.event([endpoint]))
  await bed.elapse(10_000)
  const [object] = bed.objects
  if (!object) throw new Error('it has no object')
  const { name } = object.metadata
  await bed.store.patch(
    webhookDeliveries,
    { namespace: ORGANIZATION, name },
    { spec: { position: '999999/0' } },
  )
  const next = await bed.restarted((one) => {
    one.deliveredUpTo = one.store.version
    one.sender.answers.set('/one', 200)
  })
  await next.elapse(600_000)
  expect(next.begun('one').length).toBeGreaterThan(0)
})

it('what is taken over is signed with the keys that are stored by then, though their watch is behind', async () => {
  const bed = new EngineBed()
  const { uid } = (await bed.endpoint('one')).metadata
  const owner = { namespace: ORGANIZATION, name: 'one', uid }
  const key = { secret: `whsec_${'B'.repeat(32)}`, createdAt: new Date(bed.clock.now()).toISOString() }
  await bed.api.create(secrets, keysObject(SYSTEM, owner, [key]))
  await bed.api.create(secrets, {
    ...keysObject(SYSTEM, { ...owner, name: 'two' }, []),
    data: { keys: 'none' },
  })
  const started = bed.takeOver.start(new Set([shardOf(uid)]), new AbortController().signal)
  await bed.elapse(20)
  expect(await started).toEqual({ unfinished: 0, resumed: 0 })
  expect(bed.directory.get(ORGANIZATION, 'one')?.keys?.keys).toEqual([key])
})

it('what is taken over is not held up by Secrets that cannot be read', async () => {
  const bed = new EngineBed()
  const { uid } = (await bed.endpoint('one')).metadata
  bed.api.fail(calling('list', secrets), { before: new ApiError('Unavailable', 'cannot be decrypted') }, 1000)
  const started = bed.takeOver.start(new Set([shardOf(uid)]), new AbortController().signal)
  await bed.elapse(20_000)
  expect(await started).toEqual({ unfinished: 0, resumed: 0 })
  expect(bed.complaints).toContain('failed to read signing secrets; using those from the watch')
})
