/** Lanes that this replica hands over: what is under way in them ends first. */
import { pollUntil } from '../../lib/sleep.ts'
import { ATTEMPT_DEADLINE_MS, type EngineContext } from './context.ts'
import type { Delivery } from './delivery.ts'
import type { OpenSegments } from './open-segments.ts'
import type { EndpointQueue } from './queue.ts'

/**
 * As long as others wait if this replica has died: an attempt ends within its deadline, and what it came to may still be on its way
 * then. A write that does not succeed is not waited for any longer.
 */
export const DRAIN_TIMEOUT_MS = ATTEMPT_DEADLINE_MS + 1000

/** Calls `rest` for each lane as soon as nothing of it is under way. @returns whether that was so of all in time */
export async function drainQueues(
  { clock }: Pick<EngineContext, 'clock'>,
  lanes: readonly EndpointQueue[],
  rest: (lane: EndpointQueue) => void,
): Promise<boolean> {
  const last = clock.monotonic() + DRAIN_TIMEOUT_MS
  let areIdle = true
  for (const lane of lanes) {
    await pollUntil(clock, () => lane.isIdle || clock.monotonic() >= last)
    areIdle &&= lane.isIdle
    rest(lane)
  }
  return areIdle
}

/** Deliveries of the lane that the log alone knew of, and has closed. */
export function closedEntries(segments: OpenSegments, lane: EndpointQueue): Delivery[] {
  return [...lane.members()].filter(
    ({ storage, version, index }) => storage.kind === 'log' && !segments.at(version)?.open.has(index),
  )
}
