/** One call of AWS with all its attempts: turns, a deadline, retries by kind of failure, and errors without secrets. */

import type { CloudMetrics } from '../../lib/metrics.ts'
import type { RateLimiter } from '../../lib/rate-limit.ts'
import { type Clock, MAX_TIMER_MS, type Random, sleep, unlessAborted } from '../../lib/time.ts'
import { type CallLimits, CloudError, isCloudError } from '../cloud.ts'
import {
  type ClassifiedError,
  classifyError,
  ERROR_TABLE,
  MAX_ATTEMPTS,
  retryWait,
  sanitizeMessage,
} from './errors.ts'

const DEADLINE_MS = 10_000
const TURN_MS = 10_000

export type Expiry = 'TimedOut' | 'Canceled' | 'Busy'

export class ExpiredError extends Error {
  override readonly name = 'ExpiredError'
  readonly why: Expiry

  constructor(why: Expiry) {
    super(why)
    this.why = why
  }
}

/** The deadline of one call, which is paused while the call waits for its turn. */
export class CallDeadline {
  readonly #clock: Clock
  readonly #limits: CallLimits
  #leftMs: number

  constructor(clock: Clock, limits: CallLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#leftMs = limits.deadlineMs ?? DEADLINE_MS
  }

  get leftMs(): number {
    return this.#leftMs
  }

  /** Runs `run` unless the deadline or the caller comes first: then its signal aborts. @throws ExpiredError */
  async work<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const begin = this.#clock.monotonic()
    try {
      return await this.#within(Math.max(0, this.#leftMs), 'TimedOut', run)
    } finally {
      this.#leftMs -= this.#clock.monotonic() - begin
    }
  }

  /** The same for waiting for a turn, with a limit of its own each time. */
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
    const stop = this.#clock.after(Math.min(ms, MAX_TIMER_MS), () => controller.abort(new ExpiredError(why)))
    try {
      signal.throwIfAborted()
      return await unlessAborted(signal, run(signal))
    } finally {
      stop()
      given?.removeEventListener('abort', cancel)
    }
  }
}

export type AwsDependencies = { clock: Clock; random: Random; metrics: CloudMetrics }

/** @typeParam C a client with its session */
export type Call<C, T> = {
  /** As `ssm:PutParameter`. */
  operation: string
  limits: CallLimits
  turns?: { of: RateLimiter; flow: string } | undefined
  /** Nothing was sent to the service if this fails. Its CloudErrors end the call: they had their own attempts. */
  connect(signal: AbortSignal): Promise<C>
  /** @param lost earlier attempts of this call that may have had their effect */
  send(client: C, signal: AbortSignal, lost: number): Promise<T>
  /** Texts that no message may contain. */
  secrets?: () => readonly string[]
  /** Drops a session that is no longer accepted. Absent if a new one would be the same. */
  forgetSession?: () => void
  /** Whether this error code may show the state before Davit's last write. Not asked if this call itself may be the reason. */
  isStale?: ((code: string) => boolean) | undefined
}

type Failure = ClassifiedError & {
  /** Set if something else failed, such as the session. */
  from?: CloudError
}

const EXPIRY_MESSAGES = {
  TimedOut: 'AWS did not respond in time.',
  Canceled: 'Davit canceled the call to AWS before it completed.',
  Busy: 'Too many calls are queued for this account and region.',
} as const

/** @throws CloudError, `unsure` if an attempt without response may have had its effect */
export function runCall<C, T>(dependencies: AwsDependencies, call: Call<C, T>): Promise<T> {
  return new CallRun(dependencies, call).run()
}

class CallRun<C, T> {
  readonly #dependencies: AwsDependencies
  readonly #call: Call<C, T>
  readonly #time: CallDeadline
  #attempts = 0
  /** Attempts without response that may have had their effect. */
  #lost = 0
  #renewed = false

  constructor(dependencies: AwsDependencies, call: Call<C, T>) {
    this.#dependencies = dependencies
    this.#call = call
    this.#time = new CallDeadline(dependencies.clock, call.limits)
  }

  async run(): Promise<T> {
    for (;;) {
      await this.#takeTurn()
      this.#attempts += 1
      const result = await this.#tryOnce()
      if ('value' in result) return result.value
      const { failure } = result
      if (failure.unsure) this.#lost += 1
      const wait = this.#waitAfter(failure)
      if (wait === undefined || wait >= this.#time.leftMs) throw this.#errorOf(failure)
      this.#dependencies.metrics.cloudRetry(this.#call.operation, labelOf(failure.code))
      await this.#rest(wait)
    }
  }

  async #takeTurn(): Promise<void> {
    const { turns, operation } = this.#call
    if (!turns) return
    const begin = this.#dependencies.clock.monotonic()
    try {
      const isRetry = this.#attempts > 0
      await this.#time.turn((signal) => turns.of.acquire(turns.flow, { signal, isRetry }))
    } catch (error) {
      // Waiting fails only if too many wait.
      throw this.#errorOf(given(error instanceof ExpiredError ? error : new ExpiredError('Busy'), false))
    } finally {
      this.#dependencies.metrics.cloudTurn(operation, this.#secondsSince(begin))
    }
  }

  async #tryOnce(): Promise<{ value: T } | { failure: Failure }> {
    let client: C
    try {
      client = await this.#time.work((signal) => this.#call.connect(signal))
    } catch (error) {
      return { failure: { ...failureOf(error), unsure: false } }
    }
    const begin = this.#dependencies.clock.monotonic()
    try {
      const value = await this.#time.work((signal) => this.#call.send(client, signal, this.#lost))
      this.#count('ok', begin)
      return { value }
    } catch (error) {
      const failure = failureOf(error)
      this.#count(labelOf(failure.code), begin)
      if (failure.again === 'throttled') this.#call.turns?.of.slowDown()
      return { failure }
    }
  }

  #waitAfter(failure: Failure): number | undefined {
    if (this.#attempts >= MAX_ATTEMPTS) return undefined
    const chance = this.#dependencies.random.fraction()
    if (this.#lost === 0 && this.#call.isStale?.(failure.code))
      return retryWait('stale', this.#attempts, chance)
    if (failure.again === undefined) return undefined
    if (failure.again === 'session' && !this.#renew()) return undefined
    return retryWait(failure.again, this.#attempts, chance)
  }

  /** Once: if a new session does not help, another will not either. */
  #renew(): boolean {
    if (this.#renewed || !this.#call.forgetSession) return false
    this.#renewed = true
    this.#call.forgetSession()
    return true
  }

  async #rest(ms: number): Promise<void> {
    try {
      await this.#time.work(async (signal) => {
        await sleep(this.#dependencies.clock, ms, signal)
        signal.throwIfAborted()
      })
    } catch (error) {
      throw this.#errorOf({ ...failureOf(error), unsure: false })
    }
  }

  #count(code: string, begin: number): void {
    this.#dependencies.metrics.cloudCall(this.#call.operation, code, this.#secondsSince(begin))
  }

  #secondsSince(begin: number): number {
    return (this.#dependencies.clock.monotonic() - begin) / 1000
  }

  #errorOf({ remedy, code, words, from }: Failure): CloudError {
    const unsure = this.#lost > 0
    if (from) return new CloudError(remedy, code, words, { operation: from.operation, unsure })
    const secrets = this.#call.secrets?.() ?? []
    // An unknown code is server text like the message.
    const safeCode = ERROR_TABLE.has(code) || sanitizeMessage(code, secrets) === code ? code : 'Unknown'
    return new CloudError(remedy, safeCode, sanitizeMessage(words, secrets), {
      operation: this.#call.operation,
      unsure,
    })
  }
}

function failureOf(error: unknown): Failure {
  if (error instanceof ExpiredError) return given(error, true)
  if (!isCloudError(error)) return classifyError(error)
  const { remedy, code, message } = error
  return { remedy, code, words: message, unsure: error.unsure, from: error }
}

function given({ why }: ExpiredError, unsure: boolean): Failure {
  return { remedy: 'retry', code: why, words: EXPIRY_MESSAGES[why], unsure }
}

/** Bounds the label values, whatever a server sends. */
function labelOf(code: string): string {
  return ERROR_TABLE.has(code) ? code : 'other'
}
