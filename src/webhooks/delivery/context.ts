import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { type ShardOwnership, withOwnership } from '../../ha/ownership.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import type { Clock, Random } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { DeliveryMetrics } from '../../lib/metrics.ts'
import { sleep } from '../../lib/sleep.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import type { EndpointHealth } from '../endpoints/health.ts'
import type { OutcomeRecorder } from '../log/store.ts'
import type { WebhookSender } from '../sender/outcome.ts'
import type { DeliveryObjects } from './objects.ts'
import type { Delivery, EndpointQueue, OpenSegments } from './queue.ts'

/** What the parts of the delivery plane share. */

/** One deadline over name resolution, connect, TLS, request and response (interface §6.3). */
export const ATTEMPT_DEADLINE_MS = 20_000

export type EngineContext = {
  clock: Clock
  random: Random
  log: Logger
  metrics: DeliveryMetrics
  sender: WebhookSender
  events: EventRecorder
  directory: EndpointDirectory
  streaks: EndpointHealth
  resources: ResourceReader
  objects: DeliveryObjects
  outcomes: OutcomeRecorder
  segments: OpenSegments
  shards: ShardOwnership
  /** Operator's namespace: where segments are. */
  namespace: string
  userAgent: string
  /** Factor on the documented waits. */
  waitScale: number
  /** Aborted when running attempts are to be given up. */
  giveUp: AbortSignal
  /** The delivery is due later, at `delivery.dueAt`. */
  wait: (delivery: Delivery) => void
  /** The delivery has come to its end, durably; with `object` there is a WebhookDelivery of it. */
  ended: (delivery: Delivery, state: DeliveryState, object: boolean) => void
  /** An object shows it, and it has not ended. */
  promoted: (delivery: Delivery) => void
  /** It is no longer this process's business (its object was deleted). */
  dropped: (delivery: Delivery) => void
  /**
   * Work that goes on after the lane was released; waited for before the lane is handed over, or the process ends.
   * @param how `settles` when too much of it is to keep the lane from starting more
   */
  background: (work: Promise<unknown>, lane: EndpointQueue, how?: 'settles') => void
}

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

/** Begins background work of a lane, which may write as long as this replica holds the lane's shard as it does now. */
export function startOwnedWork(
  { shards, background }: Pick<EngineContext, 'shards' | 'background'>,
  lane: EndpointQueue,
  work: () => Promise<unknown>,
): void {
  withOwnership(shards, lane.shard, () => background(work(), lane))
}

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
