/**
 * Finds requests of a controller whose Lease had ended, whatever kept it from renewing: another one may have owned the shard by
 * then.
 */
import type { SeenReception } from '../receivers.ts'
import type { FaultRecord } from './fault-work.ts'
import { type Stall, wasSeenLate } from './stall-watch.ts'

/** `ms` after the last renewal. */
export type Unleased = { delivery: string; life: number; ms: number }

type Of = {
  /** Renewals of each life. */
  renewals: ReadonlyMap<number, readonly number[]>
  /** When Leases were read, in order. */
  looks: readonly number[]
  faults: readonly FaultRecord[]
  stalls: readonly Stall[]
  leaseMs: number
}

/** A renewal has the time of the shifted clock; it is of no use until the process has renewed again. */
const STEP_SHOWS_MS = 1000

/** `compared`: requests with a known last renewal of their sender: a read followed soon, and the clock was not set. */
export type ComparedLeases = { compared: number; unleased: Unleased[] }

/** This shortly after a renewal there is no other one that could hide it from a read. */
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
