/** What was sent by a controller whose Lease had ended, whatever kept it from renewing: it may have been somebody else's by then. */
import type { SeenReception } from '../receivers.ts'
import type { FaultRecord } from './fault-work.ts'
import { type Stall, wasSeenLate } from './stall-watch.ts'

/** `ms` after the last renewal. */
export type Unleased = { delivery: string; life: number; ms: number }

type Of = {
  /** Of each life, when it renewed. */
  renewals: ReadonlyMap<number, readonly number[]>
  /** When Leases were looked at, in order. */
  looks: readonly number[]
  faults: readonly FaultRecord[]
  stalls: readonly Stall[]
  leaseMs: number
}

/** A renewal tells its time by the clock that was set; what it says then, and until it has renewed again, is of no use. */
const STEP_SHOWS_MS = 1000

/** `compared`: those of which it is known when their sender had renewed last: somebody looked soon after, and nobody had set its clock. */
export type ComparedLeases = { compared: number; unleased: Unleased[] }

/** So shortly after a renewal there is no other one that would hide it from a look. */
const HIDDEN_AFTER_MS = 1500

export function compareLeases(receptions: readonly SeenReception[], of: Of): ComparedLeases {
  const found: ComparedLeases = { compared: 0, unleased: [] }
  let look = 0
  for (const one of receptions.toSorted((a, b) => a.at - b.at)) {
    const { run, at, endpoint, id } = one
    while ((of.looks[look] ?? Infinity) < at) look += 1
    if ((of.looks[look] ?? Infinity) > at + HIDDEN_AFTER_MS) continue
    const last = (of.renewals.get(run) ?? []).findLast((renewed) => renewed <= at)
    if (last === undefined || wasSeenLate(one, of.stalls) || isClockSet(one, of)) continue
    found.compared += 1
    if (at - last > of.leaseMs)
      found.unleased.push({ delivery: `${endpoint} ${id}`, life: run, ms: at - last })
  }
  return found
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
