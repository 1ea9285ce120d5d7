/** Calls that make an object, and whose answers are lost. */
import { expect, it } from 'vitest'
import { calling } from '../../../test/support/faulty-api.ts'
import { PlaneBed } from '../../../test/support/plane-bed.ts'
import { webhookDeliveries } from '../../api/webhook-delivery.ts'
import { ApiError } from '../../ports/kubernetes.ts'

it('an object that was made with the last of a quota shows the end of its delivery', async () => {
  const bed = new PlaneBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  bed.start()
  const isCreate = calling('create', webhookDeliveries)
  bed.api.fail(isCreate, { after: new ApiError('Unavailable', 'no answer') })
  bed.api.fail(isCreate, { before: new ApiError('Quota', 'exceeded quota') }, 1000)
  bed.follower.take(await bed.append(bed.event([one])))
  await bed.elapse(60_000)
  expect(bed.objects.map(({ status }) => (status as { state?: string }).state)).toEqual(['succeeded'])
  expect(bed.plane.tally.total).toBe(0)
})

it('what was refused, and never made, goes on without an object', async () => {
  const bed = new PlaneBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  bed.start()
  bed.api.fail(
    calling('create', webhookDeliveries),
    { before: new ApiError('Quota', 'exceeded quota') },
    1000,
  )
  bed.follower.take(await bed.append(bed.event([one])))
  await bed.elapse(60_000)
  expect(bed.objects).toEqual([])
  expect(
    bed.api.calls.filter(({ verb, plural }) => verb === 'get' && plural === webhookDeliveries.plural),
  ).toEqual([])
  expect(bed.plane.tally.total).toBe(0)
})
