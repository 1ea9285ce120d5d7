/** Deliveries in shards whose earlier owner may still have attempts in progress. */
import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'

const SECOND = 1000

/** An owner that died over what it was sending, and its successor, which is not alone until `wait` is over. */
async function succeeded(spec: { ordered: boolean }) {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('one', spec)
  bed.start()
  const ids = await bed.accept(bed.event([endpoint]), bed.event([endpoint]))
  await bed.elapse(SECOND)
  let isAlone = false
  const next = await bed.restarted((one) => {
    one.isAlone = () => isAlone
    one.sender.answers.set('/one', 200)
  })
  const wait = async () => {
    isAlone = true
    next.engine.wake(shardsOf(endpoint))
    await next.elapse(SECOND)
  }
  return { next, endpoint, ids, wait }
}

function shardsOf({ metadata: { uid } }: WebhookEndpoint): Set<number> {
  return new Set([shardOf(uid)])
}

it('are sent at once where their endpoint has no order', async () => {
  const { next } = await succeeded({ ordered: false })
  await next.elapse(SECOND)
  expect(next.begun('one')).toHaveLength(2)
})

it('wait where it has one, also those that come meanwhile', async () => {
  const { next, endpoint, ids, wait } = await succeeded({ ordered: true })
  const [last] = await next.accept(next.event([endpoint]))
  await next.elapse(30 * SECOND)
  expect(next.begun('one')).toEqual([])
  await wait()
  expect(next.begun('one')).toEqual([...ids, last])
})

it('wait from when it gets one, and no longer than it has it', async () => {
  const { next, endpoint } = await succeeded({ ordered: false })
  await next.elapse(SECOND)
  await next.change(endpoint, { ordered: true })
  await next.accept(next.event([endpoint]))
  await next.elapse(10 * SECOND)
  expect(next.begun('one')).toHaveLength(2)
  await next.change(endpoint, { ordered: false })
  await next.elapse(SECOND)
  expect(next.begun('one')).toHaveLength(3)
})

it.each([
  {
    waitMs: 1 * SECOND,
    object: false,
    what: 'log alone, since the earlier owner had not begun to create an object',
  },
  { waitMs: 3 * SECOND, object: true, what: 'object that the earlier owner may still create' },
])('have their end in the $what', async ({ waitMs, object }) => {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('one')
  bed.start()
  bed.api.fail(calling('create', webhookDeliveries), 'dies before')
  await bed.accept(bed.event([endpoint]))
  await bed.elapse(waitMs)
  const next = await bed.restarted((one) => {
    one.isAlone = () => false
    one.sender.answers.set('/one', 200)
  })
  await next.elapse(SECOND)
  expect(next.begun('one')).toHaveLength(1)
  const ends = (await next.records()).filter(({ kind }) => kind === 'sent')
  expect(ends).toMatchObject([{ object }])
})
