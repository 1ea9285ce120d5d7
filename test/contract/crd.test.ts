/** What the API server makes of the definitions in crds/, beyond taking and refusing. */

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { boxTemplateKind } from '../../src/apis/box-template.ts'
import { deliverySegmentKind } from '../../src/apis/delivery-segment.ts'
import { eventTypeKind } from '../../src/apis/event-type.ts'
import { GROUP } from '../../src/apis/meta.ts'
import { outcomeSegmentKind } from '../../src/apis/outcome-segment.ts'
import { registryCredentialKind } from '../../src/apis/registry-credential.ts'
import { secretsSettingsKind } from '../../src/apis/secrets-settings.ts'
import { webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../src/apis/webhook-endpoint.ts'
import { webhookEventKind } from '../../src/apis/webhook-event.ts'
import { customResourceDefinition, kinds } from '../../tools/docgen/crd.ts'
import { type NamespaceApi, openNamespace, pathOf } from './cluster-api.ts'
import { goodTemplate } from './samples/box-template.ts'
import { goodCredential } from './samples/registry-credential.ts'
import { goodSettings } from './samples/secrets-settings.ts'
import { goodDeliverySegment, goodOutcomeSegment } from './samples/segments.ts'
import { goodDelivery } from './samples/webhook-delivery.ts'
import { goodEndpoint } from './samples/webhook-endpoint.ts'
import { goodEvent } from './samples/webhook-event.ts'

let namespace: NamespaceApi
beforeAll(async () => {
  namespace = await openNamespace('crd')
})
afterAll(() => namespace.close())

describe('an installed definition', () => {
  test.for(kinds)('of $kind is what the file says, and nothing of it was dropped', async (kind) => {
    const name = `${kind.plural}.${GROUP}`
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`
    const { body } = await namespace.call({ method: 'GET', path })
    const file = parse(
      readFileSync(new URL(`../../crds/${GROUP}_${kind.plural}.yaml`, import.meta.url), 'utf8'),
    )
    expect(file).toEqual(JSON.parse(JSON.stringify(customResourceDefinition(kind))))
    expect(body).toMatchObject(file)
    const { conditions } = body.status as { conditions: { type: string; status: string }[] }
    expect(Object.fromEntries(conditions.map(({ type, status }) => [type, status]))).toEqual({
      NamesAccepted: 'True',
      Established: 'True',
    })
  })
})

describe('a fresh object', () => {
  test('of WebhookEndpoint has its defaults, and a status that waiters take for unfinished', async () => {
    await namespace.create(webhookEndpointKind, 'fresh', goodEndpoint.spec, {
      status: { observedGeneration: 1 },
    })
    const { body } = await namespace.call({
      method: 'GET',
      path: pathOf(webhookEndpointKind, namespace.name, 'fresh'),
    })
    expect(body.spec).toEqual({
      ...goodEndpoint.spec,
      ordered: false,
      state: 'enabled',
      concurrency: 8,
    })
    expect(body.status).toEqual({ observedGeneration: -1, consecutiveFailures: 0 })
  })

  test('of WebhookEvent has a status that waiters take for unfinished', async () => {
    const { body } = await namespace.create(webhookEventKind, 'fresh', goodEvent.spec)
    expect(body.status).toEqual({ observedGeneration: -1 })
  })

  test('of WebhookDelivery is pending', async () => {
    const { body } = await namespace.create(webhookDeliveryKind, 'fresh', goodDelivery.spec)
    expect(body.status).toEqual({ state: 'pending' })
  })

  test('of RegistryCredential and SecretsSettings has a status that waiters take for unfinished', async () => {
    const credential = await namespace.create(registryCredentialKind, 'fresh', goodCredential.spec)
    const settings = await namespace.create(secretsSettingsKind, 'default', goodSettings.spec)
    expect(credential.body).toMatchObject({
      spec: goodCredential.spec,
      status: { observedGeneration: -1 },
    })
    expect(settings.body.spec).toEqual({ ...goodSettings.spec, provider: 'aws' })
    expect(settings.body.status).toEqual({ observedGeneration: -1 })
  })

  test('of BoxTemplate has a status that waiters take for unfinished', async () => {
    const { body } = await namespace.create(boxTemplateKind, 'fresh', goodTemplate.spec)
    expect(body).toMatchObject({ spec: goodTemplate.spec })
    expect(body.status).toEqual({ observedGeneration: -1 })
  })

  test('keeps any JSON in data, and any keyword in a schema', async () => {
    const data = { a: [1, null, { b: 'c' }], $ref: '#/x', '': false }
    const event = await namespace.create(webhookEventKind, 'any-json', { type: 'a.b', data })
    expect(event.body.spec).toEqual({ type: 'a.b', data })
    const spec = {
      description: 'A type.',
      schema: { $defs: { x: { const: null } }, oneOf: [true] },
      example: [1],
    }
    const type = await namespace.create(eventTypeKind, `${namespace.name}.type`, spec)
    expect(type.body.spec).toEqual({ ...spec, deprecated: false })
  })
})

describe('an update', () => {
  test('of the spec of a delivery is refused, one of its labels is not', async () => {
    await namespace.create(webhookDeliveryKind, 'fixed', goodDelivery.spec)
    const refused = await namespace.patch(webhookDeliveryKind, 'fixed', { spec: { endpoint: 'other' } })
    expect(refused).toMatchObject({ status: 422, body: { message: expect.stringContaining('spec: ') } })
    expect(refused.body.message).toContain('is immutable; a redelivery is a new WebhookDelivery')
    const labels = { 'davit.dev/shard': '17' }
    expect(await namespace.patch(webhookDeliveryKind, 'fixed', { metadata: { labels } })).toMatchObject({
      status: 200,
    })
  })

  test.for([
    { given: 'another type', change: { type: 'environment.stopped' } },
    { given: 'other data, deep inside', change: { data: { environmentId: 'env_2' } } },
    { given: 'a time to live', change: { ttlSecondsAfterFinished: 60 } },
  ])('of the spec of an event is refused: $given', async ({ given, change }) => {
    const name = given.replaceAll(/[^a-z]+/g, '-')
    await namespace.create(webhookEventKind, name, goodEvent.spec)
    const { status, body } = await namespace.patch(webhookEventKind, name, { spec: change })
    expect(status).toBe(422)
    expect(body.message).toContain('is immutable; create a new WebhookEvent instead')
  })

  test('of the spec of a segment is refused, however large it is', async () => {
    const payload = JSON.stringify({ text: 'x'.repeat(200) })
    const events = Array.from(
      { length: 1000 },
      () => `${goodDeliverySegment.name} acme environment.started - - ${payload}`,
    )
    await namespace.create(deliverySegmentKind, 'large', { ...goodDeliverySegment.spec, events })
    await namespace.create(outcomeSegmentKind, 'small', goodOutcomeSegment.spec)
    const answers = await Promise.all([
      namespace.patch(deliverySegmentKind, 'large', { spec: { deliveries: '' } }),
      namespace.patch(outcomeSegmentKind, 'small', { spec: { lowWater: '1' } }),
    ])
    for (const { status, body } of answers) {
      expect(status).toBe(422)
      expect(body.message).toContain('is immutable')
    }
  })

  test('of the type or host of a credential is refused, one of the rest of its spec is not', async () => {
    await namespace.create(registryCredentialKind, 'typed', goodCredential.spec)
    const ecr = {
      type: 'ecr',
      registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
      username: null,
      secretRef: null,
    }
    const refused = await namespace.patch(registryCredentialKind, 'typed', { spec: ecr })
    expect({ status: refused.status, message: refused.body.message }).toEqual({
      status: 422,
      message: expect.stringContaining('spec.type: Invalid value: "ecr": is immutable; create a new'),
    })
    const other = { spec: { registry: 'registry.example.com' } }
    expect(await namespace.patch(registryCredentialKind, 'typed', other)).toMatchObject({
      status: 422,
      body: {
        message: expect.stringContaining('registry is immutable if type is token, because the secret'),
      },
    })
    const spec = { label: 'Packages', username: 'bot', secretRef: null }
    expect(await namespace.patch(registryCredentialKind, 'typed', { spec })).toMatchObject({ status: 200 })
  })

  test('of a status leaves the generation alone, one of the spec moves it', async () => {
    await namespace.create(webhookEndpointKind, 'moved', goodEndpoint.spec)
    const seen = await namespace.patch(
      webhookEndpointKind,
      'moved',
      { status: { observedGeneration: 1 } },
      'status',
    )
    expect(seen.body).toMatchObject({ metadata: { generation: 1 }, status: { observedGeneration: 1 } })
    const changed = await namespace.patch(webhookEndpointKind, 'moved', {
      spec: { ordered: true },
      status: { observedGeneration: 2 },
    })
    expect(changed.body).toMatchObject({ metadata: { generation: 2 }, status: { observedGeneration: 1 } })
  })
})
