import type { Clock } from './ports-clock.ts'
import { AdaptiveTokenBucket } from './token-level.ts'
import { type AcquireOptions, type RateLimiter, RateLimiterFullError } from './turns.ts'

export type FairRateLimits = {
  /** The rate that is begun with and never exceeded. */
  perSecond: number
  /** Turns that may be taken at once after a pause, 1 or more. */
  burst: number
  /** Takers that wait, of all flows and of one. */
  maxWaiting: number
  maxWaitingOfFlow: number
}

type Waiter = { grant(): void }

/** Takers of one flow that wait: those that had a turn already go first. */
type Flow = { again: Set<Waiter>; first: Set<Waiter> }

/**
 * A token bucket whose waiting flows take turns one by one; within a flow the first come goes first, after those whose turn
 * came to nothing. What it is for may complain, then it slows down and recovers by itself. It has a timer only while somebody
 * waits.
 */
export class FairRateLimiter implements RateLimiter {
  readonly #clock: Clock
  readonly #limits: FairRateLimits
  readonly #level: AdaptiveTokenBucket
  /** Flows with waiting takers; the next turn is that of the first. */
  readonly #flows = new Map<string, Flow>()
  #waiting = 0
  #stopTimer: (() => void) | undefined

  constructor(clock: Clock, limits: FairRateLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#level = new AdaptiveTokenBucket(limits, clock.monotonic())
  }

  /** Takers that wait. */
  get waiting(): number {
    return this.#waiting
  }

  /** The rate at this moment. */
  get perSecond(): number {
    return this.#level.perSecond(this.#clock.monotonic())
  }

  /** Whether nobody waits and a new bucket would be the same. */
  get isIdle(): boolean {
    return this.#waiting === 0 && this.#level.isFull(this.#clock.monotonic())
  }

  async acquire(flow: string, { signal, isRetry = false }: AcquireOptions = {}): Promise<void> {
    signal?.throwIfAborted()
    if (this.#waiting === 0 && this.#level.tryTake(this.#clock.monotonic())) return
    if (this.#isFull(flow)) throw new RateLimiterFullError()
    await this.#wait(flow, isRetry, signal)
  }

  slowDown(): void {
    this.#level.slowDown(this.#clock.monotonic())
  }

  #isFull(flow: string): boolean {
    const { maxWaiting, maxWaitingOfFlow } = this.#limits
    return this.#waiting >= maxWaiting || sizeOf(this.#flows.get(flow)) >= maxWaitingOfFlow
  }

  #wait(flow: string, isAgain: boolean, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#remove(flow, waiter)
        reject(signal?.reason)
      }
      const waiter = {
        grant() {
          signal?.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal?.addEventListener('abort', leave, { once: true })
      const of = this.#flows.get(flow) ?? { again: new Set(), first: new Set() }
      this.#flows.set(flow, of)
      of[isAgain ? 'again' : 'first'].add(waiter)
      this.#waiting += 1
      this.#plan()
    })
  }

  #remove(flow: string, waiter: Waiter): void {
    const of = this.#flows.get(flow)
    if (!of?.again.delete(waiter) && !of?.first.delete(waiter)) return
    this.#waiting -= 1
    if (sizeOf(of) === 0) this.#flows.delete(flow)
    if (this.#waiting === 0) this.#stop()
  }

  #plan(): void {
    if (this.#stopTimer !== undefined || this.#waiting === 0) return
    // Node's timers count whole milliseconds; at least one, lest rounding in the level make it fire for nothing.
    const wait = Math.max(1, Math.ceil(this.#level.waitMs(this.#clock.monotonic())))
    this.#stopTimer = this.#clock.after(wait, () => {
      this.#stopTimer = undefined
      this.#serve()
    })
  }

  #stop(): void {
    this.#stopTimer?.()
    this.#stopTimer = undefined
  }

  #serve(): void {
    const now = this.#clock.monotonic()
    while (this.#waiting > 0 && this.#level.tryTake(now)) this.#grantNext()
    this.#plan()
  }

  #grantNext(): void {
    for (const [flow, of] of this.#flows) {
      // Its next taker comes after one of each other flow that waits.
      this.#flows.delete(flow)
      const waiters = of.again.size > 0 ? of.again : of.first
      for (const waiter of waiters) {
        waiters.delete(waiter)
        this.#waiting -= 1
        if (sizeOf(of) > 0) this.#flows.set(flow, of)
        waiter.grant()
        return
      }
    }
  }
}

function sizeOf(flow: Flow | undefined): number {
  return flow ? flow.again.size + flow.first.size : 0
}
