import { expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError, type RawObject } from '../../kube/client.ts'
import { RemoteDeliverySweeper } from './takeover.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

/** A replica that knows of deliveries of another one, which is gone; it looks at what it knows. */
async function watching(count: number) {
  const owner = new EngineBed()
  const one = await owner.endpoint('one')
  owner.sender.answers.set('/one', 500)
  owner.start()
  await owner.accept(...Array.from({ length: count }, () => owner.event([one])))
  await owner.elapse(5 * SECOND)
  owner.api.die()
  owner.sender.dead = true
  const bed = new EngineBed(owner)
  bed.showOutcomes()
  const shard = shardOf(one.metadata.uid)
  const own = (shard + 1) % 256
  bed.owns = (any) => any === own
  const started = bed.takeOver.start(new Set([own]), new AbortController().signal)
  await bed.elapse(SECOND)
  await started
  expect(bed.engine.counters.total).toBe(count)
  const stop = new AbortController()
  const before = bed.api.calls.length
  const looks = () => bed.api.calls.slice(before).filter(({ verb }) => verb === 'get')
  void new RemoteDeliverySweeper(bed.engine).run(stop.signal)
  return { bed, stop, looks, own, shard, objects: owner.objects }
}

function refOf({ metadata: { name } }: RawObject | undefined = { metadata: { name: '' } }) {
  return { namespace: ORGANIZATION, name }
}

it('what has ended, or is gone, is pending no longer, and the rest is', async () => {
  const { bed, objects } = await watching(3)
  const [ended, gone, pending] = objects
  const status = { state: 'succeeded', attemptCount: 2 }
  await bed.store.patch(webhookDeliveries, refOf(ended), { status }, { subresource: 'status' })
  await bed.store.delete(webhookDeliveries, refOf(gone))
  await bed.elapse(11 * MINUTE)
  expect(bed.engine.counters.total).toBe(1)
  const [left] = bed.engine.objectBacked.values()
  expect(`${left?.name}`).toBe(refOf(pending).name.split('-')[0])
})

it('what cannot be read, or looked up, is still pending, and looked at again later', async () => {
  const { bed, objects } = await watching(2)
  const [strange, ended] = objects
  await bed.store.patch(webhookDeliveries, refOf(strange), { spec: { endpoint: 7 } })
  bed.api.fail(calling('get', webhookDeliveries), { before: new ApiError('Unavailable', 'down') }, 2)
  const status = { state: 'exhausted', attemptCount: 8 }
  await bed.store.patch(webhookDeliveries, refOf(ended), { status }, { subresource: 'status' })
  await bed.elapse(11 * MINUTE)
  expect(bed.engine.counters.total).toBe(2)
  await bed.elapse(10 * MINUTE)
  expect(bed.engine.counters.total).toBe(1)
})

it('so many at a time, oldest first, each once in a round', async () => {
  const { bed, looks } = await watching(20)
  await bed.elapse(10 * MINUTE)
  expect(looks().length).toBeLessThanOrEqual(4)
  await bed.elapse(2 * SECOND)
  expect(looks().length).toBeLessThanOrEqual(12)
  await bed.elapse(MINUTE)
  const oldest = [...bed.engine.objectBacked.values()].map(({ name }) => name)
  expect(looks().map(({ name = '' }) => name.split('-')[0])).toEqual(oldest)
  await bed.elapse(10 * MINUTE)
  expect(looks()).toHaveLength(40)
})

it('its own are left alone, and nothing more is looked at when it stops', async () => {
  const { bed, stop, looks, shard, own } = await watching(2)
  bed.engine.queues.acquire(new Set([shard]))
  await bed.elapse(15 * MINUTE)
  expect(looks()).toEqual([])
  await bed.engine.release(new Set([shard, own]))
  stop.abort()
  await bed.elapse(30 * MINUTE)
  expect(looks()).toEqual([])
})
