/** Calls that make an object, and whose answers are lost. */
import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { type ApiCall, calling } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { ApiError, type RawObject } from '../../kube/client.ts'

it('an object that was made with the last of a quota shows the end of its delivery', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 500)
  bed.start()
  const isCreate = calling('create', webhookDeliveries)
  bed.api.fail(isCreate, { after: new ApiError('Unavailable', 'no answer') })
  bed.api.fail(isCreate, { before: new ApiError('Quota', 'exceeded quota') }, 1000)
  bed.follower.addSegment(await bed.append(bed.event([one])))
  await bed.elapse(5000)
  bed.sender.answers.set('/one', 200)
  await bed.elapse(60_000)
  expect(bed.objects.map(({ status }) => (status as { state?: string }).state)).toEqual(['succeeded'])
  expect(bed.engine.counters.total).toBe(0)
})

it('what was refused, and never made, goes on without an object', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  bed.start()
  bed.api.fail(
    calling('create', webhookDeliveries),
    { before: new ApiError('Quota', 'exceeded quota') },
    1000,
  )
  bed.follower.addSegment(await bed.append(bed.event([one])))
  await bed.elapse(60_000)
  expect(bed.objects).toEqual([])
  expect(
    bed.api.calls.filter(({ verb, plural }) => verb === 'get' && plural === webhookDeliveries.plural),
  ).toEqual([])
  expect(bed.engine.counters.total).toBe(0)
})

it('what was refused after a call that was not answered stays open until that can make no object any more', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  bed.start()
  const isCreate = calling('create', webhookDeliveries)
  bed.sender.answers.set('/one', 500)
  const made: RawObject[] = []
  const isFirst = (call: ApiCall) => isCreate(call) && made.push(call.body as RawObject) === 1
  bed.api.fail(isFirst, { before: new ApiError('Unavailable', 'no answer') })
  const freed = bed.api.fail(isCreate, { before: new ApiError('Quota', 'exceeded quota') }, 1000)
  bed.follower.addSegment(await bed.append(bed.event([one])))
  await bed.elapse(5000)
  bed.sender.answers.set('/one', 200)
  await bed.elapse(35_000)
  expect(bed.begun('one')).toHaveLength(2)
  expect(bed.segments.size).toBe(1)
  // The call takes effect, and the quota stays full.
  for (const object of made.slice(0, 1)) await bed.store.create(webhookDeliveries, object)
  await bed.elapse(30_000)
  freed()
  expect(bed.segments.size).toBe(0)
  expect(bed.objects.map(({ status }) => (status as { state?: string }).state)).toEqual(['succeeded'])
  expect(bed.engine.counters.total).toBe(0)
})

it('where that never comes, it ends after a minute', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  bed.start()
  const isCreate = calling('create', webhookDeliveries)
  bed.sender.answers.set('/one', 500)
  bed.api.fail(isCreate, { before: new ApiError('Unavailable', 'no answer') })
  bed.api.fail(isCreate, { before: new ApiError('Quota', 'exceeded quota') }, 1000)
  bed.follower.addSegment(await bed.append(bed.event([one])))
  await bed.elapse(5000)
  bed.sender.answers.set('/one', 200)
  await bed.elapse(55_000)
  expect(bed.segments.size).toBe(1)
  await bed.elapse(20_000)
  expect(bed.segments.size).toBe(0)
  expect(bed.objects).toEqual([])
  expect(bed.engine.counters.total).toBe(0)
})
