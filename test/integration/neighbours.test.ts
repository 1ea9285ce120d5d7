/** Two organizations with objects of the same names. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliveryObjectName, nameOfMessage } from '../../src/apis/ids.ts'
import { API_VERSION, SHARD_LABEL } from '../../src/apis/meta.ts'
import { webhookDeliveries, webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { shardOf } from '../../src/ha/assignment.ts'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts'

const NAME = 'same-name'

let davit: TestDavit
let otherOrganization: TestDavit
let receiver: Receiver
let type: string

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('neighbours', { otherOrganization: true })
  if (!davit.otherOrganization) throw new Error('there is no neighbour')
  otherOrganization = davit.otherOrganization
  type = await ownEventType(davit)
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** An endpoint of each organization under one name, at `<path>/ours` and `<path>/theirs`. @returns their keys */
async function twoEndpoints(name: string, spec: Record<string, unknown>) {
  const make = (at: TestDavit, side: string) =>
    at.endpoint(name, { url: `${receiver.url}/${name}/${side}`, ...spec })
  return {
    ours: (await make(davit, 'ours')).secret,
    theirs: (await make(otherOrganization, 'theirs')).secret,
  }
}

function dataAt(path: string): unknown[] {
  return receiver.received(path).map(({ body }) => (JSON.parse(body.toString()) as { data: unknown }).data)
}

test('an event goes to the endpoints of its own organization alone, signed with their keys', async () => {
  const name = NAME
  const { ours, theirs } = await twoEndpoints(name, { eventTypes: [type] })
  expect(ours).not.toBe(theirs)
  for (const number of [1, 2, 3]) {
    await davit.publish(type, { from: 'ours', number })
    await otherOrganization.publish(type, { from: 'theirs', number })
  }
  for (const side of ['ours', 'theirs']) await receiver.waitFor(3, { path: `/${name}/${side}` })
  for (const [side, secret, other] of [
    ['ours', ours, theirs],
    ['theirs', theirs, ours],
  ] as const) {
    const path = `/${name}/${side}`
    expect(new Set(dataAt(path).map((data) => (data as { from: string }).from))).toEqual(new Set([side]))
    expect(dataAt(path).length).toBe(3)
    for (const request of receiver.received(path)) {
      expect(verifyWebhook(request, secret)).toMatchObject({ type })
      expect(() => verifyWebhook(request, other)).toThrow()
    }
  }
  for (const at of [davit, otherOrganization])
    for (const { metadata } of await at.deliveries(name)) expect(metadata.namespace).toBe(at.organization)
})

test('events of one name in both are two events', async () => {
  const name = 'same-event'
  const own = await ownEventType(davit)
  await twoEndpoints(name, { eventTypes: [own] })
  for (const [at, from] of [
    [davit, 'ours'],
    [otherOrganization, 'theirs'],
  ] as const) {
    await at.api.create(webhookEvents, {
      apiVersion: API_VERSION,
      kind: 'WebhookEvent',
      metadata: { name, namespace: at.organization },
      spec: { type: own, data: { from } },
    })
  }
  const [first, second] = await Promise.all(
    [davit, otherOrganization].map((at) =>
      at.eventWhen(name, ({ status }) => status?.state === 'dispatched'),
    ),
  )
  expect(first?.status?.eventId).not.toBe(second?.status?.eventId)
  expect(dataAt(`/${name}/ours`)).toEqual([{ from: 'ours' }])
  expect(dataAt(`/${name}/theirs`)).toEqual([{ from: 'theirs' }])
})

test('what one disables, rolls or deletes leaves the one of the same name alone', async () => {
  const name = 'alone'
  const own = await ownEventType(davit)
  const { theirs } = await twoEndpoints(name, { eventTypes: [own] })
  await davit.annotate(name, { 'davit.dev/rotate-requested-at': davit.time() })
  await davit.endpointWhen(name, ({ status }) => status?.signingSecrets?.length === 2)
  expect(otherOrganization.secrets(name)).toEqual([theirs])
  await davit.patchSpec(name, { state: 'disabled' })
  await davit.endpointWhen(name, ({ status }) => status?.state === 'disabled')
  await davit.publish(own, { from: 'ours' })
  await otherOrganization.publish(own, { from: 'theirs', number: 1 })
  await receiver.waitFor(1, { path: `/${name}/theirs` })
  const at = { namespace: davit.organization, name }
  await davit.api.delete(webhookEndpoints, at)
  await davit.deliveriesWhen(name, (deliveries) => deliveries.length === 0)
  await otherOrganization.publish(own, { from: 'theirs', number: 2 })
  await receiver.waitFor(2, { path: `/${name}/theirs` })
  await driveToEnd(otherOrganization, name, 2)
  expect(dataAt(`/${name}/ours`)).toEqual([])
  expect(await otherOrganization.deliveries(name)).toHaveLength(2)
  const kept = await davit.api.list(webhookDeliveries, { namespace: otherOrganization.organization })
  expect(kept.items.length).toBeGreaterThanOrEqual(2)
})

test('a delivery that somebody makes by hand does not bring a payload of the other organization', async () => {
  const name = `${NAME}-large`
  await twoEndpoints(name, { eventTypes: [type] })
  receiver.answer(`/${name}/ours`, () => ({ status: 503 }))
  await davit.publish(type, { secret: 'x'.repeat(20_000) })
  const [theirs] = await davit.deliveriesWhen(name, ([one]) => one?.status?.state === 'retrying')
  const { metadata } = await otherOrganization.endpointWhen(name, () => true)
  if (!theirs) throw new Error('it has no delivery')
  expect(theirs.spec.payloadRef).toBeDefined()
  await otherOrganization.api.create(webhookDeliveries, {
    apiVersion: API_VERSION,
    kind: webhookDeliveryKind.kind,
    metadata: {
      namespace: otherOrganization.organization,
      name: deliveryObjectName(nameOfMessage(theirs.spec.deliveryId) ?? '', metadata.uid),
      labels: { [SHARD_LABEL]: String(shardOf(metadata.uid)) },
    },
    spec: { ...theirs.spec, endpoint: name, endpointUid: metadata.uid },
  })
  await davit.restart()
  const [made] = await otherOrganization.deliveriesWhen(name, ([one]) => isFinal(one?.status?.state))
  expect(made?.status).toMatchObject({ state: 'canceled', reason: 'PayloadLost' })
  expect(receiver.received(`/${name}/theirs`)).toEqual([])
})
