/** What a stretch of work cost: requests at the API server and CPU of processes. */
import type { Bed } from '../bed.ts'
import { type RequestCounts, readRequestCounts, requestsBetween, writesOf } from './api-requests.ts'
import { cpuOf, type Usage, usageSince } from './process-usage.ts'

export type Cost = {
  /** Writes by `<verb> <resource>`, those of the bench itself included. */
  writes: RequestCounts
  /** CPU milliseconds by process. */
  cpu: Usage
}

/** Runs `work` and returns its cost; `others` are processes in addition to the bed's own. */
export async function costOf<T>(
  bed: Bed,
  others: Record<string, number>,
  work: () => Promise<T>,
): Promise<{ result: T; cost: Cost }> {
  const { access, pids } = bed.controlPlane
  const all = {
    apiServer: pids.apiServer,
    etcd: pids.etcd,
    publisher: bed.publisher.pid,
    receiver: bed.receiver.pid,
    raw: bed.raw.pid,
    ...others,
  }
  const counts = await readRequestCounts(access)
  const cpu = cpuOf(all)
  const result = await work()
  const used = usageSince(cpu, cpuOf(all))
  const writes = writesOf(requestsBetween(counts, await readRequestCounts(access)))
  return { result, cost: { writes, cpu: used } }
}
