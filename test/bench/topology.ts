/** Organizations with endpoints. */

import { setTimeout as sleep } from 'node:timers/promises'
import { secrets } from '../../src/apis/core-kinds.ts'
import { eventTypeKind, eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { SIGNING_KEYS_LABEL, webhookEndpointKind, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { type Bed, makeNamespace, SYSTEM } from './bed.ts'
import type { Route } from './loads/publishing.ts'

export type Topology = {
  /** Organizations are named `<name>-<i>`, event types `<name>.type-<i>`. */
  name: string
  organizations: number
  /** In each organization; each subscribes to a type of its own. */
  endpoints: number
  /** Of the receiver: `/ok`, `/slow`, `/fail` or `/hang`. */
  path: string
  /** Deliveries at a time to each; absent: the default. */
  concurrency?: number
}

/** Where to publish, and the endpoint of that organization to which it goes. */
export type EndpointRoute = Route & { endpoint: string }

const KEYS_LIMIT_MS = 60_000
const POLL_MS = 100

/**
 * Creates the endpoints, and reports them to the publisher. An event goes to one endpoint. It needs a running controller, which
 * creates their signing secrets. @returns where to publish
 */
export async function makeEndpoints(bed: Bed, topology: Topology): Promise<EndpointRoute[]> {
  const { api } = bed
  const { name, path, concurrency } = topology
  const organizations = Array.from({ length: topology.organizations }, (_, i) => `${name}-${i}`)
  const types = Array.from({ length: topology.endpoints }, (_, i) => `${name}.type-${i}`)
  for (const type of types) await api.create(eventTypes, objectOf(eventTypeKind.kind, { name: type }, TYPE))
  const routes: EndpointRoute[] = []
  for (const namespace of organizations) {
    await makeNamespace(api, namespace, { organization: true })
    for (const [i, type] of types.entries()) {
      const url = `${bed.receiverUrl}${path}/${namespace}/${i}`
      const spec = { url, eventTypes: [type], ...(concurrency === undefined ? {} : { concurrency }) }
      const endpoint = `endpoint-${i}`
      const metadata = { name: endpoint, namespace }
      await api.create(webhookEndpoints, objectOf(webhookEndpointKind.kind, metadata, spec))
      routes.push({ namespace, type, endpoint })
    }
  }
  await untilKeysAreMade(bed, organizations, routes.length)
  await bed.publisher.call('list', organizations)
  return routes
}

const TYPE = { description: 'An event of the bench.' }

function objectOf(kind: string, metadata: { name: string; namespace?: string }, spec: object) {
  return { apiVersion: API_VERSION, kind, metadata, spec }
}

async function untilKeysAreMade(bed: Bed, organizations: readonly string[], wanted: number): Promise<void> {
  const limit = performance.now() + KEYS_LIMIT_MS
  const query = { namespace: SYSTEM, labelSelector: `${SIGNING_KEYS_LABEL}=true`, limit: 5000 }
  const isOurs = (secret: string) => organizations.some((name) => secret.startsWith(`${name}.`))
  while (performance.now() < limit) {
    const { items } = await bed.api.list(secrets, query)
    if (items.filter(({ metadata }) => isOurs(metadata.name)).length >= wanted) return
    await sleep(POLL_MS)
  }
  throw new Error('the controller makes no signing keys')
}
