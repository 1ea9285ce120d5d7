import type { Clock, Random } from '../../ports/clock.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../../ports/kubernetes.ts'
import type { ApiCallMetrics } from '../../ports/metrics.ts'
import { loadCluster } from './kubeconfig.ts'
import { createResources } from './resources.ts'
import { createTransport } from './transport.ts'

export type KubernetesClient = ResourceReader & ResourceWriter & WatchSource & { close(): Promise<void> }

export type ConnectOptions = {
  /** Absent: the service account of the pod. */
  kubeconfigPath?: string
  clock: Clock
  random: Random
  metrics?: ApiCallMetrics
  /** Connections for calls; a watch has its own besides. */
  connections?: number
}

/** Everything that Davit needs of one API server. Connects lazily. @throws Error when there is no way to a cluster */
export async function connectKubernetes(options: ConnectOptions): Promise<KubernetesClient> {
  const { clock, random, metrics, connections, kubeconfigPath } = options
  const access = await loadCluster({ clock, ...(kubeconfigPath === undefined ? {} : { kubeconfigPath }) })
  const transport = createTransport({
    access,
    clock,
    random,
    ...(metrics ? { metrics } : {}),
    ...(connections === undefined ? {} : { connections }),
  })
  const resources = createResources({ transport, clock, random })
  return {
    get: (type, ref) => resources.get(type, ref),
    list: (type, query, from) => resources.list(type, query, from),
    create: (type, object, how) => resources.create(type, object, how),
    patch: (type, ref, patch, how) => resources.patch(type, ref, patch, how),
    delete: (type, ref, precondition) => resources.delete(type, ref, precondition),
    watch: (type, query, version, signal) => resources.watch(type, query, version, signal),
    close: () => transport.close(),
  }
}
