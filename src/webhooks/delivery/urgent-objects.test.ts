import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { type ApiCall, calling } from '../../../test/support/faulty-api.ts'
import { VIEW_LABEL } from '../../apis/meta.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'

const SECOND = 1000

const isCreate = calling('create', webhookDeliveries)

function isView({ body }: ApiCall): boolean {
  const { labels = {} } = (body as { metadata: { labels?: Record<string, string> } }).metadata
  return VIEW_LABEL in labels
}

/** More than there are slots for calls. Each uses so little that no slot is kept from it. */
const FAILING = Array.from({ length: 40 }, (_, number) => `failing-${number}`)

it.each([
  { what: 'of one organization', succeeding: ['acme'], views: 5 },
  { what: 'of several organizations', succeeding: ['one', 'two', 'three'], views: 2 },
  { what: 'of an organization that has both', succeeding: ['failing-39'], views: 5 },
  { what: 'that are more than are written at a time', succeeding: ['acme'], views: 50 },
])('objects of deliveries that failed are created before views $what', async ({ succeeding, views }) => {
  const bed = new EngineBed()
  bed.sender.answers.set('/bad', 500)
  bed.sender.answers.set('/good', 200)
  const bad = await Promise.all(FAILING.map((namespace) => bed.endpoint('bad', {}, namespace)))
  const good = await Promise.all(succeeding.map((namespace) => bed.endpoint('good', {}, namespace)))
  bed.start()
  const gate = Promise.withResolvers<void>()
  bed.api.fail(isCreate, { hold: gate.promise }, 1_000_000)
  // They take all slots for calls.
  await bed.accept(...bad.slice(0, 24).map((one) => bed.event([one])))
  await bed.elapse(SECOND)
  await bed.accept(...good.flatMap((one) => Array.from({ length: views }, () => bed.event([one]))))
  await bed.elapse(SECOND)
  await bed.accept(...bad.slice(24).map((one) => bed.event([one])))
  await bed.elapse(SECOND)
  expect(bed.api.calls.filter(isCreate).some(isView)).toBe(false)
  gate.resolve()
  await bed.elapse(10 * SECOND)
  const created = bed.api.calls.filter(isCreate).map(isView)
  // One call in eight may be about a view, so that these do not wait for ever.
  expect(created.lastIndexOf(false)).toBeLessThan(FAILING.length + FAILING.length / 8)
  expect(created).toHaveLength(FAILING.length + views * good.length)
})
