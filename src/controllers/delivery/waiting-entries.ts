/**
 * Entries of the log that have no outcome yet (held, waiting in an ordered lane, or hanging): after a while they get an object,
 * which shows them, so that their segment can close.
 */
import { detached } from '../../runtime/shards/tenures.ts'
import { takeCounted } from './counted-entries.ts'
import type { DeliveryPlane } from './delivery-plane.ts'
import { MoveQueue } from './move-queue.ts'
import type { OpenSegment } from './open-segments.ts'

/** Segments close within seconds. */
const SHOWN_AFTER_MS = 2000
/** Those that come within so long are looked at together: a timer each would wake a replica as often as the log itself does. */
const TOGETHER_MS = 250
/** A busy lane that gets along may keep entries in the log for longer: an object each would slow it down. */
const PROGRESS_MS = 2000
const AT_MOST_MS = 30_000

export class WaitingEntries {
  readonly #plane: DeliveryPlane
  readonly #queue: MoveQueue
  /** Those that are looked at again, however many ask for it. */
  readonly #looking = new Set<OpenSegment>()
  /** A look is at the segments of many shards, whichever of them has begun it. */
  readonly #aside = detached()
  #newest: { since: number; segments: OpenSegment[] } | undefined

  constructor(plane: DeliveryPlane) {
    this.#plane = plane
    this.#queue = new MoveQueue(plane.ctx)
  }

  /** Gives those of the segment that have no outcome by then an object, and looks again as long as there are any. */
  showLater(opened: OpenSegment): void {
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
    this.#aside(() => clock.after(SHOWN_AFTER_MS + TOGETHER_MS, showAll))
  }

  #show(opened: OpenSegment): void {
    this.#looking.delete(opened)
    if (opened.open.size === 0) return
    takeCounted(this.#plane, opened)
    this.#moveOurs(opened)
    this.showLater(opened)
  }

  #moveOurs(opened: OpenSegment): void {
    const { clock, shards } = this.#plane.ctx
    const now = clock.monotonic()
    const old = clock.now() - opened.segment.writtenAt > AT_MOST_MS
    for (const { delivery } of opened.open.values()) {
      if (delivery?.home.kind !== 'log' || !shards.owns(delivery.lane.shard)) continue
      const { home, lane } = delivery
      if (home.moving || home.status || lane.closed) continue
      const getsAlong = !lane.ordered && !lane.paused && now - lane.lastSuccess < PROGRESS_MS
      if (getsAlong && !old) continue
      this.#queue.add(delivery, home)
    }
  }
}
