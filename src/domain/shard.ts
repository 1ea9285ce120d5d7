import { createHash } from 'node:crypto'

/** Shards that endpoints are spread over; a replica owns some of them. */
export const SHARDS = 256

/** Shard of an endpoint (0-255), by its UID. */
export function shardOf(endpointUid: string): number {
  return createHash('sha256').update(endpointUid).digest()[0] ?? 0
}
