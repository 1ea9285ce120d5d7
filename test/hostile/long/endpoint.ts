/** Creates an endpoint on the bench's bed with a given URL. */
import { namespaces } from '../../../src/apis/core-kinds.ts'
import { eventTypeKind, eventTypes } from '../../../src/apis/event-type.ts'
import { API_VERSION, ORGANIZATION_LABEL } from '../../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { isApiError } from '../../../src/kube/client.ts'
import type { Bed } from '../../bench/bed.ts'
import type { Route } from '../../bench/loads/publishing.ts'

/** It subscribes to its own type, which is named after it. @returns where to publish */
export async function makeEndpointFor(
  { api }: Bed,
  { namespace, name, url }: { namespace: string; name: string; url: string },
): Promise<Route> {
  const type = `hostile.${name}`
  await unlessThere(() =>
    api.create(namespaces, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: namespace, labels: { [ORGANIZATION_LABEL]: 'true' } },
    }),
  )
  await api.create(eventTypes, {
    apiVersion: API_VERSION,
    kind: eventTypeKind.kind,
    metadata: { name: type },
    spec: { description: 'An event of a hostile receiver.' },
  })
  await api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: webhookEndpointKind.kind,
    metadata: { name, namespace },
    spec: { url, eventTypes: [type] },
  })
  return { namespace, type }
}

async function unlessThere(create: () => Promise<unknown>): Promise<void> {
  try {
    await create()
  } catch (error) {
    if (!isApiError(error, 'AlreadyExists')) throw error
  }
}
