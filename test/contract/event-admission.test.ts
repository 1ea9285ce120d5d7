/** The policy in config/admission: a WebhookEvent has either data or dataText, which the API server says in words. */

import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { webhookEventKind } from '../../src/apis/webhook-event.ts'
import type { RawObject } from '../../src/kube/client.ts'
import { type NamespaceApi, objectOf, openNamespace, pathOf } from './cluster-api.ts'

const POLICY = new URL('../../config/admission/webhook-events.yaml', import.meta.url)
/** How long the API server may take to apply a new policy. */
const IN_FORCE = { timeout: 20_000, interval: 50 }

let namespace: NamespaceApi
beforeAll(async () => {
  namespace = await openNamespace('event-admission')
  const [policy, binding] = parseAllDocuments(await readFile(POLICY, 'utf8')).map(
    (document) => document.toJS() as RawObject & { spec: Record<string, object> },
  )
  // Other files share the API server, and some store events that make no sense.
  const name = `${namespace.name}.webhook-events.davit.dev`
  const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': namespace.name } }
  const matchConstraints = { ...policy?.spec.matchConstraints, namespaceSelector }
  await create('validatingadmissionpolicies', {
    ...policy,
    metadata: { name },
    spec: { ...policy?.spec, matchConstraints },
  })
  await create('validatingadmissionpolicybindings', {
    ...binding,
    metadata: { name },
    spec: { ...binding?.spec, policyName: name },
  })
  await vi.waitFor(async () => expect((await ask({})).status).toBe(422), IN_FORCE)
})
afterAll(() => namespace.close())

async function create(plural: string, body: object): Promise<void> {
  const path = `/apis/admissionregistration.k8s.io/v1/${plural}`
  expect(await namespace.call({ method: 'POST', path, body })).toMatchObject({ status: 201 })
}

function ask(data: object) {
  const path = `${pathOf(webhookEventKind, namespace.name)}?dryRun=All`
  const body = objectOf(webhookEventKind, 'started', { type: 'environment.started', ...data })
  return namespace.call({ method: 'POST', path, body })
}

test.for([
  { given: 'no field', data: {}, words: 'it sets neither' },
  { given: 'data that is null', data: { data: null }, words: 'it sets neither' },
  { given: 'both fields', data: { data: { a: 1 }, dataText: '{}' }, words: 'it sets both' },
  { given: 'false and a text', data: { data: false, dataText: 'false' }, words: 'it sets both' },
])('$given is rejected with the names of both fields', async ({ data, words }) => {
  const { status, body } = await ask(data)
  expect({ status, message: body.message }).toEqual({ status: 422, message: expect.stringContaining(words) })
  expect(body.message).toMatch(/spec must set either data\b.* or dataText/)
  expect(body.message).not.toContain('<nil>')
})

test.for([
  { data: {} },
  { data: [] },
  { data: 0 },
  { data: false },
  { data: '' },
  { dataText: 'null' },
  { data: null, dataText: '{}' },
])('%j is taken', async (data) => {
  expect((await ask(data)).status).toBe(201)
})
