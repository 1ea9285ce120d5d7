import type { ShardTimes } from './shard-work.ts'

const HANDOFF_EVERY_MS = 300

/**
 * @param leaseMs after which a replica that is not heard of is taken for gone
 * @param drainMs what was begun ends within
 */
export function deriveShardTimes(leaseMs: number, drainMs: number): ShardTimes {
  return {
    leaseMs,
    // Clocks may differ in their rate, and calls take their time.
    holdsMs: (leaseMs * 2) / 3,
    renewEveryMs: (leaseMs * 2) / 9,
    handoffEveryMs: HANDOFF_EVERY_MS,
    drainMs,
  }
}
