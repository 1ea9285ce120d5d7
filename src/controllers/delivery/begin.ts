import { doneFor } from '../../runtime/shards/ownership.ts'
import type { Lane } from './lane.ts'
import type { PlaneContext } from './plane-context.ts'

/** Begins background work of a lane, which may write as long as this replica holds the lane's shard as it does now. */
export function begin(
  { shards, background }: Pick<PlaneContext, 'shards' | 'background'>,
  lane: Lane,
  work: () => Promise<unknown>,
): void {
  doneFor(shards, lane.shard, () => background(work(), lane))
}
