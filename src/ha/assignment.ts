/** Which shard an endpoint belongs to, and which replica owns which shard. README.md explains the protocol. */
import { createHash, hash } from 'node:crypto'
import { memoize } from '../lib/memoize.ts'

export const SHARD_COUNT = 256

/** Endpoints whose shard is kept, a few megabytes. */
const MAX_KNOWN = 20_000

/**
 * The shard (0 to 255) of an endpoint's UID. Every replica asks several times for each delivery of the log; hashing each time would
 * cost more than the rest of the work.
 */
export const shardOf = memoize(MAX_KNOWN, (endpointUid) =>
  Number.parseInt(hash('sha256', endpointUid, 'hex').slice(0, 2), 16),
)

type Candidate = { name: string; weights: Buffer }

const WEIGHT_BYTES = 4

/**
 * The owner of each shard, by its number; empty without members. Rendezvous hashing: replicas that know the same members agree, in
 * any order, and a replica that comes or goes moves only its own share.
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

/** A number for each shard that depends on the name alone. */
function weightsOf(name: string, shards: number): Buffer {
  return createHash('shake256', { outputLength: shards * WEIGHT_BYTES })
    .update(name)
    .digest()
}
