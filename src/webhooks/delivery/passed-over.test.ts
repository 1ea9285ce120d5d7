import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'
import { lateSeconds } from './pending-counts.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

/** An ordered endpoint whose head cannot be read when its next attempt is due. */
async function unread() {
  const bed = new EngineBed()
  const one = await bed.endpoint('one', { ordered: true })
  bed.sender.answers.set('/one', 500)
  bed.start()
  const ids = await bed.accept(bed.event([one]), bed.event([one]))
  await bed.elapse(5 * SECOND)
  const head = bed.objects.find(({ spec }) => (spec as { deliveryId: string }).deliveryId === ids[0])
  if (!head) throw new Error('it has no object')
  const ref = { namespace: ORGANIZATION, name: head.metadata.name }
  await bed.store.patch(webhookDeliveries, ref, { spec: { endpoint: 7 } })
  bed.sender.answers.set('/one', 200)
  await bed.elapse(5 * MINUTE)
  expect(bed.begun('one')).toEqual(ids)
  expect(bed.engine.counters.total).toBe(1)
  return { bed, one, ref, ids }
}

describe('a delivery that cannot be read', () => {
  it('goes on when it was mended, and its shard comes back to the same process', async () => {
    const { bed, one, ref, ids } = await unread()
    const shards = new Set([shardOf(one.metadata.uid)])
    await bed.store.patch(webhookDeliveries, ref, { spec: { endpoint: 'one' } })
    await bed.engine.release(shards)
    const started = bed.takeOver.start(shards, new AbortController().signal)
    await bed.elapse(SECOND)
    await started
    bed.engine.wake(shards)
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toEqual([...ids, ids[0]])
    expect(bed.engine.counters.total).toBe(0)
  })

  it('is pending no longer when its endpoint is gone', async () => {
    const { bed, one } = await unread()
    await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name: 'one' })
    bed.directory.remove(one)
    await bed.elapse(MINUTE)
    expect(bed.engine.counters.total).toBe(0)
  })

  it('is held with the others while its endpoint is disabled, and is not what is due longest', async () => {
    const { bed, one } = await unread()
    expect(lateSeconds(bed.engine.queues.ours(), bed.clock.now())).toEqual({ davit: 0, endpoint: 0 })
    await bed.change(one, { state: 'disabled' })
    expect(bed.engine.counters.all).toMatchObject({ pending: 0, held: 1 })
    await bed.change(one, { state: 'enabled' })
    expect(bed.engine.counters.all).toMatchObject({ pending: 1, held: 0 })
  })
})

describe('a delivery that was sent well, and whose object is on its way,', () => {
  async function sent() {
    const bed = new EngineBed()
    const one = await bed.endpoint('one')
    bed.sender.answers.set('/one', 500)
    const made = Promise.withResolvers<void>()
    const isCreate = calling('create', webhookDeliveries)
    // A call that was not answered may still make the object, so the end has to be in it.
    bed.api.fail(isCreate, { before: new ApiError('Unavailable', 'no answer') })
    const refused = bed.api.fail(isCreate, { before: new ApiError('Quota', 'exceeded quota') }, 1000)
    bed.start()
    await bed.accept(bed.event([one]))
    await bed.elapse(5 * SECOND)
    bed.sender.answers.set('/one', () => {
      refused()
      bed.api.fail(isCreate, { hold: made.promise })
      return 200
    })
    await bed.elapse(35 * SECOND)
    expect(bed.begun('one')).toHaveLength(2)
    return { bed, one, made }
  }

  it('is counted as what it is when its endpoint is disabled meanwhile', async () => {
    const { bed, one, made } = await sent()
    await bed.change(one, { state: 'disabled' })
    expect(bed.engine.counters.all).toMatchObject({ pending: 0, held: 1 })
    made.resolve()
    await bed.elapse(SECOND)
    expect(bed.engine.counters.all).toEqual({ pending: 0, held: 0 })
  })

  it('is not canceled when its endpoint goes meanwhile', async () => {
    const { bed, one, made } = await sent()
    await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name: 'one' })
    bed.directory.remove(one)
    await bed.elapse(SECOND)
    made.resolve()
    await bed.elapse(SECOND)
    expect((await bed.records()).map(({ kind }) => kind)).toEqual(['failed', 'sent', 'moved'])
    expect(bed.engine.counters.total).toBe(0)
  })
})
