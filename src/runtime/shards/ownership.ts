import type { Tenures } from './tenures.ts'

/** Which shards this replica may work on right now. It is asked each time, since shards are won and lost. */
export interface ShardOwnership {
  /** It may send. @param shard 0 to 255 */
  owns(shard: number): boolean
  /** Since when shards are held; absent: there is nobody else. */
  readonly tenures?: Pick<Tenures, 'within' | 'mayWrite' | 'of'>
}

/** Whatever `act` begins may write as long as the shard is held as it is now. */
export function doneFor<T>({ tenures }: ShardOwnership, shard: number, act: () => T): T {
  return tenures ? tenures.within(shard, act) : act()
}
