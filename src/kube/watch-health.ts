import { type BackoffLimits, backoffMs } from '../lib/backoff.ts'
import type { Random } from '../lib/ports-clock.ts'
import { isApiError } from './client.ts'

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
