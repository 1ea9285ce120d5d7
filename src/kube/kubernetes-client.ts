import type { ResourceReader, ResourceWriter, WatchSource } from './client.ts'
import { type ConnectOptions, connectToCluster } from './connect.ts'
import { createResources } from './resources.ts'

export type KubernetesClient = ResourceReader & ResourceWriter & WatchSource & { close(): Promise<void> }

/** Everything that Davit needs of one API server. Connects lazily. @throws Error when there is no way to a cluster */
export async function connectKubernetes(options: ConnectOptions): Promise<KubernetesClient> {
  const transport = await connectToCluster(options)
  const resources = createResources({ transport, clock: options.clock, random: options.random })
  return {
    get: (type, ref) => resources.get(type, ref),
    list: (type, query, from) => resources.list(type, query, from),
    create: (type, object, how) => resources.create(type, object, how),
    patch: (type, ref, patch, how) => resources.patch(type, ref, patch, how),
    delete: (type, ref, precondition, how) => resources.delete(type, ref, precondition, how),
    watch: (type, query, version, signal) => resources.watch(type, query, version, signal),
    close: () => transport.close(),
  }
}
