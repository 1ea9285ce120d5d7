/** Lanes that this replica hands over: what is under way in them ends first. */
import { until } from '../../runtime/pause.ts'
import type { Delivery } from './delivery.ts'
import type { Lane } from './lane.ts'
import type { OpenSegments } from './open-segments.ts'
import { ATTEMPT_DEADLINE_MS, type PlaneContext } from './plane-context.ts'

/**
 * As long as others wait if this replica has died: an attempt ends within its deadline, and what it came to may still be on its way
 * then. A write that does not succeed is not waited for any longer.
 */
export const LONGEST_REST_MS = ATTEMPT_DEADLINE_MS + 1000

/** Calls `rest` for each lane as soon as nothing of it is under way. @returns whether that was so of all in time */
export async function restLanes(
  { clock }: Pick<PlaneContext, 'clock'>,
  lanes: readonly Lane[],
  rest: (lane: Lane) => void,
): Promise<boolean> {
  const last = clock.monotonic() + LONGEST_REST_MS
  let areIdle = true
  for (const lane of lanes) {
    await until(clock, () => lane.isIdle || clock.monotonic() >= last)
    areIdle &&= lane.isIdle
    rest(lane)
  }
  return areIdle
}

/** Deliveries of the lane that the log alone knew of, and has closed. */
export function closedIn(segments: OpenSegments, lane: Lane): Delivery[] {
  return [...lane.members()].filter(
    ({ home, version, index }) => home.kind === 'log' && !segments.at(version)?.open.has(index),
  )
}
