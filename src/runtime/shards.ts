/** Endpoints are spread over so many shards; a replica owns some of them. */
export const SHARD_COUNT = 256

/** Which shards this replica may work on right now. */
export interface ShardOwnership {
  /** @param shard 0 to SHARD_COUNT - 1 */
  owns(shard: number): boolean
  /** Calls back after shards were won or lost. Returns the call that stops that. */
  onChange(listener: () => void): () => void
}

/** The only replica there is. */
export const allShards: ShardOwnership = {
  owns: () => true,
  onChange: () => () => undefined,
}
