/**
 * Entries of the log that have no outcome yet (held, waiting in an ordered lane, or hanging): after a while they get an object,
 * which shows them, so that their segment can close.
 */
import { withoutOwnership } from '../../ha/ownership.ts'
import { addCounted } from './counted-entries.ts'
import type { DeliveryEngine } from './engine.ts'
import { PromotionQueue } from './move-queue.ts'
import type { OpenSegment } from './open-segments.ts'

/** Segments close within seconds. */
const PROMOTED_AFTER_MS = 2000
/** Those that come within so long are looked at together: a timer each would wake a replica as often as the log itself does. */
const TOGETHER_MS = 250
/** A busy lane that gets along may keep entries in the log for longer: an object each would slow it down. */
const PROGRESS_MS = 2000
const AT_MOST_MS = 30_000

export class PromotionScheduler {
  readonly #plane: DeliveryEngine
  readonly #queue: PromotionQueue
  /** Those that are looked at again, however many ask for it. */
  readonly #looking = new Set<OpenSegment>()
  /** A look is at the segments of many shards, whichever of them has begun it. */
  readonly #aside = withoutOwnership()
  #newest: { since: number; segments: OpenSegment[] } | undefined

  constructor(plane: DeliveryEngine) {
    this.#plane = plane
    this.#queue = new PromotionQueue(plane.ctx)
  }

  /** Gives those of the segment that have no outcome by then an object, and looks again as long as there are any. */
  promoteLater(opened: OpenSegment): void {
    if (opened.open.size === 0 || this.#looking.has(opened)) return
    this.#looking.add(opened)
    this.#gather(opened)
  }

  #gather(opened: OpenSegment): void {
    const { clock } = this.#plane.ctx
    const now = clock.monotonic()
    if (this.#newest && now - this.#newest.since < TOGETHER_MS) {
      this.#newest.segments.push(opened)
      return
    }
    const segments = [opened]
    this.#newest = { since: now, segments }
    const showAll = () => {
      for (const one of segments) this.#show(one)
    }
    this.#aside(() => clock.after(PROMOTED_AFTER_MS + TOGETHER_MS, showAll))
  }

  #show(opened: OpenSegment): void {
    this.#looking.delete(opened)
    if (opened.open.size === 0) return
    addCounted(this.#plane, opened)
    this.#moveOurs(opened)
    this.promoteLater(opened)
  }

  #moveOurs(opened: OpenSegment): void {
    const { clock, shards } = this.#plane.ctx
    const now = clock.monotonic()
    const old = clock.now() - opened.segment.writtenAt > AT_MOST_MS
    for (const { delivery } of opened.open.values()) {
      if (delivery?.storage.kind !== 'log' || !shards.owns(delivery.queue.shard)) continue
      const { storage, queue } = delivery
      if (storage.promotion || storage.status || queue.closed) continue
      const getsAlong = !queue.ordered && !queue.paused && now - queue.lastSuccess < PROGRESS_MS
      if (getsAlong && !old) continue
      this.#queue.add(delivery, storage)
    }
  }
}
