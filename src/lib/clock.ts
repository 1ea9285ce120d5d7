import { randomBytes } from 'node:crypto'

/** Time and chance as arguments, so that decisions are pure and tests control both. */

/** `now` is for decisions and timestamps, `monotonic` and `after` for waiting. */
export interface Clock {
  /** Wall time in whole milliseconds since 1970. */
  now(): number
  /** Milliseconds that never go back or jump: for deadlines, rates and leases. */
  monotonic(): number
  /** Calls `run` once after `ms` (0 to 2^31-1) and returns a call that cancels it. Does not keep the process alive. */
  after(ms: number, run: () => void): () => void
}

export interface Random {
  /** Uniform in [0, 1). */
  fraction(): number
  /** Cryptographic, fit for keys. */
  bytes(count: number): Uint8Array
}

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

export function createRandom(): Random {
  return {
    fraction: () => Math.random(),
    bytes: (count) => randomBytes(count),
  }
}

/** One moment by both clocks: the monotonic clock may stop while the machine sleeps, and the wall clock may be set. */
export type DualTimestamp = { monotonic: number; wall: number }

export function dualTimestamp(clock: Clock): DualTimestamp {
  return { monotonic: clock.monotonic(), wall: clock.now() }
}

/** Milliseconds since then, by the clock that says more. */
export function elapsedSince(clock: Clock, { monotonic, wall }: DualTimestamp): number {
  return Math.max(clock.monotonic() - monotonic, clock.now() - wall)
}

/**
 * A clock that is never far behind that of the API server. Davit compares its timestamps with those of the API
 * server, and names of the log sort by time: on a machine minutes slow, a new event would look like an old one from
 * a restored backup.
 */
export type SyncedClock = Clock & {
  /** @param date the Date header of a response, in whole seconds */
  observeServerDate(date: string): void
}

/** Date headers are whole seconds, and responses take time. */
const TOLERANCE_MS = 2000
/** A server time this far behind the expected one means that its clock was set back. */
const SET_BACK_MS = 15_000

export type SyncedClockOptions = {
  /**
   * How far it may be ahead of the API server. Absent: as far as the machine is, whose time may be right; signatures
   * must be of now.
   */
  aheadMs?: number
}

export function createSyncedClock(
  machine: Clock,
  { aheadMs = Number.POSITIVE_INFINITY }: SyncedClockOptions = {},
): SyncedClock {
  let seen: { date: number; at: number } | undefined
  const server = () => seen && seen.date + machine.monotonic() - seen.at
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
      // A slow response has an old time: the latest time counts.
      if (expected === undefined || date > expected || date < expected - SET_BACK_MS)
        seen = { date, at: machine.monotonic() }
    },
  }
}
