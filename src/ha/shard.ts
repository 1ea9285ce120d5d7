import { hash } from 'node:crypto'

/** Shards that endpoints are spread over; a replica owns some of them. */
export const SHARD_COUNT = 256

/** Every replica asks several times for every delivery of the log, and hashing would cost it more than the rest of that. */
const known = new Map<string, number>()
/** More endpoints than that are begun anew with; a few megabytes. */
const MAX_KNOWN = 20_000

/** Shard of an endpoint (0-255), by its UID. */
export function shardOf(endpointUid: string): number {
  const held = known.get(endpointUid)
  if (held !== undefined) return held
  if (known.size === MAX_KNOWN) known.clear()
  const shard = Number.parseInt(hash('sha256', endpointUid, 'hex').slice(0, 2), 16)
  known.set(endpointUid, shard)
  return shard
}
