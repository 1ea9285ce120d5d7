/** What people see of the kinds with kubectl: selections, columns, explanations. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { boxTemplateKind } from '../../src/apis/box-template.ts'
import { GROUP, type KindDefinition } from '../../src/apis/meta.ts'
import { registryCredentialKind } from '../../src/apis/registry-credential.ts'
import { secretsSettingsKind } from '../../src/apis/secrets-settings.ts'
import { webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../src/apis/webhook-endpoint.ts'
import { webhookEventKind } from '../../src/apis/webhook-event.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { type NamespaceApi, openNamespace, pathOf } from './cluster-api.ts'
import { goodTemplate } from './samples/box-template.ts'
import { goodCredential } from './samples/registry-credential.ts'
import { goodSettings } from './samples/secrets-settings.ts'
import { goodDelivery } from './samples/webhook-delivery.ts'
import { goodEndpoint } from './samples/webhook-endpoint.ts'
import { goodEvent } from './samples/webhook-event.ts'

const attempt = { at: '2026-01-31T12:00:00.000Z', code: 503, latencyMs: 41, error: 'HTTP 503', response: '' }
const ready = {
  type: 'Ready',
  status: 'True',
  reason: 'Accepted',
  message: '',
  lastTransitionTime: '2026-01-31T12:00:00Z',
}

let namespace: NamespaceApi
beforeAll(async () => {
  namespace = await openNamespace('crd')
})
afterAll(() => namespace.close())

describe('what people see', () => {
  test('deliveries are selected by endpoint, type, id and state', async () => {
    await namespace.create(webhookDeliveryKind, 'selected', { ...goodDelivery.spec, endpoint: 'selected' })
    await namespace.patch(webhookDeliveryKind, 'selected', { status: { state: 'retrying' } }, 'status')
    const { endpoint, ...others } = goodDelivery.spec
    await namespace.create(webhookDeliveryKind, 'passed-over', { ...others, endpoint: 'passed-over' })
    const selectors = [
      'spec.endpoint=selected',
      `spec.endpoint=selected,spec.eventType=${others.eventType}`,
      `spec.endpoint=selected,spec.deliveryId=${others.deliveryId}`,
      'status.state=retrying',
    ]
    for (const selector of selectors)
      expect(await namesBy(webhookDeliveryKind, selector)).toEqual(['selected'])
    expect(endpoint).not.toBe('selected')
  })

  test('endpoints and events are selected by state', async () => {
    await namespace.create(webhookEndpointKind, 'paused', { ...goodEndpoint.spec, state: 'disabled' })
    await namespace.create(webhookEventKind, 'refused', goodEvent.spec)
    await namespace.patch(webhookEventKind, 'refused', { status: { state: 'refused' } }, 'status')
    expect(await namesBy(webhookEndpointKind, 'spec.state=disabled')).toEqual(['paused'])
    expect(await namesBy(webhookEventKind, 'status.state=refused')).toEqual(['refused'])
  })

  test('a delivery is a line with its last error', async () => {
    await namespace.create(webhookDeliveryKind, 'line', goodDelivery.spec)
    const status = {
      state: 'retrying',
      attemptCount: 2,
      nextAttemptAt: '2026-01-31T12:02:00.000Z',
      attempts: [attempt, { ...attempt, error: 'connection refused' }],
    }
    await namespace.patch(webhookDeliveryKind, 'line', { status }, 'status')
    expect(await lineOf(webhookDeliveryKind, 'line')).toEqual({
      Name: 'line',
      Endpoint: 'billing',
      Type: 'environment.started',
      State: 'retrying',
      Attempts: 2,
      Code: attempt.code,
      Next: '2026-01-31T12:02:00.000Z',
      Error: 'connection refused',
      Latency: attempt.latencyMs,
      Age: expect.any(String),
    })
  })

  test('an endpoint is a line with its state and whether it is ready', async () => {
    await namespace.create(webhookEndpointKind, 'line', goodEndpoint.spec)
    await namespace.patch(
      webhookEndpointKind,
      'line',
      { status: { state: 'enabled', conditions: [ready] } },
      'status',
    )
    expect(await lineOf(webhookEndpointKind, 'line')).toMatchObject({
      URL: goodEndpoint.spec.url,
      State: 'enabled',
      Ready: 'True',
      Failures: 0,
      Reason: 'Accepted',
    })
  })

  test('a credential is a line with the version that is stored, and is selected by type and registry', async () => {
    const parameter = {
      name: '/davit/acme/rc_line',
      version: 3,
      region: 'eu-west-1',
      account: '123456789012',
      roleArn: 'arn:aws:iam::123456789012:role/davit',
    }
    await namespace.create(registryCredentialKind, 'line', goodCredential.spec)
    await namespace.patch(
      registryCredentialKind,
      'line',
      { status: { parameter, conditions: [ready, { ...ready, type: 'Drifted', status: 'False' }] } },
      'status',
    )
    expect(await lineOf(registryCredentialKind, 'line')).toMatchObject({
      Type: 'token',
      Registry: 'ghcr.io',
      Label: 'GitHub packages',
      Ready: 'True',
      Version: 3,
      Drifted: 'False',
      Parameter: parameter.name,
    })
    expect(await namesBy(registryCredentialKind, 'spec.type=token,spec.registry=ghcr.io')).toEqual(['line'])
    expect(await namesBy(registryCredentialKind, 'spec.type=ecr')).toEqual([])
  })

  test('settings are a line with their account, and whether it can be read', async () => {
    await namespace.create(secretsSettingsKind, 'default', goodSettings.spec)
    const conditions = [ready, { ...ready, type: 'WriteOnly', status: 'False', reason: 'CanRead' }]
    const status = { account: '123456789012', conditions }
    await namespace.patch(secretsSettingsKind, 'default', { status }, 'status')
    expect(await lineOf(secretsSettingsKind, 'default')).toMatchObject({
      Region: 'eu-west-1',
      Account: '123456789012',
      Ready: 'True',
      'Write-only': 'False',
      Role: goodSettings.spec.roleArn,
    })
  })

  test('a template is a line with the state of its bake, and why it failed', async () => {
    await namespace.create(boxTemplateKind, 'line', goodTemplate.spec)
    const failure = {
      service: 'api',
      step: 'pull',
      code: 'wrong_credentials',
      message: 'unauthorized',
      fix: '',
    }
    const bake = { state: 'failed', number: 1, attempts: 1, job: 'line-0', failure }
    const conditions = [{ ...ready, status: 'False', reason: 'WrongCredentials' }]
    await namespace.patch(boxTemplateKind, 'line', { status: { bake, conditions } }, 'status')
    expect(await lineOf(boxTemplateKind, 'line')).toMatchObject({
      State: 'failed',
      Ready: 'False',
      Reason: 'WrongCredentials',
      Service: 'api',
      Message: 'unauthorized',
      Job: 'line-0',
    })
  })

  test.for(kinds)('$kind is explained by the API server', async (kind) => {
    const { body } = await namespace.call({ method: 'GET', path: `/openapi/v3/apis/${GROUP}/v1alpha1` })
    const { schemas } = body.components as {
      schemas: Record<string, { description: string; properties: object }>
    }
    const published = schemas[`dev.davit.v1alpha1.${kind.kind}`]
    expect(published?.description).toBe(kind.description)
    expect(published?.properties).toMatchObject({ spec: { description: expect.stringMatching(/.{10}/) } })
  })
})

async function namesBy(kind: KindDefinition, fieldSelector: string): Promise<string[]> {
  const path = `${pathOf(kind, namespace.name)}?fieldSelector=${encodeURIComponent(fieldSelector)}`
  const { body } = await namespace.call({ method: 'GET', path })
  return (body.items as { metadata: { name: string } }[]).map((item) => item.metadata.name)
}

/** The cells of `kubectl get -o wide` by their columns. */
async function lineOf(kind: KindDefinition, name: string): Promise<Record<string, unknown>> {
  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
  const { body } = await namespace.call({ method: 'GET', path: pathOf(kind, namespace.name, name), accept })
  const table = body as { columnDefinitions: { name: string }[]; rows: [{ cells: unknown[] }] }
  return Object.fromEntries(table.columnDefinitions.map((column, i) => [column.name, table.rows[0].cells[i]]))
}
