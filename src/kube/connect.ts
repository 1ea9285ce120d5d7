import type { ApiCallMetrics } from '../lib/metrics.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import { loadCluster } from './auth.ts'
import { createTransport, type Transport } from './transport.ts'

export type ConnectOptions = {
  /** Absent: the service account of the pod. */
  kubeconfigPath?: string
  clock: Clock
  random: Random
  metrics?: ApiCallMetrics
  /** Connections for calls; a watch has its own besides. */
  connections?: number
  /** Told what each answer says of the time. */
  onDate?: (date: string) => void
}

/** Connections of its own, made when they are needed. @throws Error when there is no way to a cluster */
export async function connectToCluster(
  options: ConnectOptions & { deadlineMs?: number },
): Promise<Transport> {
  const { kubeconfigPath, ...rest } = options
  const access = await loadCluster({
    clock: rest.clock,
    ...(kubeconfigPath === undefined ? {} : { kubeconfigPath }),
  })
  return createTransport({ access, ...rest })
}
