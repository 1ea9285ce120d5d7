import { withOwnership } from '../../ha/shards-ownership.ts'
import type { EngineContext } from './context.ts'
import type { EndpointQueue } from './queue.ts'

/** Begins background work of a lane, which may write as long as this replica holds the lane's shard as it does now. */
export function startOwnedWork(
  { shards, background }: Pick<EngineContext, 'shards' | 'background'>,
  lane: EndpointQueue,
  work: () => Promise<unknown>,
): void {
  withOwnership(shards, lane.shard, () => background(work(), lane))
}
