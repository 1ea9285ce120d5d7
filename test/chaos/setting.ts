/** An organization with an endpoint of each kind, on a separate control plane. */

import { fileURLToPath } from 'node:url'
import { installCrds } from '../../playground/control-plane/api-server.ts'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'
import { namespaces } from '../../src/apis/core-kinds.ts'
import { eventTypeKind, eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION, ORGANIZATION_LABEL } from '../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { createEventLog, type OpenEventLog } from '../../src/webhooks/log/writers.ts'
import { logOn } from '../support/log-on.ts'
import { LOG_TYPE, NOTE_TYPE, type Target } from './publisher.ts'

export type EndpointOfRun = { name: string; ordered: boolean }

export const ENDPOINTS = [
  { name: 'ordered', ordered: true },
  { name: 'ordered-too', ordered: true },
  { name: 'one', ordered: false },
  { name: 'two', ordered: false },
  { name: 'paused', ordered: false },
] as const satisfies readonly EndpointOfRun[]

/** Some events are always rejected by ordered endpoints, so that they are exhausted and the next one is sent. */
export function isPoisoned(endpoint: string, body: string): boolean {
  const n = /"n":(\d+)/.exec(body)?.[1]
  return n !== undefined && Number(n) % 97 === 13 && endpoint.startsWith('ordered')
}

export type Setting = {
  api: KubernetesClient
  /** The operator's namespace, and the organization. */
  namespace: string
  organization: string
  targets: Target[]
  eventLog: OpenEventLog
  close(): Promise<void>
}

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))
const NAMESPACE = 'davit-system'
const ORGANIZATION = 'chaos'

export async function setUp(
  controlPlane: ControlPlane,
  receiverUrl: string,
  endpoints: readonly EndpointOfRun[] = ENDPOINTS,
): Promise<Setting> {
  await installCrds(controlPlane, CRDS)
  const clock = createClock()
  const random = createRandom()
  const api = await connectKubernetes({ kubeconfigPath: controlPlane.kubeconfigPath, clock, random })
  const labels = { [ORGANIZATION_LABEL]: 'true' }
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } })
  await api.create(namespaces, {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: ORGANIZATION, labels },
  })
  for (const name of [LOG_TYPE, NOTE_TYPE]) {
    const spec = { description: 'A numbered event.' }
    await api.create(eventTypes, {
      apiVersion: API_VERSION,
      kind: eventTypeKind.kind,
      metadata: { name },
      spec,
    })
  }
  const targets: Target[] = []
  for (const { name, ...spec } of endpoints) {
    const { metadata } = await api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: webhookEndpointKind.kind,
      metadata: { namespace: ORGANIZATION, name },
      spec: { ...spec, url: `${receiverUrl}/${name}`, eventTypes: ['*'] },
    })
    targets.push({ name, uid: metadata.uid ?? '' })
  }
  const store = logOn(api, { clock, random, namespace: NAMESPACE })
  const eventLog = createEventLog({ store, writer: 'chaos', clock })
  return {
    api,
    namespace: NAMESPACE,
    organization: ORGANIZATION,
    targets,
    eventLog,
    close: async () => {
      await eventLog.drain()
      await api.close()
    },
  }
}
