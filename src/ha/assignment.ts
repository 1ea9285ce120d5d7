import { createHash, hash } from 'node:crypto'

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

/** Which replica works on which shard: rendezvous hashing, so that who comes or goes moves its own share only. */

type Candidate = { name: string; weights: Buffer }

const WEIGHT_BYTES = 4

/**
 * Owner of each shard, by its number. Everybody who knows the same members comes to the same answer, in whatever order they
 * are given. Empty where there are no members.
 */
export function assignShards(members: readonly string[], shards: number): string[] {
  const [first, ...others] = members.map((name) => ({ name, weights: weightsOf(name, shards) }))
  if (!first) return []
  return Array.from({ length: shards }, (_, shard) => {
    let best = first
    for (const other of others) if (isAhead(other, best, shard)) best = other
    return best.name
  })
}

function isAhead(one: Candidate, other: Candidate, shard: number): boolean {
  const a = one.weights.readUInt32BE(shard * WEIGHT_BYTES)
  const b = other.weights.readUInt32BE(shard * WEIGHT_BYTES)
  return a === b ? one.name < other.name : a > b
}

/** A number for each shard that hangs on nothing but the name. */
function weightsOf(name: string, shards: number): Buffer {
  return createHash('shake256', { outputLength: shards * WEIGHT_BYTES })
    .update(name)
    .digest()
}
