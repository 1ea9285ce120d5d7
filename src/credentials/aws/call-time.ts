import type { Clock } from '../../lib/ports-clock.ts'
import type { CallLimits } from '../cloud.ts'

const DEADLINE_MS = 10_000
const TURN_MS = 10_000

export type Expiry = 'TimedOut' | 'Canceled' | 'Busy'

/** Why a call or its waiting was given up. */
export class ExpiredError extends Error {
  override readonly name = 'ExpiredError'
  readonly why: Expiry

  constructor(why: Expiry) {
    super(why)
    this.why = why
  }
}

/** The time that one call has: a deadline for its work, which stands still while it waits for its turn. */
export class CallDeadline {
  readonly #clock: Clock
  readonly #limits: CallLimits
  #leftMs: number

  constructor(clock: Clock, limits: CallLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#leftMs = limits.deadlineMs ?? DEADLINE_MS
  }

  /** Milliseconds of work that are left. */
  get leftMs(): number {
    return this.#leftMs
  }

  /** What `run` gives, unless the deadline or the caller comes first; then `ExpiredError`, and the signal of `run` aborts. */
  async work<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const begin = this.#clock.monotonic()
    try {
      return await this.#within(Math.max(0, this.#leftMs), 'TimedOut', run)
    } finally {
      this.#leftMs -= this.#clock.monotonic() - begin
    }
  }

  /** The same for waiting for a turn, which has its own limit each time. */
  turn<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#within(this.#limits.turnMs ?? TURN_MS, 'Busy', run)
  }

  async #within<T>(ms: number, why: Expiry, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const given = this.#limits.signal
    const controller = new AbortController()
    const { signal } = controller
    const cancel = () => controller.abort(new ExpiredError('Canceled'))
    if (given?.aborted) cancel()
    given?.addEventListener('abort', cancel, { once: true })
    const stop = this.#clock.after(Math.min(ms, 2 ** 31 - 1), () => controller.abort(new ExpiredError(why)))
    try {
      signal.throwIfAborted()
      return await unlessAborted(signal, run(signal))
    } finally {
      stop()
      given?.removeEventListener('abort', cancel)
    }
  }
}

/** What `work` gives, or the signal's reason as soon as it aborts, for work that does not listen to it. */
export function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason)
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave))
  })
}
