import type { EngineContext } from './context.ts'
import { hasLostShard } from './persist.ts'
import type { EndpointQueue } from './queue.ts'

/** Work on deliveries that goes on after their lanes were released. */
export class BackgroundWork {
  readonly #ctx: Pick<EngineContext, 'giveUp' | 'log' | 'shards'>
  readonly #onEnd: (lane: EndpointQueue) => void
  #size = 0

  /** @param onEnd told when a piece of work of the lane has ended */
  constructor(ctx: Pick<EngineContext, 'giveUp' | 'log' | 'shards'>, onEnd: (lane: EndpointQueue) => void) {
    this.#ctx = ctx
    this.#onEnd = onEnd
  }

  /** Pieces that are under way. */
  get size(): number {
    return this.#size
  }

  /** @param settles too much of it is to keep the lane from starting more */
  add(work: Promise<unknown>, lane: EndpointQueue, settles = false): void {
    this.#size += 1
    lane.busy += 1
    if (settles) lane.settling += 1
    void work
      .catch((error: unknown) => {
        // Another replica goes on with what was begun for a shard that this one has lost.
        if (this.#ctx.giveUp.aborted || hasLostShard(this.#ctx)) return
        this.#ctx.log.error('Work of the delivery plane failed', { error })
      })
      .then(() => {
        this.#size -= 1
        lane.busy -= 1
        if (settles) lane.settling -= 1
        this.#onEnd(lane)
      })
  }
}
