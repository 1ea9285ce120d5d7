/** Which shards this replica may work on right now. It is asked each time, since shards are won and lost. */
export interface ShardOwnership {
  /** @param shard 0 to 255 */
  owns(shard: number): boolean
}

/** The only replica there is. */
export const allShards: ShardOwnership = { owns: () => true }
