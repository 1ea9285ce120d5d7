import { sleep } from '../../lib/sleep.ts'
import type { EngineContext } from './context.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/**
 * Does `work`, again after growing pauses, until it is done: for what must become durable before anything else
 * may happen to a delivery. `work` must be repeatable.
 * @throws what it threw last, when the process ends before that, or another replica may have had the shard of it
 */
export async function retryUntilDurable<T>(
  ctx: Pick<EngineContext, 'clock' | 'random' | 'log' | 'giveUp' | 'shards'>,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  let longest = FIRST_PAUSE_MS
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (ctx.giveUp.aborted || hasLostShard(ctx)) throw error
      // The first failures of an API server that restarts are no news.
      if (longest >= LONGEST_PAUSE_MS)
        ctx.log.warn('The store does not take it; trying again', { what, error })
      await sleep(ctx.clock, longest * (0.5 + ctx.random.fraction() / 2), ctx.giveUp)
      longest = Math.min(LONGEST_PAUSE_MS, longest * 2)
    }
  }
}

/** What runs now was begun for a shard that another replica may have had since: it can write no more. */
export function hasLostShard({ shards }: Pick<EngineContext, 'shards'>): boolean {
  return shards.epochs?.mayWrite === false
}
