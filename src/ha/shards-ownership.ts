import type { OwnershipEpochs } from './ownership.ts'

/** Which shards this replica may work on right now. It is asked each time, since shards are won and lost. */
export interface ShardOwnership {
  /** It may send. @param shard 0 to 255 */
  owns(shard: number): boolean
  /** Since when shards are held; absent: there is nobody else. */
  readonly epochs?: Pick<OwnershipEpochs, 'runWithin' | 'mayWrite' | 'current'>
}

/** Whatever `act` begins may write as long as the shard is held as it is now. */
export function withOwnership<T>({ epochs }: ShardOwnership, shard: number, act: () => T): T {
  return epochs ? epochs.runWithin(shard, act) : act()
}
