/** Who gets which events (interface §2.3, §6). */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { makeEventType, ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('subscription')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** Types of the events that came to a path, in the order in which they came. */
function typesAt(path: string): string[] {
  return receiver.received(path).map(({ body }) => (JSON.parse(body.toString()) as { type: string }).type)
}

async function inForce(name: string): Promise<void> {
  await davit.endpointWhen(name, ({ status, metadata }) => status?.observedGeneration === metadata.generation)
}

test('an endpoint gets the types of its list and no others; `*` gets all, types made later included', async () => {
  const [first, second, other] = [
    await ownEventType(davit),
    await ownEventType(davit),
    await ownEventType(davit),
  ]
  await davit.endpoint('list', { url: `${receiver.url}/list`, eventTypes: [first, second] })
  await davit.endpoint('all', { url: `${receiver.url}/all`, eventTypes: ['*'] })
  const later = await ownEventType(davit)
  for (const type of [first, other, second, later]) await davit.publish(type, {})
  await receiver.waitFor(4, { path: '/all' })
  await receiver.waitFor(2, { path: '/list' })
  await passBy(davit, receiver)
  expect(typesAt('/list').sort()).toEqual([first, second].sort())
  expect(typesAt('/all').sort()).toEqual([first, other, second, later].sort())
  await davit.api.delete(webhookEndpoints, { namespace: davit.organization, name: 'all' })
})

test('an event has one webhook-id, the same for every endpoint that gets it, and each signs with its own key', async () => {
  const type = await ownEventType(davit)
  const one = await davit.endpoint('same-a', { url: `${receiver.url}/same-a`, eventTypes: [type] })
  const two = await davit.endpoint('same-b', { url: `${receiver.url}/same-b`, eventTypes: [type] })
  const event = await davit.publish(type, { n: 1 })
  expect(event.status?.deliveries).toBe(2)
  const [a] = await receiver.waitFor(1, { path: '/same-a' })
  const [b] = await receiver.waitFor(1, { path: '/same-b' })
  expect(a?.headers['webhook-id']).toBe(event.status?.eventId)
  expect(b?.headers['webhook-id']).toBe(event.status?.eventId)
  expect(b?.body).toEqual(a?.body)
  expect(one.secret).not.toBe(two.secret)
  expect(a?.headers['webhook-signature']).not.toBe(b?.headers['webhook-signature'])
})

test('a new list replaces the old one, for events that come after it', async () => {
  const [before, after] = [await ownEventType(davit), await ownEventType(davit)]
  const path = '/replaced'
  receiver.answer(path, { status: 500 }, {})
  await davit.endpoint('replaced', { url: receiver.url + path, eventTypes: [before] })
  await davit.publish(before, { n: 1 })
  await receiver.waitFor(1, { path })
  await davit.patchSpec('replaced', { eventTypes: [after] })
  await inForce('replaced')
  const unwanted = await davit.publish(before, { n: 2 })
  expect(unwanted.status).toMatchObject({ state: 'dispatched', deliveries: 0 })
  await davit.publish(after, { n: 3 })
  await driveToEnd(davit, 'replaced', 2)
  // What was accepted before goes on: the list matters for new events only.
  expect(typesAt(path)).toEqual([before, after, before])
})

test('a type that does not exist is named in a condition, and works once it exists', async () => {
  const known = await ownEventType(davit)
  const missing = `later.t${Date.now().toString(36)}${Math.floor(Math.random() * 1e6)}`
  await davit.endpoint('early', { url: `${receiver.url}/early`, eventTypes: [known, missing] })
  const stalled = await davit.endpointWhen('early', ({ status }) => status?.conditions !== undefined)
  expect(stalled.status?.conditions).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        type: 'Ready',
        status: 'False',
        reason: 'UnknownEventTypes',
        message: expect.stringContaining(missing),
      }),
      expect.objectContaining({ type: 'Stalled', status: 'True', reason: 'UnknownEventTypes' }),
    ]),
  )
  await davit.publish(known, {})
  await receiver.waitFor(1, { path: '/early' })
  await makeEventType(davit, missing)
  const healed = await davit.endpointWhen(
    'early',
    ({ status }) =>
      status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true,
  )
  expect(healed.status?.conditions?.map(({ type }) => type)).not.toContain('Stalled')
  await davit.publish(missing, {})
  await receiver.waitFor(2, { path: '/early' })
  expect(typesAt('/early')).toEqual([known, missing])
})

test('an event that is made right after its endpoint goes to it', async () => {
  const type = await ownEventType(davit)
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { name: 'just-made', namespace: davit.organization },
    spec: { url: `${receiver.url}/just-made`, eventTypes: [type] },
  })
  const event = await davit.publish(type, {})
  expect(event.status?.deliveries).toBe(1)
  await receiver.waitFor(1, { path: '/just-made' })
})

test('endpoints may subscribe to types that only Davit publishes', async () => {
  await davit.endpoint('reserved', {
    url: `${receiver.url}/reserved`,
    eventTypes: ['webhook.ping', 'webhook.endpoint.disabled'],
  })
  const { status } = await davit.endpointWhen('reserved', ({ status }) => status?.conditions !== undefined)
  expect(status?.conditions).toEqual(
    expect.arrayContaining([expect.objectContaining({ type: 'Ready', status: 'True', reason: 'Accepted' })]),
  )
})
