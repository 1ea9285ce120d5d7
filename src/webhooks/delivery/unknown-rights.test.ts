/** What an API server says that does not know the rights of Davit is no word about an object. */
import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { ApiError } from '../../kube/client.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

/** A delivery that succeeds; so many calls for its object are refused. */
async function delivered(refusals: number, elapsedMs: number): Promise<EngineBed> {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('one')
  bed.sender.answers.set('/one', 200)
  const without = new ApiError('Forbidden', 'no right', { status: 403, lacksRight: true })
  bed.api.fail(calling('create', webhookDeliveries), { before: without }, refusals)
  bed.start()
  await bed.accept(bed.event([endpoint]))
  await bed.elapse(elapsedMs)
  return bed
}

it('a success gets its object from an API server that has just started, and knows the rights of Davit a little later', async () => {
  const bed = await delivered(4, 10 * SECOND)
  expect(bed.objects.map(({ status }) => status)).toMatchObject([{ state: 'succeeded' }])
  expect(bed.segments.size).toBe(0)
})

it('where Davit has no right to make it for longer, a success goes without its object', async () => {
  const bed = await delivered(10_000, 2 * MINUTE)
  expect(bed.objects).toEqual([])
  expect(bed.ended.map(({ state }) => state)).toEqual(['succeeded'])
  expect(bed.segments.size).toBe(0)
})
