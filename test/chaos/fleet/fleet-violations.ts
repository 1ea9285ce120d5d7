/** Describes broken promises. */
import { slowAmong, slowRolls } from './fail-overs.ts'
import type { FleetVerdict } from './fleet-verdict.ts'
import { worded } from './worded.ts'

export type Promised = {
  /** Attempts in progress when a disabling was acknowledged may arrive this much later. */
  latestMs: number
  /** The same for a deletion without an answer that controllers have stopped. */
  unseenMs: number
  /** Whether a change that one REST server has answered is active at the others. */
  serversAgree: boolean
  leaseMs: number
}

/** A replica sends nothing new while this many outcomes wait to be stored. */
const MAX_REPEATS = 1000

/** Describes violations that no fault excuses, in addition to those of `violations`. */
export function fleetViolations(
  verdict: FleetVerdict,
  { latestMs, unseenMs, serversAgree, leaseMs }: Promised,
): string[] {
  const tooLate = verdict.late.filter((ms) => ms > latestMs)
  const tooLateDeleted = verdict.lateDeleted.filter(({ ms, isSure }) => ms > (isSure ? latestMs : unseenMs))
  const slow = slowAmong(verdict.failOvers)
  return worded({
    'attempts of an ordered endpoint at a time': verdict.overlaps.map(
      ({ endpoint, ids, ms }) => `${endpoint} ${ids.join(' and ')} for ${Math.round(ms)} ms`,
    ),
    'attempts by a controller whose Lease had ended': verdict.leases.unleased.map(
      ({ delivery, life, ms }) => `${delivery} by life ${life} ${Math.round(ms)} ms after its last renewal`,
    ),
    'attempts after an acknowledged disabling': tooLate.map((ms) => `${Math.round(ms)} ms`),
    'attempts after a deletion': tooLateDeleted.map(({ ms }) => `${Math.round(ms)} ms`),
    'waits outside the schedule': verdict.waits.map(
      ({ endpoint, attempt, ms, allowed }) =>
        `${endpoint} ${Math.round(ms)} ms before attempt ${attempt}, allowed ${allowed.map(Math.round).join(' to ')}`,
    ),
    'fail-overs that took longer than is promised': slow.map(
      ({ fault, endpoint, calmMs, boundMs }) =>
        `${fault.kind} ${endpoint} ${Math.round(calmMs)} ms, allowed ${Math.round(boundMs)}`,
    ),
    'orderly ends that take as long as a Lease': slowRolls(verdict.failOvers, leaseMs),
    'faults that brought more repeats than outcomes may wait': [...verdict.repeatsByFault]
      .filter(([, repeats]) => repeats.length > MAX_REPEATS)
      .map(([{ kind }, repeats]) => `${kind} ${repeats.length}, allowed ${MAX_REPEATS}`),
    'repeats of what there was time to store': verdict.oldRepeats.map(
      ({ kind, delivery, ms }) => `${delivery} by ${kind} ${Math.round(ms)} ms after its answer`,
    ),
    'bodies that are not what was accepted': verdict.bodies,
    'events that were acknowledged while there was no store': verdict.unstored,
    'acknowledged events that are not in the log': verdict.missing,
    'keyed publishes that became two events': verdict.doubled,
    'answers that are not what is in the log': verdict.misanswered,
    'deliveries that a subscriber should have, or should not': verdict.misrouted,
    'events that were matched as before an answered change': serversAgree ? verdict.disagreed : [],
  })
}
