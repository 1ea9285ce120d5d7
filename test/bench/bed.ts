/** Everything that a measurement runs on: a control plane of its own, organizations with endpoints, and the bench's processes. */

import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { connectKubernetes, type KubernetesClient } from '../../src/adapters/kubernetes/kubernetes-client.ts'
import { createClock } from '../../src/adapters/system/clock.ts'
import { createLog } from '../../src/adapters/system/log.ts'
import { createRandom } from '../../src/adapters/system/random.ts'
import { namespaces, secrets } from '../../src/api/core-kinds.ts'
import { eventTypeKind, eventTypes } from '../../src/api/event-type.ts'
import { API_VERSION, ORGANIZATION_LABEL } from '../../src/api/meta.ts'
import { SIGNING_KEYS_LABEL } from '../../src/api/signing-keys.ts'
import {
  type DeliveryLogMode,
  webhookEndpointKind,
  webhookEndpoints,
} from '../../src/api/webhook-endpoint.ts'
import { type ControlPlane, startControlPlane } from '../../src/playground/control-plane.ts'
import { installCrds } from '../../src/playground/control-plane-crds.ts'
import { Closings } from './measure/closings.ts'
import type { ControllerCalls } from './processes/controller-child.ts'
import type { PublisherCalls, Route } from './processes/publisher.ts'
import type { RawCalls } from './processes/raw.ts'
import type { ReceiverCalls } from './processes/receiver.ts'
import { type RemoteProcess, spawnProcess } from './processes/remote-calls.ts'

export const SYSTEM = 'davit-system'
export const RAW = 'raw'
export const GOGC = 100

export type Bed = {
  controlPlane: ControlPlane
  api: KubernetesClient
  closings: Closings
  receiver: RemoteProcess<ReceiverCalls>
  receiverUrl: string
  publisher: RemoteProcess<PublisherCalls>
  raw: RemoteProcess<RawCalls>
  stop(): Promise<void>
}

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))
const NO_METRICS = { reconciled: () => undefined, watchRestarted: () => undefined }
const PROCESSES = new URL('./processes/', import.meta.url)

export async function startBed(): Promise<Bed> {
  const controlPlane = await startControlPlane({ fsync: true, gogc: GOGC })
  await installCrds(controlPlane, CRDS)
  const { kubeconfigPath } = controlPlane
  const clock = createClock()
  const random = createRandom()
  const api = await connectKubernetes({ kubeconfigPath, clock, random })
  await makeNamespace(api, SYSTEM)
  await makeNamespace(api, RAW)
  const log = createLog({ level: 'error', clock, destination: process.stderr })
  const closings = new Closings(SYSTEM, { api, clock, random, log, metrics: NO_METRICS })
  await closings.start()
  const receiver = spawnProcess<ReceiverCalls>(pathOf('receiver.ts'))
  const publisher = spawnProcess<PublisherCalls>(pathOf('publisher.ts'))
  const raw = spawnProcess<RawCalls>(pathOf('raw.ts'))
  await publisher.call('connect', { kubeconfigPath, namespace: SYSTEM })
  const port = await receiver.call('listen', null)
  return {
    controlPlane,
    api,
    closings,
    receiver,
    receiverUrl: `http://127.0.0.1:${port}`,
    publisher,
    raw,
    async stop() {
      await closings.stop()
      await Promise.all([receiver.stop(), publisher.stop(), raw.stop()])
      await api.close()
      await controlPlane.stop()
    },
  }
}

export async function startController(
  bed: Bed,
  execArgv: readonly string[] = [],
): Promise<RemoteProcess<ControllerCalls>> {
  const controller = spawnProcess<ControllerCalls>(pathOf('controller-child.ts'), {
    execArgv,
    env: {
      KUBECONFIG: bed.controlPlane.kubeconfigPath,
      DAVIT_NAMESPACE: SYSTEM,
      DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8',
      DAVIT_LOG_LEVEL: 'warn',
    },
    stdout: 2,
  })
  await controller.call('ready', null)
  return controller
}

async function makeNamespace(api: KubernetesClient, name: string, organization = false): Promise<void> {
  const labels = organization ? { [ORGANIZATION_LABEL]: 'true' } : {}
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
}

export type Topology = {
  /** Organizations are named `<name>-<i>`, event types `<name>.type-<i>`. */
  name: string
  organizations: number
  /** Each subscribes to a type of its own. */
  endpoints: number
  deliveryLog: DeliveryLogMode
  /** What the receiver does, with the number of the endpoint: `/ok`. */
  path: string
}

/** Endpoints whose events go to one endpoint each. A controller must run: it makes their keys. @returns where to publish */
export async function makeEndpoints(bed: Bed, topology: Topology): Promise<Route[]> {
  const { api } = bed
  const { name, deliveryLog } = topology
  const routes: Route[] = []
  const types = Array.from({ length: topology.endpoints }, (_, i) => `${name}.type-${i}`)
  for (const type of types) {
    const spec = { description: 'An event of the bench.' }
    await api.create(eventTypes, {
      apiVersion: API_VERSION,
      kind: eventTypeKind.kind,
      metadata: { name: type },
      spec,
    })
  }
  for (let o = 0; o < topology.organizations; o += 1) {
    const namespace = `${name}-${o}`
    await makeNamespace(api, namespace, true)
    for (const [i, type] of types.entries()) {
      const spec = { url: `${bed.receiverUrl}${topology.path}/${o}/${i}`, eventTypes: [type], deliveryLog }
      const metadata = { name: `endpoint-${i}`, namespace }
      await api.create(webhookEndpoints, {
        apiVersion: API_VERSION,
        kind: webhookEndpointKind.kind,
        metadata,
        spec,
      })
      routes.push({ namespace, type })
    }
  }
  await untilKeysAreMade(bed, routes.length, name)
  return routes
}

async function untilKeysAreMade(bed: Bed, wanted: number, name: string): Promise<void> {
  for (let i = 0; i < 600; i += 1) {
    const labelSelector = `${SIGNING_KEYS_LABEL}=true`
    const { items } = await bed.api.list(secrets, { namespace: SYSTEM, labelSelector, limit: 5000 })
    if (items.filter(({ metadata }) => metadata.name.startsWith(`${name}-`)).length >= wanted) return
    await sleep(100)
  }
  throw new Error('the controller made no signing keys')
}

function pathOf(file: string): string {
  return fileURLToPath(new URL(file, PROCESSES))
}
