/** The organization `acme` of the playground: its namespace, endpoints, events, and its receiver's secrets. */

import { catalogue } from '../api/catalogue.ts'
import { namespaces, secret, secrets } from '../api/core-kinds.ts'
import { eventTypes } from '../api/event-type.ts'
import { API_VERSION, ORGANIZATION_LABEL, OWNER_EMAILS_ANNOTATION, type ResourceType } from '../api/meta.ts'
import { webhookEndpoints } from '../api/webhook-endpoint.ts'
import { webhookEvents } from '../api/webhook-event.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../ports/kubernetes.ts'

export const OPERATOR_NAMESPACE = 'davit-system'
export const ORGANIZATION = 'acme'

type Api = ResourceReader & ResourceWriter

/** One unordered endpoint for everything, one ordered for environments. */
const ENDPOINTS = [
  { name: 'billing', eventTypes: ['*'], ordered: false, description: 'Everything, as it comes' },
  {
    name: 'audit',
    eventTypes: ['environment.started', 'environment.stopped'],
    ordered: true,
    description: 'In strict order',
  },
] as const

/** Whether the playground made this endpoint; its reader may make others. */
export function isOurs(endpoint: string): boolean {
  return ENDPOINTS.some(({ name }) => name === endpoint)
}

export function isOrdered(endpoint: string): boolean {
  return ENDPOINTS.some(({ name, ordered }) => name === endpoint && ordered)
}

export async function makeOrganization(api: Api, receiverUrl: string): Promise<void> {
  await make(api, namespaces, namespaceOf(OPERATOR_NAMESPACE))
  await make(api, namespaces, namespaceOf(ORGANIZATION, { [ORGANIZATION_LABEL]: 'true' }))
  for (const type of catalogue) await make(api, eventTypes, { ...type, metadata: { ...type.metadata } })
  for (const { name, ...spec } of ENDPOINTS) {
    await make(api, webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: 'WebhookEndpoint',
      metadata: { name, namespace: ORGANIZATION },
      spec: { url: `${receiverUrl}/${name}`, ...spec, signingSecret: { name: secretNameOf(name) } },
    })
  }
}

/** Publishes what a platform would: environments that start and stop. */
export async function publish(api: Api, number: number): Promise<void> {
  const type = number % 2 === 1 ? 'environment.started' : 'environment.stopped'
  const data = { environmentId: `env_${String(Math.ceil(number / 2)).padStart(4, '0')}`, number }
  await api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: 'WebhookEvent',
    metadata: { name: `tick-${String(number).padStart(5, '0')}`, namespace: ORGANIZATION },
    spec: { type, dataText: JSON.stringify(data), ttlSecondsAfterFinished: 600 },
  })
}

/** The newest signing key of an endpoint, as a receiver would mount it; undefined while there is none. */
export async function readSecret(api: Api, endpoint: string): Promise<string | undefined> {
  try {
    const { data } = secret.parse(
      await api.get(secrets, { namespace: ORGANIZATION, name: secretNameOf(endpoint) }),
    )
    return Buffer.from(data?.signingSecret ?? '', 'base64').toString('utf8')
  } catch (error) {
    if (isApiError(error)) return undefined
    throw error
  }
}

function secretNameOf(endpoint: string): string {
  return `${endpoint}-signing`
}

function namespaceOf(name: string, labels: Record<string, string> = {}): RawObject {
  const annotations = { [OWNER_EMAILS_ANNOTATION]: 'owner@acme.example' }
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels, annotations } }
}

async function make(api: Api, type: ResourceType, object: RawObject): Promise<void> {
  try {
    await api.create(type, object)
  } catch (error) {
    if (!isApiError(error, 'AlreadyExists')) throw error
  }
}
