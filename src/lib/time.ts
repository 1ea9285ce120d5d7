import { randomBytes, randomFillSync } from 'node:crypto'

/**
 * Time and chance as arguments, so that decisions are pure and tests control both; and waiting: for a time, for work
 * with a deadline, and for longer after each failure. Nothing here keeps the process alive.
 */

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

/** Short values are cut from a block: a call of the random source costs more than making an ID from its bytes. */
const BLOCK_BYTES = 4096
/** Longer values may be keys, whose bytes must not be in memory before they are used. */
const MAX_CUT_BYTES = 16

export function createRandom(): Random {
  const block = new Uint8Array(BLOCK_BYTES)
  let used = BLOCK_BYTES
  return {
    fraction: () => Math.random(),
    bytes(count) {
      if (count > MAX_CUT_BYTES) return randomBytes(count)
      if (used + count > BLOCK_BYTES) {
        randomFillSync(block)
        used = 0
      }
      const from = used
      used += count
      // A copy: the caller may keep or change it.
      const bytes = block.slice(from, used)
      block.fill(0, from, used)
      return bytes
    },
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

/** The longest that a timer can be set to; beyond it Node fires after 1 ms. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** Waits `ms` milliseconds, or until `signal` aborts: then it resolves at once, and the caller checks the signal. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      stop()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const stop = clock.after(Math.min(Math.max(0, ms), MAX_TIMER_MS), end)
    signal?.addEventListener('abort', end, { once: true })
  })
}

/** A sleep that can be ended from outside, even before it starts. */
export class InterruptibleSleep {
  readonly #clock: Clock
  #isAwake = false
  #end: () => void = () => undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Ends the current sleep, or the next one if there is none. */
  wake(): void {
    this.#isAwake = true
    this.#end()
  }

  /** Resolves after `ms`, when woken, or when `signal` aborts. */
  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#isAwake) {
      const woken = new AbortController()
      this.#end = () => woken.abort()
      signal.addEventListener('abort', this.#end, { once: true })
      if (!signal.aborted) await sleep(this.#clock, ms, woken.signal)
      signal.removeEventListener('abort', this.#end)
    }
    this.#isAwake = false
  }
}

const POLL_MS = 20

/** Polls until `isSo`, or until `signal` aborts: then it resolves as well, and the caller checks the signal. */
export async function pollUntil(clock: Clock, isSo: () => boolean, signal?: AbortSignal): Promise<void> {
  while (!isSo() && !signal?.aborted) await sleep(clock, POLL_MS, signal)
}

/** Lets everything else that is ready run: between batches of work that would hold the event loop. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** The result of `work`, or the signal's reason as soon as it aborts, for work that does not listen to the signal. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const leave = () => reject(signal.reason)
  if (signal.aborted) leave()
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** The result of `work`, whose signal aborts after `ms` with `reason`; it rejects only if the work does. */
export async function withDeadline<T>(
  clock: Pick<Clock, 'after'>,
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
  reason?: Error,
): Promise<T> {
  const controller = new AbortController()
  const stop = clock.after(ms, () => controller.abort(reason))
  try {
    return await work(controller.signal)
  } finally {
    stop()
  }
}

/** The result of `work`, or `error` after `ms`; the work goes on. */
export function within<T>(
  clock: Pick<Clock, 'after'>,
  ms: number,
  work: Promise<T>,
  error: () => Error,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const stop = clock.after(ms, () => reject(error()))
  work.then(resolve, reject).finally(stop)
  return promise
}

export type BackoffLimits = { firstMs: number; longestMs: number }

/** The wait after the `failures`-th failure in a row (1 is the first): doubles up to the longest. */
export function exponentialMs(failures: number, { firstMs, longestMs }: BackoffLimits): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(0, failures - 1), 40))
}

/** The same, spread over the upper half of that wait, so that callers that failed together do not retry together. */
export function backoffMs(failures: number, limits: BackoffLimits, random: Random): number {
  return exponentialMs(failures, limits) * (0.5 + random.fraction() / 2)
}

/** Calls that wait for the value of a key to become what they want. */
export class Waiters<T> {
  readonly #clock: Pick<Clock, 'after'>
  readonly #waiting = new Map<string, Set<(value: T) => void>>()

  constructor(clock: Pick<Clock, 'after'>) {
    this.#clock = clock
  }

  notify(key: string, value: T): void {
    for (const waiter of [...(this.#waiting.get(key) ?? [])]) waiter(value)
  }

  /** The first value that is wanted; undefined after `ms` milliseconds. */
  wait(key: string, ms: number, isWanted: (value: T) => boolean): Promise<T | undefined> {
    return new Promise((resolve) => {
      const end = (value: T | undefined) => {
        stop()
        waiting.delete(waiter)
        if (waiting.size === 0) this.#waiting.delete(key)
        resolve(value)
      }
      const waiter = (value: T) => {
        if (isWanted(value)) end(value)
      }
      const stop = this.#clock.after(ms, () => end(undefined))
      const waiting = this.#waiting.get(key) ?? new Set()
      this.#waiting.set(key, waiting.add(waiter))
    })
  }
}
