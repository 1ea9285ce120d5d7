/** What was sent by a controller whose Lease had ended, whatever kept it from renewing: it may have been somebody else's by then. */
import type { SeenReception } from '../receivers.ts'
import type { FaultRecord } from './fault-work.ts'
import { type Stall, wasSeenLate } from './stall-watch.ts'

/** `ms` after the last renewal. */
export type Unleased = { delivery: string; life: number; ms: number }

type Of = {
  /** Of each life, when it renewed. */
  renewals: ReadonlyMap<number, readonly number[]>
  faults: readonly FaultRecord[]
  stalls: readonly Stall[]
  leaseMs: number
}

/** A renewal tells its time by the clock that was set; what it says then, and until it has renewed again, is of no use. */
const STEP_SHOWS_MS = 1000

/** Two renewals lie a second or two apart, and one of them may not have been seen: then the one before counts. */
export function unleasedAmong(receptions: readonly SeenReception[], of: Of): Unleased[] {
  return receptions.flatMap((one) => {
    const { run, at, endpoint, id } = one
    const last = Math.max(...(of.renewals.get(run) ?? []).filter((renewed) => renewed <= at))
    if (!Number.isFinite(last) || at - last <= of.leaseMs || wasSeenLate(one, of.stalls)) return []
    return isClockSet(one, of) ? [] : [{ delivery: `${endpoint} ${id}`, life: run, ms: at - last }]
  })
}

function isClockSet({ run, at }: SeenReception, { faults, leaseMs }: Of): boolean {
  return faults.some(
    ({ kind, lives, from, to }) =>
      kind === 'clock step' &&
      (lives === 'all' || lives.includes(run)) &&
      from - STEP_SHOWS_MS <= at &&
      to + STEP_SHOWS_MS + leaseMs >= at,
  )
}
