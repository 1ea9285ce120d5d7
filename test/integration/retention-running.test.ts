import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('retention-running', { env: { DAVIT_MAX_FINISHED_PER_ENDPOINT: '3' } })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

test('a running controller keeps its bounds, and cancels what is held for more than a week', async () => {
  const eventTypes = ['environment.started']
  await davit.endpoint('billing', { url: `${receiver.url}/billing`, eventTypes })
  for (let n = 0; n < 6; n += 1)
    await davit.publish('environment.started', { n, large: 'x'.repeat(n === 2 ? 20_000 : 1) })
  await receiver.waitFor(6, { path: '/billing' })
  await davit.deliveriesWhen('billing', (found) => found.length === 3)

  receiver.answer('/held', { status: 503 })
  await davit.endpoint('held', { url: `${receiver.url}/held`, eventTypes: ['environment.stopped'] })
  await davit.publish('environment.stopped', {})
  await davit.deliveriesWhen('held', ([one]) => one?.status?.state === 'retrying')
  await davit.patchSpec('held', { state: 'disabled' })
  await davit.endpointWhen(
    'held',
    ({ status }) => status?.state === 'disabled' && status.disabledAt !== undefined,
  )
  davit.clock.jump(7 * 24 * 3600_000 + 60_000)
  const [canceled] = await davit.deliveriesWhen('held', ([one]) => one?.status?.state === 'canceled')
  expect(canceled?.status?.reason).toBe('HeldTooLong')
  await davit.deliveriesWhen('billing', (found) => found.length === 0)
  await until(
    async () => {
      davit.clock.jump(5000)
      const page = await davit.api.list(deliverySegments, { namespace: davit.namespace })
      // The index hears of it with the answer, a moment later.
      const { logSegments } = davit.controller.webhooks.retention.stats()
      return (page.items.length === 0 && logSegments === 0) || undefined
    },
    () => `segments stay: ${JSON.stringify(davit.controller.webhooks.retention.stats())}`,
  )
  expect(davit.controller.webhooks.retention.stats()).toMatchObject({
    finished: 1,
    logSegments: 0,
    failed: 0,
  })
  expect(davit.logLines.filter((line) => line.includes('"event":"retention_'))).toEqual([])
  await davit.controller.stop()
  await davit.startController()
  expect(davit.controller.webhooks.retention.stats()).toMatchObject({ finished: 1, logSegments: 0 })
  expect(receiver.received('/billing')).toHaveLength(6)
  const page = await davit.api.list(webhookDeliveries, { namespace: davit.organization })
  expect(page.items).toHaveLength(1)
})
