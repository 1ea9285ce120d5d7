/** Waits for the end of pods, since what they hold is theirs until then. */
import { pod, pods } from '../apis/core-kinds.ts'
import type { ListQuery, ResourceReader } from '../kube/client.ts'
import { listObjects } from '../kube/every-object.ts'
import type { Clock } from '../lib/ports-clock.ts'
import { sleep } from '../lib/sleep.ts'

export type WaitForPodsOptions = {
  resources: ResourceReader
  clock: Clock
  /** Which pods. */
  query: ListQuery
  limitMs: number
}

const LOOK_EVERY_MS = 1000
const ENDED: readonly unknown[] = ['Succeeded', 'Failed']

/** @returns whether none runs any more; false when some still did at the limit @throws ApiError */
export async function waitForPodsGone({
  resources,
  clock,
  query,
  limitMs,
}: WaitForPodsOptions): Promise<boolean> {
  const limit = clock.monotonic() + limitMs
  while (await anyRuns(resources, query)) {
    if (clock.monotonic() >= limit) return false
    await sleep(clock, LOOK_EVERY_MS)
  }
  return true
}

/** A pod that was evicted has ended, and its object stays. */
async function anyRuns(resources: ResourceReader, query: ListQuery): Promise<boolean> {
  for await (const item of listObjects(resources, pods, query))
    if (!ENDED.includes(pod.parse(item).status?.phase)) return true
  return false
}
