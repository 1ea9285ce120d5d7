import { type Clock, type DualTimestamp, dualTimestamp, elapsedSince, type Random } from '../lib/clock.ts'
import { type BackoffLimits, backoffMs } from '../lib/sleep.ts'
import { isApiError } from './client.ts'

/** A watch that stays open for so long was let in: nobody tells that a stream has begun. */
const LET_IN_MS = 2000

/** For how long a watch has been cut off from what it watches. */
export class WatchHealth {
  readonly #clock: Clock
  #lostAt: number | undefined
  #openedAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A stream is asked for. */
  opening(): void {
    this.#openedAt = this.#clock.monotonic()
  }

  /** Something came, or the server ended the stream in the ordinary way. */
  connected(): void {
    this.#lostAt = undefined
  }

  /** A list or a watch failed. */
  disconnected(): void {
    if (this.disconnectedForMs() === 0) this.#lostAt = this.#clock.monotonic()
    this.#openedAt = undefined
  }

  /** Milliseconds since the first failure after which nothing has come through; 0 while all is well. */
  disconnectedForMs(): number {
    const now = this.#clock.monotonic()
    if (this.#openedAt !== undefined && now - this.#openedAt >= LET_IN_MS) this.#lostAt = undefined
    // A moment ago is not now.
    return this.#lostAt === undefined ? 0 : Math.max(1, now - this.#lostAt)
  }
}

export type GapDetection = { afterMs: number; onGap(): void }

/** For how long nothing was heard of a log, of which what was made and deleted meanwhile is in no list. */
export class GapDetector {
  readonly #clock: Clock
  readonly #missed: GapDetection | undefined
  /** All that there was until then is known. */
  #heard: DualTimestamp

  constructor(clock: Clock, missed: GapDetection | undefined) {
    this.#clock = clock
    this.#missed = missed
    this.#heard = dualTimestamp(clock)
  }

  /** @param at absent: now */
  heard(at = dualTimestamp(this.#clock)): void {
    this.#heard = at
  }

  /**
   * Of a list that is read now: whether something may have been missed is told by the first of its objects that is new. Where nothing is,
   * nothing was made that could have been deleted: of a log the newest always stays.
   * @param highest version that was seen before; 0: none
   * @returns what is to be told of the version of each object; undefined where nothing was missed
   */
  listing(highest: number): ((version: number) => void) | undefined {
    const missed = this.#missed
    if (!missed || highest === 0 || elapsedSince(this.#clock, this.#heard) <= missed.afterMs) return undefined
    let isTold = false
    return (version) => {
      if (isTold || version <= highest) return
      isTold = true
      missed.onGap()
    }
  }
}

const BACKOFF: BackoffLimits = { firstMs: 100, longestMs: 30_000 }
/** Nobody answers, so nobody is burdened, and what happens is seen so much later after an outage. */
const AWAY: BackoffLimits = { firstMs: 100, longestMs: 5_000 }
/** So many failures in a row without an answer are more than a bad connection. */
const AN_OUTAGE = 3
const LONGEST_ASKED_MS = 60_000
/** A watch that lived so long was a good one, even if nothing happened in it. */
const GOOD_LIFE_MS = 10_000
/** One that was broken off had been open if it took longer than opening one may; then it was as good. */
const OPEN_LIFE_MS = 20_000
/** The same version brought the same bad stream so often that only a list helps. */
const BAD_STREAMS = 3

export type RestartDecision = {
  /** What was held as the last version is of no use: list again. */
  relist: boolean
  waitMs: number
}

/** When to list or watch again after one has ended; waits grow until something comes through. */
export class RestartPolicy {
  readonly #random: Random
  #failures = 0
  #awayInARow = 0
  #badStreams = 0

  constructor(random: Random) {
    this.#random = random
  }

  /** An event or a bookmark came. */
  progress(): void {
    this.#failures = 0
    this.#badStreams = 0
  }

  /** The server ended the watch in the ordinary way. @param livedMs how long it was open */
  closed(livedMs: number, progressed: boolean): RestartDecision {
    if (progressed || livedMs >= GOOD_LIFE_MS) {
      this.progress()
      return { relist: false, waitMs: 0 }
    }
    return { relist: false, waitMs: this.#nextWait() }
  }

  /** @param livedMs since the watch was asked for; 0 where it was the list that failed */
  failed(error: unknown, livedMs = 0): RestartDecision {
    if (livedMs >= OPEN_LIFE_MS) this.progress()
    const asked = isApiError(error) ? Math.min(error.retryAfterMs ?? 0, LONGEST_ASKED_MS) : 0
    const away = isAway(error)
    // It is back, and starting: that it was away is no reason to wait any more.
    if (!away && this.#awayInARow >= AN_OUTAGE) this.#failures = 0
    this.#awayInARow = away ? this.#awayInARow + 1 : 0
    return { relist: this.#needsList(error), waitMs: Math.max(asked, this.#nextWait(away)) }
  }

  #needsList(error: unknown): boolean {
    // The version is too old, or the request with it is refused for good.
    if (isApiError(error, 'Gone', 'BadRequest', 'Invalid', 'NotFound')) return true
    // Broken connections and a busy server are no reason; an answer that was 200 and then made no sense is.
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

/** What a reflector is to whoever does not look at its objects. */
export interface Watch {
  /** The first list was read to its end. */
  readonly synced: Promise<void>
  readonly health: WatchHealth
  /** Everything up to this version was handed on; 0 before the end of the first list. */
  readonly version: number
  /** What is known is as of a list that was read to its end, and of what has come since. */
  readonly isListed: boolean
  start(): unknown
  /** The stream that is open may be dead without knowing it. */
  reopen(): void
  /** What was handed on may not be all: everything is listed once more. */
  relist(): void
  /** Resolves when nothing will be handed on any more. */
  stop(): Promise<void>
}
