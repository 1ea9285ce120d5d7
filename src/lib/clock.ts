import { randomBytes } from 'node:crypto'

/** Time as an argument: what decides reads `now`, what waits uses `monotonic` and `after`. */
export interface Clock {
  /** Wall time in whole milliseconds since 1970, as stamps have it: for schedules and stamps. */
  now(): number
  /** Milliseconds that never go back or jump: for deadlines, rates and leases. */
  monotonic(): number
  /**
   * Calls `run` once after `ms` (0 to 2^31-1, the caller clamps) and returns the call that stops it.
   * Must not keep the process alive by itself.
   */
  after(ms: number, run: () => void): () => void
}

/** Chance as an argument. */
export interface Random {
  /** Uniform in [0, 1). */
  fraction(): number
  /** Bytes fit for keys. */
  bytes(count: number): Uint8Array
}

/** The machine's time. Its timers never keep the process alive. */
export function createClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(ms, run) {
      const timer = setTimeout(run, ms)
      timer.unref()
      return () => clearTimeout(timer)
    },
  }
}

/** The machine's chance: `bytes` is cryptographic, `fraction` (for jitter) is not. */
export function createRandom(): Random {
  return {
    fraction: () => Math.random(),
    bytes: (count) => randomBytes(count),
  }
}

/** A moment by both clocks: the monotonic one of a machine that slept may stand still, and the other one may be set. */
export type DualTimestamp = { monotonic: number; wall: number }

export function dualTimestamp(clock: Clock): DualTimestamp {
  return { monotonic: clock.monotonic(), wall: clock.now() }
}

/** Milliseconds since then, by the clock that tells more. */
export function elapsedSince(clock: Clock, { monotonic, wall }: DualTimestamp): number {
  return Math.max(clock.monotonic() - monotonic, clock.now() - wall)
}

/**
 * The machine's clock, which is never far behind that of the API server. What Davit stamps is compared with times of the
 * API server, and names of the log are in the order of their times: with a clock that is minutes slow, what was just
 * accepted would be taken for something old that a backup has brought back.
 */

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
