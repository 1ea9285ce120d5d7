import { createHash, hash } from 'node:crypto'
import { memoize } from '../lib/memoize.ts'

/** Shards that endpoints are spread over; a replica owns some of them. */
export const SHARD_COUNT = 256

/** Endpoints whose shard is kept; a few megabytes. */
const MAX_KNOWN = 20_000

/**
 * Shard of an endpoint (0-255), by its UID. Every replica asks several times for every delivery of the log; hashing each time
 * would cost more than the rest of that work.
 */
export const shardOf = memoize(MAX_KNOWN, (endpointUid) =>
  Number.parseInt(hash('sha256', endpointUid, 'hex').slice(0, 2), 16),
)

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
