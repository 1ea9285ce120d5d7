/** The organizations of the playground: their namespaces, endpoints, events, and their receiver's secrets. */
import { builtinEventTypes } from '../src/apis/builtin-event-types.ts'
import { namespaces, secret, secrets } from '../src/apis/core-kinds.ts'
import { eventTypes } from '../src/apis/event-type.ts'
import {
  API_VERSION,
  ORGANIZATION_LABEL,
  OWNER_EMAILS_ANNOTATION,
  type ResourceType,
} from '../src/apis/meta.ts'
import { webhookEndpoint, webhookEndpoints } from '../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../src/apis/webhook-event.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../src/kube/client.ts'
import { readKeys } from '../src/webhooks/endpoints/signing-keys.ts'

export const OPERATOR_NAMESPACE = 'davit-system'
/** Quiet: nothing happens here except what the reader does. */
export const ORGANIZATION = 'acme'
/** Empty, to show that an organization cannot reach the data of another. */
export const OTHER_ORGANIZATION = 'globex'
/** Gets an event every second. */
export const SHOW = 'show'

type Api = ResourceReader & ResourceWriter

/** One unordered endpoint for all events, one ordered for environments. */
const ENDPOINTS = [
  { name: 'billing', eventTypes: ['*'], ordered: false, description: 'All events, unordered' },
  {
    name: 'audit',
    eventTypes: ['environment.started', 'environment.stopped'],
    ordered: true,
    description: 'In strict order',
  },
] as const

type Known = { organization: string; name: string; ordered: boolean }

/** Endpoints that the playground makes, by their paths at the receiver; the reader may make others. */
const KNOWN: ReadonlyMap<string, Known> = new Map(
  [SHOW, ORGANIZATION].flatMap((organization) =>
    ENDPOINTS.map(
      ({ name, ordered }) => [pathOf(organization, name), { organization, name, ordered }] as const,
    ),
  ),
)

function pathOf(organization: string, name: string): string {
  return organization === SHOW ? name : `${organization}/${name}`
}

/** Paths of the endpoints that get an event every second. */
export const RECEIVER_PATHS: readonly string[] = ENDPOINTS.map(({ name }) => pathOf(SHOW, name))

export function isOurs(path: string): boolean {
  return KNOWN.has(path)
}

export function isOrdered(path: string): boolean {
  return KNOWN.get(path)?.ordered === true
}

/** Only where it is expected: elsewhere a failure would be a riddle. */
export function mayFail(path: string): boolean {
  return KNOWN.get(path)?.organization === SHOW
}

export async function makeNamespaces(api: Api): Promise<void> {
  await make(api, namespaces, namespaceOf(OPERATOR_NAMESPACE))
  for (const name of [ORGANIZATION, OTHER_ORGANIZATION, SHOW])
    await make(api, namespaces, namespaceOf(name, { [ORGANIZATION_LABEL]: 'true' }))
}

export async function makeEndpoints(api: Api, receiverUrl: string): Promise<void> {
  for (const type of builtinEventTypes)
    await make(api, eventTypes, { ...type, metadata: { ...type.metadata } })
  for (const namespace of [ORGANIZATION, SHOW]) {
    for (const { name, ...spec } of ENDPOINTS) {
      await make(api, webhookEndpoints, {
        apiVersion: API_VERSION,
        kind: 'WebhookEndpoint',
        metadata: { name, namespace },
        spec: {
          url: `${receiverUrl}/${pathOf(namespace, name)}`,
          ...spec,
          signingSecret: { name: secretNameOf(name) },
        },
      })
    }
  }
}

/** Publishes the events of a platform: environments that start and stop. */
export async function publish(api: Api, number: number): Promise<void> {
  const type = number % 2 === 1 ? 'environment.started' : 'environment.stopped'
  const data = { environmentId: `env_${String(Math.ceil(number / 2)).padStart(4, '0')}`, number }
  await api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: 'WebhookEvent',
    metadata: { name: `tick-${String(number).padStart(5, '0')}`, namespace: SHOW },
    spec: { type, dataText: JSON.stringify(data), ttlSecondsAfterFinished: 600 },
  })
}

/** The newest signing secret of an endpoint of the playground, as a receiver would mount it; undefined while there is none. */
export async function readSecret(api: Api, path: string): Promise<string | undefined> {
  const { organization: namespace, name } = KNOWN.get(path) ?? { name: '' }
  if (namespace === undefined) return undefined
  return orNone(async () => {
    const { data } = secret.parse(await api.get(secrets, { namespace, name: secretNameOf(name) }))
    return Buffer.from(data?.signingSecret ?? '', 'base64').toString('utf8')
  })
}

const LOOPBACK = ['127.0.0.1', 'localhost']

/**
 * The newest signing secrets of the endpoints whose URL leads to this path of the receiver; undefined if there are none. A client
 * that creates an endpoint through REST gets its secret in the response and would configure the receiver with it; here the
 * receiver, which is an administrator, looks it up.
 */
export async function readSecretsOf(
  api: Api,
  receiverUrl: string,
  path: string,
): Promise<string[] | undefined> {
  const { port } = new URL(receiverUrl)
  const leadsHere = (url: string) => {
    const parsed = new URL(url)
    return LOOPBACK.includes(parsed.hostname) && parsed.port === port && parsed.pathname === `/${path}`
  }
  const { items } = await api.list(webhookEndpoints, {})
  const endpoints = items.map((raw) => webhookEndpoint.parse(raw)).filter(({ spec }) => leadsHere(spec.url))
  if (endpoints.length === 0) return undefined
  const read = endpoints.map(({ metadata: { namespace, name } }) =>
    orNone(async () => {
      const keys = await api.get(secrets, { namespace: OPERATOR_NAMESPACE, name: `${namespace}.${name}` })
      return readKeys(keys).keys.keys[0]?.secret
    }),
  )
  return (await Promise.all(read)).filter((one) => one !== undefined)
}

async function orNone<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (isApiError(error)) return undefined
    throw error
  }
}

function secretNameOf(endpoint: string): string {
  return `${endpoint}-signing`
}

function namespaceOf(name: string, labels: Record<string, string> = {}): RawObject {
  const annotations = { [OWNER_EMAILS_ANNOTATION]: `owner@${name}.example` }
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels, annotations } }
}

async function make(api: Api, type: ResourceType, object: RawObject): Promise<void> {
  try {
    await api.create(type, object)
  } catch (error) {
    if (!isApiError(error, 'AlreadyExists')) throw error
  }
}
