/** What measurements run on: a control plane of their own, and the bench's processes. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installCrds } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { namespaces } from '../../src/apis/core-kinds.ts'
import { ORGANIZATION_LABEL } from '../../src/apis/meta.ts'
import type { ResourceWriter } from '../../src/kube/client.ts'
import type { InformerDependencies } from '../../src/kube/informer.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { NO_RUNTIME_METRICS } from '../support/no-metrics.ts'
import { type Controller, startController } from './controller.ts'
import { Closings } from './measure/closings.ts'
import type { PublisherCalls } from './processes/publisher.ts'
import type { RawCalls } from './processes/raw.ts'
import type { ReceiverCalls } from './processes/receiver.ts'
import { type Calls, type RemoteProcess, spawnProcess } from './processes/remote-calls.ts'
import { makeAccount } from './service-account.ts'

/** The operator's namespace. */
export const SYSTEM = 'davit-system'
/** Where the raw loop writes, so that no controller sees it. */
export const RAW = 'raw'
/** Of etcd and API server: Go's own. */
export const GOGC = 100

export type Bed = {
  controlPlane: ControlPlane
  api: KubernetesClient
  /** For the bed's files; goes with it. */
  folder: string
  /** Of the account that the bench's processes use. */
  kubeconfigPath: string
  /** For informers on this API server. */
  informers: InformerDependencies
  /** What Davit closes in its log. */
  closings: Closings
  receiver: RemoteProcess<ReceiverCalls>
  receiverUrl: string
  publisher: RemoteProcess<PublisherCalls>
  raw: RemoteProcess<RawCalls>
  startController(options?: {
    env?: Record<string, string>
    execArgv?: readonly string[]
  }): Promise<Controller>
  stop(): Promise<void>
}

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))

export async function startBed(): Promise<Bed> {
  const controlPlane = await startControlPlane({ fsync: true, gogc: GOGC })
  await installCrds(controlPlane, CRDS)
  const folder = await mkdtemp(join(tmpdir(), 'davit-bench-'))
  const kubeconfigPath = join(folder, 'kubeconfig')
  const clock = createClock()
  const random = createRandom()
  await makeSystem(controlPlane, kubeconfigPath)
  const api = await connectKubernetes({ kubeconfigPath, clock, random })
  const log = createLogger({ level: 'error', clock, destination: process.stderr })
  const informers = { api, clock, random, log, metrics: NO_RUNTIME_METRICS }
  const closings = new Closings(SYSTEM, informers)
  await closings.start()
  const receiver = start<ReceiverCalls>('receiver')
  const publisher = await startPublisher(kubeconfigPath)
  const raw = start<RawCalls>('raw')
  const port = await receiver.call('listen', null)
  const controllers: Controller[] = []
  return {
    controlPlane,
    api,
    folder,
    kubeconfigPath,
    informers,
    closings,
    receiver,
    receiverUrl: `http://127.0.0.1:${port}`,
    publisher,
    raw,
    async startController(options) {
      const controller = await startController({ kubeconfigPath, namespace: SYSTEM, ...options })
      controllers.push(controller)
      return controller
    },
    async stop() {
      for (const controller of controllers) await controller.stop()
      await closings.stop()
      await Promise.all([receiver.stop(), publisher.stop(), raw.stop()])
      await api.close()
      await controlPlane.stop()
      await rm(folder, { recursive: true })
    },
  }
}

/** The caller reports endpoints to it (`list`), and stops it. */
export async function startPublisher(kubeconfigPath: string): Promise<RemoteProcess<PublisherCalls>> {
  const publisher = start<PublisherCalls>('publisher')
  await publisher.call('connect', { kubeconfigPath, namespace: SYSTEM })
  return publisher
}

/** Runs `work` on a bed of its own. */
export async function onBed<T>(work: (bed: Bed) => Promise<T>): Promise<T> {
  const bed = await startBed()
  try {
    return await work(bed)
  } finally {
    await bed.stop()
  }
}

export async function makeNamespace(
  api: ResourceWriter,
  name: string,
  options: { organization?: boolean } = {},
): Promise<void> {
  const labels = options.organization ? { [ORGANIZATION_LABEL]: 'true' } : {}
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
}

/** The namespaces and the account, made by the administrator. */
async function makeSystem(controlPlane: ControlPlane, kubeconfigPath: string): Promise<void> {
  const clock = createClock()
  const admin = await connectKubernetes({
    kubeconfigPath: controlPlane.kubeconfigPath,
    clock,
    random: createRandom(),
  })
  await makeNamespace(admin, SYSTEM)
  await makeNamespace(admin, RAW)
  await admin.close()
  await makeAccount(controlPlane.access, { namespace: SYSTEM, name: 'bench' }, kubeconfigPath)
}

function start<C extends Calls>(name: 'receiver' | 'publisher' | 'raw'): RemoteProcess<C> {
  return spawnProcess<C>(fileURLToPath(new URL(`./processes/${name}.ts`, import.meta.url)))
}
