import type { ObjectMeta } from '../apis/meta.ts'
import type { Logger } from '../lib/log.ts'
import type { RuntimeMetrics } from '../lib/metrics.ts'
import type { Clock, Random } from '../lib/time.ts'
import { isApiError } from './client.ts'
import { ObjectGoneError } from './mutation-cache.ts'
import { type ConcurrencyGroupOf, WorkQueue } from './workqueue.ts'

/** The loop of a controller: workers take keys from a work queue and reconcile them, one pass per key at a time. */

/** What remains after a pass: nothing until a change, or another pass after a while. */
export type ReconcileResult = { afterMs: number | undefined }

export interface Reconciler {
  /**
   * Makes the world match one object, whatever happened before; a key is never in two passes at once. An exception
   * means a retry after a growing wait.
   * @param signal aborts when the pass takes too long or the process ends
   */
  reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult>
}

export function noRequeue(): ReconcileResult {
  return { afterMs: undefined }
}

export function requeueAfter(ms: number): ReconcileResult {
  return { afterMs: ms }
}

export type ReconcileLoopOptions = {
  /** Name in logs and metrics. */
  name: string
  reconciler: Reconciler
  /** Concurrent passes. Default 4. */
  concurrency?: number
  /** Which keys share a limit within that. Absent: none do. */
  concurrencyGroupOf?: ConcurrencyGroupOf | undefined
  /** A pass that takes longer is aborted. Default 60 s. */
  deadlineMs?: number
  clock: Clock
  random: Random
  log: Logger
  metrics: RuntimeMetrics
}

type Outcome = Parameters<RuntimeMetrics['reconciled']>[1]

const CONCURRENCY = 4
const DEADLINE_MS = 60_000

/** Workers that reconcile keys until `stop`. */
export class ReconcileLoop {
  readonly #options: ReconcileLoopOptions
  readonly #queue: WorkQueue
  readonly #passes = new Set<AbortController>()
  #stopping = false
  #workers: Promise<void>[] = []

  constructor(options: ReconcileLoopOptions) {
    this.#options = options
    const { clock, random, log, concurrencyGroupOf } = options
    options.metrics.controllerAdded(options.name)
    this.#queue = new WorkQueue({ clock, random, log, concurrencyGroupOf })
  }

  /** Keys that wait for a worker. */
  get depth(): number {
    return this.#queue.depth
  }

  /** Keys may be added before the start. */
  start(): this {
    const workers = this.#options.concurrency ?? CONCURRENCY
    this.#workers = Array.from({ length: workers }, () => this.#work())
    return this
  }

  add(key: string): void {
    this.#queue.add(key)
  }

  /** Starts no more passes, aborts running ones, and resolves when they have ended. */
  async stop(): Promise<void> {
    const closed = this.#queue.shutDown()
    this.#stopping = true
    for (const pass of this.#passes) pass.abort(new Error('the process is shutting down'))
    await Promise.all([closed, ...this.#workers])
  }

  async #work(): Promise<void> {
    for (;;) {
      const key = await this.#queue.get()
      if (key === undefined) return
      const started = this.#options.clock.monotonic()
      const outcome = await this.#pass(key)
      const seconds = (this.#options.clock.monotonic() - started) / 1000
      this.#options.metrics.reconciled(this.#options.name, outcome, seconds)
      this.#queue.done(key)
    }
  }

  async #pass(key: string): Promise<Outcome> {
    const { clock, reconciler } = this.#options
    const deadlineMs = this.#options.deadlineMs ?? DEADLINE_MS
    const pass = new AbortController()
    this.#passes.add(pass)
    const stopTimer = clock.after(deadlineMs, () => {
      // The key stays in process until the pass has really ended: two at once would be worse than one that hangs.
      this.#options.log.warn(
        'reconcile_timed_out',
        'reconciliation took too long; aborting it',
        this.#about(key),
      )
      pass.abort(new Error(`the reconciliation took longer than ${deadlineMs} ms`))
    })
    try {
      const { afterMs } = await reconciler.reconcile(key, pass.signal)
      this.#queue.forget(key)
      if (afterMs === undefined) return 'done'
      this.#queue.addAfter(key, afterMs)
      return 'requeued'
    } catch (error) {
      return this.#failed(key, error)
    } finally {
      stopTimer()
      this.#passes.delete(pass)
    }
  }

  #failed(key: string, error: unknown): Outcome {
    const fields = { ...this.#about(key), error }
    // An interruption by the end of the process is not worth a log line.
    if (!this.#stopping)
      this.#options.log.error('reconcile_failed', 'reconciliation failed; retrying', fields)
    this.#queue.addRateLimited(key)
    return 'error'
  }

  #about(key: string): Record<string, unknown> {
    return { controller: this.#options.name, key }
  }
}

/** Passes that can be interrupted and restarted, when their object was deleted or changed. */
export class InterruptiblePasses {
  readonly #running = new Map<string, AbortController>()

  /** The result of `pass`; an immediate requeue if it was interrupted. @param signal ends it for good */
  async run(
    key: string,
    signal: AbortSignal,
    pass: (signal: AbortSignal) => Promise<ReconcileResult>,
  ): Promise<ReconcileResult> {
    const interruption = new AbortController()
    this.#running.set(key, interruption)
    try {
      return await pass(AbortSignal.any([signal, interruption.signal]))
    } catch (error) {
      if (!interruption.signal.aborted || signal.aborted) throw error
      return requeueAfter(0)
    } finally {
      this.#running.delete(key)
    }
  }

  interrupt(key: string): void {
    this.#running.get(key)?.abort(new Error('the object was changed or deleted'))
  }
}

/**
 * The two loops of a reconcile pass over one object. A pass gathers facts, asks a pure plan for the next action and applies it, until
 * the plan has come to a conclusion; and it starts over with the newest version of the object if another writer changed it meanwhile.
 */

/** What one step leads to: the state for the next step, or the conclusion of the pass. */
export type StepResult<State, Conclusion> = { state: State } | { conclusion: Conclusion }

/** Takes steps until one concludes. @throws Error after `maxSteps`: a plan that goes in circles must not occupy a worker */
export async function runPlan<State, Conclusion>(
  start: State,
  maxSteps: number,
  step: (state: State) => Promise<StepResult<State, Conclusion>>,
): Promise<Conclusion> {
  let state = start
  for (let taken = 0; taken < maxSteps; taken += 1) {
    const result = await step(state)
    if ('conclusion' in result) return result.conclusion
    state = result.state
  }
  throw new Error(`no conclusion after ${maxSteps} steps`)
}

/** Conflicts in a row; each time the object was just read, so more of them are not a lagging watch. */
const MAX_CONFLICTS = 3

/**
 * Runs `pass` on the object, and again on what `read` returns after each conflict.
 * @param cached as the watch has it, possibly outdated
 * @returns undefined if the object is gone @throws what `pass` and `read` throw otherwise
 */
export async function retryOnConflict<T extends { metadata: ObjectMeta }, R>(
  cached: T | undefined,
  read: (object: T) => Promise<T>,
  pass: (object: T) => Promise<R>,
): Promise<R | undefined> {
  let object = cached
  for (let conflicts = 0; object; conflicts += 1) {
    const current: T = object
    try {
      return await pass(current)
    } catch (error) {
      if (error instanceof ObjectGoneError) return undefined
      if (!isApiError(error, 'Conflict') || conflicts === MAX_CONFLICTS) throw error
    }
    object = await unlessGone(() => read(current))
  }
  return undefined
}

/** The result of `read`; undefined if the object is gone. */
export async function unlessGone<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof ObjectGoneError) return undefined
    throw error
  }
}
