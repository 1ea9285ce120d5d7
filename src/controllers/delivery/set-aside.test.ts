import { expect, test } from 'vitest'
import { PlaneBed } from '../../../test/support/plane-bed.ts'
import type { WebhookDeliveryStatus } from '../../api/webhook-delivery.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

function statusOf(bed: PlaneBed, endpoint: string): WebhookDeliveryStatus | undefined {
  const object = bed.objects.find(({ spec }) => (spec as { endpoint: string }).endpoint === endpoint)
  return object?.status as WebhookDeliveryStatus | undefined
}

/** A process that ends over its attempt at `poison`, and two more that do. */
async function endedThreeTimes(ordered = false) {
  let bed = new PlaneBed()
  const poison = await bed.endpoint('poison', { ordered })
  const good = await bed.endpoint('good')
  bed.sender.answers.set('/good', 200)
  bed.start()
  await bed.accept(bed.event([poison, good]), ...(ordered ? [bed.event([poison])] : []))
  await bed.elapse(SECOND)
  for (let start = 1; start <= 3; start += 1) {
    expect(bed.begun('poison')).toHaveLength(1)
    bed = await bed.restarted(({ sender }) => sender.answers.set('/good', 200))
    await bed.elapse(SECOND)
    if (start < 3) expect(statusOf(bed, 'poison')).toBeUndefined()
  }
  return { bed, poison, good }
}

test('a delivery that two starts did not survive is set aside, and the endpoint says so', async () => {
  const { bed, good } = await endedThreeTimes()
  expect(bed.begun('poison')).toEqual([])
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'retrying', attemptCount: 0 })
  expect(bed.events.map(({ reason }) => reason)).toEqual(['SetAside'])
  await bed.accept(bed.event([good]))
  await bed.elapse(SECOND)
  expect(bed.begun('good')).toHaveLength(1)
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(5 * MINUTE)
  expect(statusOf(bed, 'poison')).toMatchObject({ state: 'succeeded', attemptCount: 1 })
  expect(bed.segments.size).toBe(0)
})

test('a process that ends over it again leaves it alone at its start', async () => {
  const { bed } = await endedThreeTimes()
  await bed.elapse(5 * MINUTE)
  expect(bed.begun('poison')).toHaveLength(1)
  const next = await bed.restarted()
  await next.elapse(4 * MINUTE)
  expect(next.begun('poison')).toEqual([])
  next.sender.answers.set('/poison', 200)
  await next.elapse(MINUTE)
  expect(statusOf(next, 'poison')).toMatchObject({ state: 'succeeded', attemptCount: 1 })
})

test('what follows it at an ordered endpoint waits for it', async () => {
  const { bed } = await endedThreeTimes(true)
  await bed.elapse(4 * MINUTE)
  expect(bed.begun('poison')).toEqual([])
  bed.sender.answers.set('/poison', 200)
  await bed.elapse(6 * MINUTE)
  const ids = bed.begun('poison')
  expect(ids).toHaveLength(2)
  expect(bed.objects.every(({ status }) => (status as WebhookDeliveryStatus).state === 'succeeded')).toBe(
    true,
  )
})

test('a delivery that waits two seconds gets its object, and is never taken for a cause', async () => {
  let bed = new PlaneBed()
  const slow = await bed.endpoint('slow')
  bed.start()
  await bed.accept(bed.event([slow]))
  for (let start = 0; start < 4; start += 1) {
    await bed.elapse(3 * SECOND)
    expect(bed.begun('slow')).toHaveLength(1)
    bed = await bed.restarted()
  }
  expect(bed.events).toEqual([])
})
