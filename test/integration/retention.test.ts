import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { deliveryOutline, webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { Retention } from '../../src/webhooks/log/retention-loop.ts'
import type { RetentionLimits } from '../../src/webhooks/log/retention-plan.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { calling, FaultyApi } from '../support/faulty-api.ts'
import { logOn } from '../support/log-on.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const DAY = 24 * 60 * 60_000

const limits: RetentionLimits = {
  succeededMs: DAY,
  failedMs: 7 * DAY,
  maxFinishedPerEndpoint: 1000,
  maxFinishedBytes: 4_000_000,
  maxLogBytes: 256 * 1024 * 1024,
}

const nothing = () => undefined

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  // The controller's own retention keeps everything.
  const env = { DAVIT_RETENTION_SUCCEEDED: '8760h', DAVIT_RETENTION_FAILED: '8760h' }
  davit = await startDavit('retention', { env })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** Retention next to the controller, as right after a start. */
async function retention(over: Partial<RetentionLimits> = {}) {
  const { directory, engine } = davit.controller.webhooks
  const api = new FaultyApi(davit.api)
  const made = new Retention({
    resources: api,
    store: logOn(api, davit),
    clock: davit.clock,
    log: { info: nothing, warn: nothing, error: nothing },
    limits: { ...limits, ...over },
    directory,
    lowWater: () => engine.ctx.segments.lowWater,
    isClosed: (position) => engine.ctx.segments.isClosed(position),
    healthy: () => true,
    cancelHeld: nothing,
    eventLog: davit.controller.webhooks.eventLog,
  })
  const page = await davit.api.list(webhookDeliveries, { namespace: davit.organization, limit: 1000 })
  for (const raw of page.items) made.objectFound(deliveryOutline.parse(raw))
  await made.followLog(() => Number.POSITIVE_INFINITY)
  return { made, api }
}

/** Passes until one finds nothing. */
async function settle(made: Retention): Promise<void> {
  for (let wait = await made.pass(); wait < 1000; ) wait = await made.pass()
  davit.clock.jump(6000)
}

/** Everything that was accepted is closed: retention deletes nothing before. */
async function allClosed(): Promise<void> {
  await until(
    async () => (davit.controller.webhooks.engine.ctx.segments.size === 0 ? true : undefined),
    () => 'the log stays open',
  )
}

async function names(type: typeof deliverySegments): Promise<string[]> {
  const page = await davit.api.list(type, { namespace: davit.namespace, limit: 1000 })
  return page.items.map(({ metadata }) => metadata.name)
}

async function succeeded(endpoint: string, count: number) {
  return await davit.deliveriesWhen(
    endpoint,
    (found) => found.filter(({ status }) => status?.state === 'succeeded').length === count,
  )
}

test('a day later successes and the log are gone, and a restart sends nothing again', async () => {
  receiver.answer('/failing', { status: 503 })
  const eventTypes = ['environment.started']
  await davit.endpoint('objects', { url: `${receiver.url}/objects`, eventTypes })
  await davit.endpoint('lines', { url: `${receiver.url}/lines`, eventTypes })
  await davit.endpoint('failing', { url: `${receiver.url}/failing`, eventTypes })
  for (let n = 0; n < 5; n += 1) await davit.publish('environment.started', { n })
  await succeeded('objects', 5)
  await davit.deliveriesWhen('failing', (found) => found.length === 5)
  await receiver.waitFor(5, { path: '/lines' })
  await allClosed()
  const segmentsBefore = await names(deliverySegments)
  expect(segmentsBefore.length).toBeGreaterThan(0)

  const young = await retention()
  await settle(young.made)
  expect([await names(deliverySegments), young.made.stats().deleted]).toEqual([segmentsBefore, 0])

  await davit.controller.stop()
  davit.clock.jump(DAY + 60_000)
  const { made } = await retention()
  await settle(made)
  await settle(made)
  expect((await davit.deliveries('objects')).length).toBe(0)
  expect((await davit.deliveries('failing')).map(({ status }) => status?.state)).toEqual(
    Array(5).fill('retrying'),
  )
  expect(await names(deliverySegments)).toEqual([])
  expect(await names(outcomeSegments)).toHaveLength(1)
  expect(made.stats()).toMatchObject({ finished: 0, logSegments: 0, outcomeSegments: 1, failed: 0 })

  receiver.answer('/failing', { status: 200 })
  await davit.startController()
  await succeeded('failing', 5)
  await davit.publish('environment.started', { n: 5 })
  await receiver.waitFor(6, { path: '/objects' })
  await succeeded('failing', 6)
  expect(receiver.received('/objects')).toHaveLength(6)
  expect(receiver.received('/lines')).toHaveLength(6)
})

test('a payload over 16 KiB stays in its segment until its delivery is gone', async () => {
  const eventTypes = ['environment.stopped']
  await davit.endpoint('large', { url: `${receiver.url}/large`, eventTypes })
  await davit.publish('environment.stopped', { text: 'x'.repeat(20_000) })
  const [delivery] = await succeeded('large', 1)
  const segment = delivery?.spec.payloadRef?.segment ?? 'none'
  await allClosed()
  davit.clock.jump(5 * 60_000)

  // The segment has the API server's time, which is a day behind the controller's since the first test.
  const held = await retention({ succeededMs: DAY / 2 })
  await settle(held.made)
  await settle(held.made)
  expect(await names(deliverySegments)).toEqual([segment])

  const { made } = await retention({ succeededMs: 60_000 })
  await settle(made)
  expect(await davit.deliveries('large')).toEqual([])
  await settle(made)
  expect(await names(deliverySegments)).toEqual([])
})

test('a delivery that turns out not to be finished just then is not deleted', async () => {
  await davit.endpoint('changed', { url: `${receiver.url}/changed`, eventTypes: ['member.joined'] })
  await davit.publish('member.joined', {})
  const [delivery] = await succeeded('changed', 1)
  await allClosed()
  davit.clock.jump(2 * DAY)
  const { made, api } = await retention()
  const held = Promise.withResolvers<void>()
  api.fail((call) => calling('delete', webhookDeliveries)(call) && call.name === delivery?.metadata.name, {
    hold: held.promise,
  })
  const passing = settle(made)
  const deleting = calling('delete', webhookDeliveries)
  await until(
    async () => (api.calls.some(deleting) ? true : undefined),
    () => 'nothing is deleted',
  )
  const ref = { namespace: davit.organization, name: delivery?.metadata.name ?? '' }
  await davit.api.patch(webhookDeliveries, ref, { status: { state: 'retrying' } }, { subresource: 'status' })
  held.resolve()
  await passing
  expect(await davit.deliveries('changed')).toHaveLength(1)
})

test('the deliveries of a deleted endpoint go with it, although nothing collects garbage', async () => {
  await davit.endpoint('deleted', { url: `${receiver.url}/deleted`, eventTypes: ['billing.updated'] })
  await davit.publish('billing.updated', {})
  await succeeded('deleted', 1)
  await allClosed()
  const { made } = await retention()
  await davit.api.delete(webhookEndpoints, { namespace: davit.organization, name: 'deleted' })
  const { directory } = davit.controller.webhooks
  await until(
    async () => (directory.get(davit.organization, 'deleted') ? undefined : true),
    () => 'the watch does not show it',
  )
  await settle(made)
  expect(await davit.deliveries('deleted')).toEqual([])
})
