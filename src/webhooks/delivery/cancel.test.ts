import { expect, test } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { OwnershipEpochs } from '../../ha/ownership.ts'
import { ApiError } from '../../kube/client.ts'
import { cancelHeld } from './cancel.ts'

const DAY = 24 * 60 * 60_000
const limits = { failedMs: 7 * DAY }

async function setState(bed: EngineBed, endpoint: WebhookEndpoint, state: 'enabled' | 'disabled') {
  const { name } = endpoint.metadata
  const status = { state, disabledAt: state === 'disabled' ? new Date(bed.clock.now()).toISOString() : null }
  const ref = { namespace: ORGANIZATION, name }
  await bed.store.patch(webhookEndpoints, ref, { status }, { subresource: 'status' })
  const changed = await bed.store.patch(webhookEndpoints, ref, { spec: { state } })
  bed.directory.apply(webhookEndpoint.parse(changed))
}

/** A bed with an endpoint that was disabled while `count` deliveries waited for it. */
async function holding(count = 1) {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('billing')
  await setState(bed, endpoint, 'disabled')
  bed.start()
  for (let n = 0; n < count; n += 1) await bed.accept(bed.event([endpoint]))
  await bed.elapse(60_000)
  const look = async () => {
    const started = cancelHeld(bed.engine.ctx, bed.engine.queues.ours(), limits, bed.clock.now())
    await bed.elapse(0)
    return started
  }
  return { bed, endpoint, look }
}

function states(bed: EngineBed) {
  return bed.objects.map(({ status }) => (status as { state?: string; reason?: string } | undefined) ?? {})
}

test('a delivery held for seven days stays, and a moment later ends as canceled', async () => {
  const { bed, look } = await holding()
  await bed.elapse(7 * DAY - 60_000)
  expect([await look(), states(bed)]).toEqual([0, [{ state: 'pending' }]])
  await bed.elapse(60_000)
  expect(await look()).toBe(1)
  expect(states(bed)).toMatchObject([{ state: 'canceled', reason: 'HeldTooLong', attemptCount: 0 }])
  expect(bed.ended).toMatchObject([{ state: 'canceled' }])
  expect([await look(), bed.engine.counters.total]).toEqual([0, 0])
})

test('while the endpoint is enabled nothing is held, however old it is', async () => {
  const { bed, endpoint, look } = await holding()
  await setState(bed, endpoint, 'enabled')
  await bed.elapse(1000)
  bed.underWay[0]?.end(503)
  await bed.elapse(8 * DAY)
  expect(await look()).toBe(0)
})

test('a delivery accepted after the endpoint was disabled is held since it was accepted', async () => {
  const { bed, endpoint, look } = await holding()
  await bed.elapse(4 * DAY)
  await bed.accept(bed.event([endpoint]))
  await bed.elapse(4 * DAY)
  expect(await look()).toBe(1)
  expect(bed.engine.counters.total).toBe(1)
})

test('many are ended a few at a time', async () => {
  const { bed, look } = await holding(120)
  await bed.elapse(8 * DAY)
  expect([await look(), await look(), await look(), await look()]).toEqual([50, 50, 20, 0])
  expect(new Set(states(bed).map(({ reason }) => reason))).toEqual(new Set(['HeldTooLong']))
})

test('one whose endpoint is enabled just then is delivered', async () => {
  const { bed, endpoint, look } = await holding()
  await bed.elapse(8 * DAY)
  const held = Promise.withResolvers<void>()
  bed.api.fail(calling('get', webhookDeliveries), { hold: held.promise })
  await look()
  await setState(bed, endpoint, 'enabled')
  held.resolve()
  await bed.elapse(1000)
  expect(bed.underWay).toHaveLength(1)
  bed.underWay[0]?.end()
  await bed.elapse(1000)
  expect(states(bed)).toMatchObject([{ state: 'succeeded' }])
})

test('one that cannot be read is held on, and ended at another look', async () => {
  const { bed, look } = await holding()
  await bed.elapse(8 * DAY)
  bed.api.fail(calling('get', webhookDeliveries), { before: new ApiError('Unavailable', 'no answer') })
  expect(await look()).toBe(1)
  expect(states(bed)).toEqual([{ state: 'pending' }])
  await bed.elapse(1000)
  expect(await look()).toBe(1)
  expect(states(bed)).toMatchObject([{ reason: 'HeldTooLong' }])
})

test('one whose object is gone is forgotten', async () => {
  const { bed, look } = await holding()
  await bed.elapse(8 * DAY)
  const name = bed.objects[0]?.metadata.name ?? ''
  await bed.store.delete(webhookDeliveries, { namespace: ORGANIZATION, name })
  expect(await look()).toBe(1)
  expect(bed.engine.counters.total).toBe(0)
})

const ALL_SHARDS = Array.from({ length: 256 }, (_, shard) => shard)

test('what was begun for a shard may write no more once the shard is lost', async () => {
  const { bed } = await holding()
  await bed.elapse(8 * DAY)
  const epochs = new OwnershipEpochs()
  epochs.begin(ALL_SHARDS)
  const read = Promise.withResolvers<void>()
  bed.api.fail(calling('get', webhookDeliveries), { hold: read.promise })
  const mayWrite: boolean[] = []
  const patches = calling('patch', webhookDeliveries)
  bed.api.fail((call) => patches(call) && mayWrite.push(epochs.mayWrite) === 0, { hold: read.promise })
  const ctx = { ...bed.engine.ctx, shards: { owns: () => true, epochs } }
  cancelHeld(ctx, bed.engine.queues.ours(), limits, bed.clock.now())
  epochs.end(ALL_SHARDS)
  read.resolve()
  await bed.elapse(1000)
  expect(mayWrite).toEqual([false])
})
