import type { MoveQueue } from './move-queue.ts'
import type { OpenSegment } from './open-segments.ts'
import type { PlaneContext } from './plane-context.ts'

/** A busy lane that gets along may keep entries in the log for longer: an object each would slow it down. */
const PROGRESS_MS = 2000
const AT_MOST_MS = 30_000

/**
 * Entries of the segment that have no outcome yet (held, waiting in an ordered lane, or hanging) get an object:
 * it shows them, and the segment can close.
 */
export function moveWaiting(ctx: PlaneContext, opened: OpenSegment, queue: MoveQueue): void {
  const now = ctx.clock.monotonic()
  const old = ctx.clock.now() - opened.segment.writtenAt > AT_MOST_MS
  for (const { delivery } of opened.open.values()) {
    if (delivery?.home.kind !== 'log' || !ctx.shards.owns(delivery.lane.shard)) continue
    const { home, lane } = delivery
    if (home.moving || home.status || lane.closed) continue
    const getsAlong = !lane.ordered && !lane.paused && now - lane.lastSuccess < PROGRESS_MS
    if (getsAlong && !old) continue
    queue.add(delivery, home)
  }
}
