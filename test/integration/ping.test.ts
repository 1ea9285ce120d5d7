/** Pings by annotation (interface §4.2 rule 1, §6; settled, "Events and deliveries"). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts'

const PING = 'davit.dev/ping-requested-at'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('ping')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

async function handled(name: string, value: string): Promise<void> {
  await davit.endpointWhen(name, ({ status }) => status?.lastHandled?.ping === value)
}

test('a ping is one signed webhook.ping to that endpoint alone, although it subscribes to something else', async () => {
  const type = await ownEventType(davit)
  const { secret } = await davit.endpoint('pinged', { url: `${receiver.url}/pinged`, eventTypes: [type] })
  await davit.endpoint('bystander', { url: `${receiver.url}/bystander`, eventTypes: ['*'] })
  const value = davit.time()
  await davit.annotate('pinged', { [PING]: value })
  const [request] = await receiver.waitFor(1, { path: '/pinged' })
  expect(request && verifyWebhook(request, secret)).toEqual({
    type: 'webhook.ping',
    timestamp: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/),
    data: { endpointId: 'whe_pinged' },
  })
  await handled('pinged', value)
  const [delivery, ...others] = await davit.deliveriesWhen('pinged', (all) => all.length > 0)
  expect(others).toEqual([])
  expect(delivery?.spec).toMatchObject({
    eventType: 'webhook.ping',
    deliveryId: request?.headers['webhook-id'],
  })
  expect((await davit.eventSeen('pinged', 'Pinged')).message).toContain(
    String(request?.headers['webhook-id']),
  )
  await passBy(davit, receiver)
  expect(receiver.received('/pinged')).toHaveLength(1)
  expect(receiver.received('/bystander')).toHaveLength(0)
})

test('a ping that fails is retried like any delivery', async () => {
  receiver.answer('/ping-fails', { status: 500 }, {})
  await davit.endpoint('ping-fails', { url: `${receiver.url}/ping-fails` })
  await davit.annotate('ping-fails', { [PING]: davit.time() })
  const [delivery] = await driveToEnd(davit, 'ping-fails')
  expect(delivery?.status).toMatchObject({ state: 'succeeded', attemptCount: 2 })
})

test('a value is acted on once: not again by a change of the endpoint, nor by a restart; another value is', async () => {
  const path = '/once'
  await davit.endpoint('once', { url: receiver.url + path })
  const value = davit.time()
  await davit.annotate('once', { [PING]: value })
  await handled('once', value)
  await davit.patchSpec('once', { description: 'changed' })
  await davit.restart()
  await davit.annotate('once', { unrelated: 'x', [PING]: value })
  await passBy(davit, receiver)
  expect(receiver.received(path)).toHaveLength(1)
  await davit.annotate('once', { [PING]: davit.time() })
  const [first, second] = await receiver.waitFor(2, { path })
  expect(second?.headers['webhook-id']).not.toBe(first?.headers['webhook-id'])
})

describe('nothing is sent', () => {
  test('for a value that is older than the endpoint, as a copy or a file in Git has it', async () => {
    const old = '2020-01-01T00:00:00Z'
    await davit.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: 'WebhookEndpoint',
      metadata: { name: 'copied', namespace: davit.organization, annotations: { [PING]: old } },
      spec: { url: `${receiver.url}/copied`, eventTypes: ['*'] },
    })
    await handled('copied', old)
    await passBy(davit, receiver)
    expect(receiver.received('/copied')).toHaveLength(0)
  })

  test.for([
    ['a word', 'now'],
    ['a month too many', '2026-13-01T00:00:00Z'],
    ['seconds since 1970', '1768000000'],
    ['three thousand characters', `x${'9'.repeat(3000)}`],
  ] as const)('for a value that is no time, which an event tells once: %s', async ([, value]) => {
    const name = `garbage-${value.length}`
    await davit.endpoint(name, { url: `${receiver.url}/${name}` })
    await davit.annotate(name, { [PING]: value })
    await davit.endpointWhen(name, ({ status }) => value.startsWith(status?.lastHandled?.ping ?? '-'))
    await davit.annotate(name, { unrelated: 'x' })
    await passBy(davit, receiver)
    expect(receiver.received(`/${name}`)).toHaveLength(0)
    const told = davit.events.filter(({ about }) => about === name)
    expect(told).toMatchObject([
      { type: 'Warning', reason: 'InvalidRequest', message: expect.stringContaining(PING) },
    ])
    // It keeps the endpoint from nothing.
    await davit.annotate(name, { [PING]: davit.time() })
    await receiver.waitFor(1, { path: `/${name}` })
  })

  test('to a disabled endpoint: an event says so, and enabling it does not send it later', async () => {
    await davit.endpoint('off', { url: `${receiver.url}/off`, state: 'disabled' })
    const value = davit.time()
    await davit.annotate('off', { [PING]: value })
    await handled('off', value)
    await davit.eventSeen('off', 'EndpointDisabled')
    await davit.patchSpec('off', { state: 'enabled' })
    await davit.endpointWhen('off', ({ status }) => status?.state === 'enabled')
    await passBy(davit, receiver)
    expect(receiver.received('/off')).toHaveLength(0)
  })
})
