import {
  type BackoffLimits,
  backoffMs,
  type Clock,
  type DualTimestamp,
  dualTimestamp,
  elapsedSince,
  type Random,
} from '../lib/time.ts'
import { isApiError } from './client.ts'

/** How well a watch is doing: for how long it has been cut off, what it may have missed, and when it restarts. */

/** A watch that stays open this long counts as accepted: nothing signals the start of a stream. */
const LET_IN_MS = 2000

/** Tracks for how long a watch has been disconnected. */
export class WatchHealth {
  readonly #clock: Clock
  #lostAt: number | undefined
  #openedAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A stream was requested. */
  opening(): void {
    this.#openedAt = this.#clock.monotonic()
  }

  /** An event arrived, or the server ended the stream normally. */
  connected(): void {
    this.#lostAt = undefined
  }

  /** A list or a watch failed. */
  disconnected(): void {
    if (this.disconnectedForMs() === 0) this.#lostAt = this.#clock.monotonic()
    this.#openedAt = undefined
  }

  /** Milliseconds since the first failure without success after it; 0 while connected. */
  disconnectedForMs(): number {
    const now = this.#clock.monotonic()
    if (this.#openedAt !== undefined && now - this.#openedAt >= LET_IN_MS) this.#lostAt = undefined
    // Never 0 after a failure.
    return this.#lostAt === undefined ? 0 : Math.max(1, now - this.#lostAt)
  }
}

export type GapDetection = {
  afterMs: number
  onGap(): void
  /** What was read in another way before the first list: when that began, and up to which version. Undefined: nothing. */
  readBefore?: () => { at: DualTimestamp; version: number } | undefined
}

/** Detects gaps in what was seen of a log: objects that were created and deleted in a gap appear in no list. */
export class GapDetector {
  readonly #clock: Clock
  readonly #missed: GapDetection | undefined
  /** Everything up to then is known. */
  #heard: DualTimestamp

  constructor(clock: Clock, missed: GapDetection | undefined) {
    this.#clock = clock
    this.#missed = missed
    this.#heard = dualTimestamp(clock)
  }

  /** @param at default: now */
  heard(at = dualTimestamp(this.#clock)): void {
    this.#heard = at
  }

  /**
   * Call before a list. A gap shows by the first new object of the list. Without one, no object was created that
   * could have been deleted: the newest object of a log always stays.
   * @param highest version seen before; 0: none but `readBefore`
   * @returns call it with the version of each object; undefined if there was no gap
   */
  listing(highest: number): ((version: number) => void) | undefined {
    const missed = this.#missed
    const known = highest > 0 ? { at: this.#heard, version: highest } : missed?.readBefore?.()
    if (!missed || !known || elapsedSince(this.#clock, known.at) <= missed.afterMs) return undefined
    let isReported = false
    return (version) => {
      if (isReported || version <= known.version) return
      isReported = true
      missed.onGap()
    }
  }
}

const BACKOFF: BackoffLimits = { firstMs: 100, longestMs: 30_000 }
/** No server answers, so retries burden none, and waiting longer only delays the recovery. */
const AWAY: BackoffLimits = { firstMs: 100, longestMs: 5_000 }
/** This many failures in a row without a response are an outage, not a bad connection. */
const AN_OUTAGE = 3
const LONGEST_ASKED_MS = 60_000
/** A watch that lived this long was good, even without events. */
const GOOD_LIFE_MS = 10_000
/** One that failed after this long had been open, since opening takes less; then it was good as well. */
const OPEN_LIFE_MS = 20_000
/** After this many bad streams from the same version only a list helps. */
const BAD_STREAMS = 3

export type RestartDecision = {
  /** The last version is of no use: list again. */
  relist: boolean
  waitMs: number
}

/** Decides when to list or watch again after a watch ended; waits grow until an event arrives. */
export class RestartPolicy {
  readonly #random: Random
  #failures = 0
  #awayInARow = 0
  #badStreams = 0

  constructor(random: Random) {
    this.#random = random
  }

  /** An event or a bookmark arrived. */
  progress(): void {
    this.#failures = 0
    this.#badStreams = 0
  }

  /** The server ended the watch normally. @param livedMs how long it was open */
  closed(livedMs: number, progressed: boolean): RestartDecision {
    if (progressed || livedMs >= GOOD_LIFE_MS) {
      this.progress()
      return { relist: false, waitMs: 0 }
    }
    return { relist: false, waitMs: this.#nextWait() }
  }

  /** @param livedMs since the watch was requested; 0 if the list failed */
  failed(error: unknown, livedMs = 0): RestartDecision {
    if (livedMs >= OPEN_LIFE_MS) this.progress()
    const asked = isApiError(error) ? Math.min(error.retryAfterMs ?? 0, LONGEST_ASKED_MS) : 0
    const away = isAway(error)
    // The server is back and starting: the outage is no reason to keep waiting.
    if (!away && this.#awayInARow >= AN_OUTAGE) this.#failures = 0
    this.#awayInARow = away ? this.#awayInARow + 1 : 0
    return { relist: this.#needsList(error), waitMs: Math.max(asked, this.#nextWait(away)) }
  }

  #needsList(error: unknown): boolean {
    // The version is too old, or the request with it is rejected for good.
    if (isApiError(error, 'Gone', 'BadRequest', 'Invalid', 'NotFound')) return true
    // Not for broken connections or a busy server, but for a 200 with nonsense.
    if (isApiError(error) && error.status === 200) this.#badStreams += 1
    if (this.#badStreams < BAD_STREAMS) return false
    this.#badStreams = 0
    return true
  }

  #nextWait(away = false): number {
    this.#failures += 1
    return backoffMs(this.#failures, away ? AWAY : BACKOFF, this.#random)
  }
}

function isAway(error: unknown): boolean {
  return isApiError(error, 'Unavailable') && error.status === 0
}

/** An informer without its objects. */
export interface Watch {
  /** Resolves when the first list is complete. */
  readonly synced: Promise<void>
  readonly health: WatchHealth
  /** Everything up to this version was delivered; 0 before the end of the first list. */
  readonly version: number
  /** A list was completed and nothing has invalidated it since. */
  readonly isListed: boolean
  start(): unknown
  /** Reopens the stream, which may be dead without an error. */
  reopen(): void
  /** Lists everything again, since something may have been missed. */
  relist(): void
  /** Resolves when nothing more will be delivered. */
  stop(): Promise<void>
}
