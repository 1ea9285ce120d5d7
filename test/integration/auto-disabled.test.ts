/** What follows automatic disabling (interface §3.1, §6; settled, "Events and deliveries"). */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { ApiError } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import { conditionOf } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, jumpToNext } from '../support/drive.ts'
import {
  disableByFailures,
  disabledByFailures,
  exhaust,
  failingEndpoint,
  SHORT_WAITS,
  statusOf,
} from '../support/exhaust.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'
import { until } from '../support/until.ts'

const ENABLE = 'davit.dev/enable-requested-at'
const DISABLED = 'webhook.endpoint.disabled'
const DAY_MS = 86_400_000

let davit: TestDavit
let receiver: Receiver
/** If set, the API server rejects the record that the owners were notified. */
let noteRefused = false
/** If set, it also rejects that a delivery is exhausted, so that its endpoint is not reconciled. */
let endRefused = false

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('auto-disabled', { env: SHORT_WAITS, wrapApi: withRefusals })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function withRefusals(api: KubernetesClient): KubernetesClient {
  return {
    ...api,
    patch: async (type, ref, patch, options) => {
      const { status } = patch as { status?: Record<string, unknown> }
      const refused = noteRefused && status?.announcedAt !== undefined
      if (refused || (endRefused && status?.state === 'exhausted'))
        throw new ApiError('Unavailable', 'not now')
      return await api.patch(type, ref, patch, options)
    },
  }
}

type News = { type: string; timestamp: string; data: Record<string, unknown> }

/** What came to a path of the news of one endpoint. */
function newsOf(name: string, path: string): ReceivedRequest[] {
  return receiver.received(path).filter(({ body }) => {
    const { type, data } = JSON.parse(body.toString()) as News
    return type === DISABLED && data.endpointId === `whe_${name}`
  })
}

async function news(name: string, path: string): Promise<ReceivedRequest> {
  return await until(
    async () => newsOf(name, path)[0],
    () => `${path} was not told of ${name}`,
  )
}

test('status, conditions and an event say what happened, since when, and what to do', async () => {
  const endpoint = await failingEndpoint(davit, receiver, 'shown')
  const status = await disableByFailures(davit, endpoint)
  expect(status).toMatchObject({
    state: 'disabled',
    disabledReason: 'ConsecutiveFailures',
    consecutiveFailures: 5,
    updatedAt: status.disabledAt,
  })
  const object = await davit.endpointWhen('shown', (seen) => conditionOf(seen, 'Stalled')?.status === 'True')
  for (const [type, wanted] of [
    ['Ready', 'False'],
    ['Stalled', 'True'],
  ] as const) {
    const condition = conditionOf(object, type)
    expect(condition).toMatchObject({ status: wanted, reason: 'ConsecutiveFailures' })
    expect(condition?.message).toContain(status.failingSince)
    expect(condition?.message).toContain(ENABLE)
  }
  expect(conditionOf(object, 'Delivering')).toMatchObject({ status: 'False', reason: 'Disabled' })
  expect(object.spec.state).toBe('enabled')
  await davit.restart()
  await passBy(davit, receiver)
  const told = davit.events.filter(({ about, reason }) => about === 'shown' && reason !== 'Pinged')
  const exhausted = told.filter(({ reason }) => reason === 'DeliveryExhausted')
  // The same words for each, so that Kubernetes counts them on one Event.
  expect(new Set(exhausted.map(({ message }) => message)).size).toBe(1)
  expect(exhausted).toHaveLength(5)
  expect(told.filter((event) => !exhausted.includes(event))).toMatchObject([
    {
      type: 'Warning',
      reason: 'DisabledAutomatically',
      message: `Davit disabled the endpoint because 5 consecutive deliveries exhausted their retries, the first at ${status.failingSince}.`,
    },
  ])
})

test('nothing is sent any more, retries that wait included; they go on when the owner enables it', async () => {
  const endpoint = await failingEndpoint(davit, receiver, 'stopped')
  const { name, path, type } = endpoint
  await exhaust(davit, endpoint, 4)
  davit.clock.jump(DAY_MS)
  await davit.publish(type, { n: 'fifth' })
  const all = await driveToAttempt(davit, name, 7, 5)
  const waiting = (await davit.publish(type, { n: 'waits' })).status?.eventId
  const waitingOf = (deliveries: readonly WebhookDelivery[]) =>
    deliveries.find(({ spec }) => spec.deliveryId === waiting)
  await davit.deliveriesWhen(name, (seen) => (waitingOf(seen)?.status?.attemptCount ?? 0) > 0)
  jumpToNext(davit, all)
  await disabledByFailures(davit, name)
  davit.clock.jump(DAY_MS)
  await passBy(davit, receiver)
  const held = waitingOf(await davit.deliveries(name))
  expect(held?.status?.state).toBe('retrying')
  const sent = receiver.received(path).filter(({ headers }) => headers['webhook-id'] === waiting)
  expect(sent).toHaveLength(held?.status?.attemptCount ?? 0)
  const missed = await davit.publish(type, { n: 'missed' })
  expect(missed.status).toMatchObject({ state: 'dispatched', deliveries: 0 })

  receiver.answer(path, { status: 200 })
  await davit.annotate(name, { [ENABLE]: davit.time() })
  const done = waitingOf(await davit.deliveriesWhen(name, (seen) => isFinal(waitingOf(seen)?.status?.state)))
  expect(done?.status).toMatchObject({ state: 'succeeded', attemptCount: sent.length + 1 })
})

describe('the other endpoints are told', () => {
  test('if they are enabled and subscribe to it or to `*`: once, signed, never the endpoint itself', async () => {
    const at = (name: string) => `${receiver.url}/${name}`
    const { secret } = await davit.endpoint('by-type', { url: at('by-type'), eventTypes: [DISABLED] })
    await davit.endpoint('by-star', { url: at('by-star'), eventTypes: ['*'] })
    await davit.endpoint('other', { url: at('other'), eventTypes: [await ownEventType(davit)] })
    await davit.endpoint('off', { url: at('off'), eventTypes: [DISABLED], state: 'disabled' })
    const endpoint = await failingEndpoint(davit, receiver, 'told', { eventTypes: [DISABLED] })
    const status = await disableByFailures(davit, endpoint)
    const request = await news('told', '/by-type')
    expect(JSON.parse(request.body.toString())).toEqual({
      type: DISABLED,
      timestamp: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/),
      data: {
        endpointId: 'whe_told',
        consecutiveFailures: 5,
        failingSince: status.failingSince,
        disabledAt: status.disabledAt,
      },
    })
    expect(signersOf(request, [secret])).toEqual([0])
    const same = await news('told', '/by-star')
    expect(same.headers['webhook-id']).toBe(request.headers['webhook-id'])
    expect(same.body).toEqual(request.body)

    await davit.restart()
    await davit.patchSpec('off', { state: 'enabled' })
    await davit.endpointWhen('off', (seen) => seen.status?.state === 'enabled')
    await passBy(davit, receiver)
    expect(newsOf('told', '/by-type')).toHaveLength(1)
    expect(newsOf('told', '/by-star')).toHaveLength(1)
    for (const path of ['/other', '/off', endpoint.path]) expect(newsOf('told', path)).toHaveLength(0)
    const types = receiver.received(endpoint.path).map(({ body }) => (JSON.parse(String(body)) as News).type)
    expect(new Set(types)).toEqual(new Set([endpoint.type]))
  })

  test('once, when the process ends before it could note that they were', async () => {
    await davit.endpoint('crash-told', { url: `${receiver.url}/crash-told`, eventTypes: [DISABLED] })
    const endpoint = await failingEndpoint(davit, receiver, 'crash')
    await exhaust(davit, endpoint, 4)
    davit.clock.jump(DAY_MS)
    noteRefused = true
    try {
      await exhaust(davit, endpoint, 1)
      await news('crash', '/crash-told')
      await davit.controller.stop()
    } finally {
      noteRefused = false
    }
    expect(await statusOf(davit, 'crash')).not.toHaveProperty('announcedAt')
    await davit.startController()
    await disabledByFailures(davit, 'crash')
    await passBy(davit, receiver)
    expect(newsOf('crash', '/crash-told')).toHaveLength(1)
  })

  test('but not the endpoint itself, also where it is enabled again before they could be', async () => {
    await davit.endpoint('late-told', { url: `${receiver.url}/late-told`, eventTypes: [DISABLED] })
    const endpoint = await failingEndpoint(davit, receiver, 'late', { eventTypes: [DISABLED] })
    await exhaust(davit, endpoint, 4)
    await davit.publish(endpoint.type, {})
    await driveToAttempt(davit, 'late', 7, 5)
    endRefused = true
    try {
      davit.clock.jump(DAY_MS)
      await davit.endpointWhen('late', ({ status }) => status?.disabledReason === 'ConsecutiveFailures')
      await davit.annotate('late', { [ENABLE]: davit.time() })
      await until(
        async () => davit.controller.webhooks.directory.get(davit.organization, 'late')?.enabled || undefined,
        () => 'the controller does not see the request',
      )
    } finally {
      endRefused = false
    }
    davit.clock.jump(10_000)
    await news('late', '/late-told')
    await davit.endpointWhen('late', ({ status }) => status?.state === 'enabled')
    await passBy(davit, receiver)
    expect(newsOf('late', endpoint.path)).toHaveLength(0)
  })

  test('again, with another id, when it is disabled once more', async () => {
    await davit.endpoint('twice-told', { url: `${receiver.url}/twice-told`, eventTypes: [DISABLED] })
    const endpoint = await failingEndpoint(davit, receiver, 'twice')
    const first = await disableByFailures(davit, endpoint)
    await davit.annotate('twice', { [ENABLE]: davit.time() })
    await davit.endpointWhen('twice', ({ status }) => status?.state === 'enabled')
    const second = await disableByFailures(davit, endpoint)
    const both = await until(
      async () => (newsOf('twice', '/twice-told').length >= 2 ? newsOf('twice', '/twice-told') : undefined),
      () => 'the second news did not come',
    )
    const dates = both.map(({ body }) => (JSON.parse(body.toString()) as News).data.disabledAt)
    expect(dates).toEqual([first.disabledAt, second.disabledAt])
    expect(new Set(both.map(({ headers }) => headers['webhook-id'])).size).toBe(2)
  })

  test('not of a pause by the owner', async () => {
    await davit.endpoint('pause-told', { url: `${receiver.url}/pause-told`, eventTypes: [DISABLED] })
    await failingEndpoint(davit, receiver, 'paused')
    await davit.patchSpec('paused', { state: 'disabled' })
    await davit.endpointWhen('paused', ({ status }) => status?.state === 'disabled')
    await passBy(davit, receiver)
    expect(newsOf('paused', '/pause-told')).toHaveLength(0)
  })
})

describe('enabled again', () => {
  const WAYS: Record<string, (name: string) => Promise<void>> = {
    'by annotation': (name) => davit.annotate(name, { [ENABLE]: davit.time() }),
    'by the spec, disabled and then enabled': async (name) => {
      await davit.patchSpec(name, { state: 'disabled' })
      await davit.endpointWhen(name, ({ status }) => status?.disabledReason === 'Requested')
      await davit.patchSpec(name, { state: 'enabled' })
    },
  }

  test.each(Object.keys(WAYS).map((way, index) => ({ way, name: `again-${index}` })))(
    '$way, it starts a new streak',
    async ({ way, name }) => {
      const endpoint = await failingEndpoint(davit, receiver, name)
      await disableByFailures(davit, endpoint)
      await WAYS[way]?.(name)
      const { status } = await davit.endpointWhen(name, ({ status }) => status?.state === 'enabled')
      expect(status?.consecutiveFailures).toBe(0)
      for (const field of ['failingSince', 'disabledAt', 'disabledReason', 'announcedAt'])
        expect(status).not.toHaveProperty(field)
      davit.clock.jump(2 * DAY_MS)
      const before = davit.clock.now()
      const failing = await exhaust(davit, endpoint, 4)
      expect(failing).toMatchObject({ state: 'enabled', consecutiveFailures: 4 })
      expect(Date.parse(failing.failingSince ?? '')).toBeGreaterThanOrEqual(before)
      // The old streak would have lasted long enough.
      expect(await exhaust(davit, endpoint, 1)).toMatchObject({ state: 'enabled', consecutiveFailures: 5 })
    },
  )

  test('any other change of the spec, and a restart, leave it disabled', async () => {
    const endpoint = await failingEndpoint(davit, receiver, 'stays')
    await disableByFailures(davit, endpoint)
    await davit.patchSpec('stays', { description: 'changed' })
    await davit.restart()
    await passBy(davit, receiver)
    expect(await statusOf(davit, 'stays')).toMatchObject({
      state: 'disabled',
      disabledReason: 'ConsecutiveFailures',
      consecutiveFailures: 5,
    })
  })
})
