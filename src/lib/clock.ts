/**
 * The machine's clock, which is never far behind that of the API server. What Davit stamps is compared with times of the
 * API server, and names of the log are in the order of their times: with a clock that is minutes slow, what was just
 * accepted would be taken for something old that a backup has brought back.
 */
import type { Clock } from './ports-clock.ts'

export type SyncedClock = Clock & {
  /** @param date the header of an answer, in whole seconds */
  observeServerDate(date: string): void
}

/** Answers tell whole seconds, and have been under way. */
const TOLERANCE_MS = 2000
/** A time of the server that is so much behind what was heard before is one that was set back. */
const SET_BACK_MS = 15_000

export type SyncedClockOptions = {
  /**
   * Farther ahead of the API server it is not either. Absent: as far as the machine is, since that may know the time better: what is
   * signed has to be of now.
   */
  aheadMs?: number
}

export function createSyncedClock(
  machine: Clock,
  { aheadMs = Number.POSITIVE_INFINITY }: SyncedClockOptions = {},
): SyncedClock {
  let heard: { date: number; at: number } | undefined
  const server = () => heard && heard.date + machine.monotonic() - heard.at
  return {
    monotonic: () => machine.monotonic(),
    after: (ms, run) => machine.after(ms, run),
    now: () => {
      const now = machine.now()
      const theirs = server()
      if (theirs === undefined) return now
      return theirs - now > TOLERANCE_MS || now - theirs > aheadMs ? Math.floor(theirs) : now
    },
    observeServerDate: (header) => {
      const date = Date.parse(header)
      if (Number.isNaN(date)) return
      const expected = server()
      // An answer that took long tells a time that is over: the latest that was heard counts.
      if (expected === undefined || date > expected || date < expected - SET_BACK_MS)
        heard = { date, at: machine.monotonic() }
    },
  }
}
