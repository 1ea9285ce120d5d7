import { Semaphore } from '../../lib/semaphore.ts'
import { type Clock, pollUntil, sleep } from '../../lib/time.ts'
import { type BegunAttempts, CAREFUL_FROM_ENDS, MAX_BEGUN } from '../log/crash-series.ts'
import type { ShardClaims } from '../log/fencing.ts'
import type { OutcomeRecorder } from '../log/store.ts'
import type { Delivery } from './endpoint-queue.ts'

/**
 * Attempts that may end this process. The owner of a shard that has lost several owners in a row records each attempt before it makes it,
 * and tries those alone that were in progress when such an owner ended. README.md explains why.
 */

/** Suspects wait for so long after a takeover, so that everything else goes first. */
const SUSPECTS_AFTER_MS = 5000
/**
 * The next suspect waits no longer than this. One that has been in progress for so long has not ended this process by the usual means, and
 * may take its time, like one whose endpoint is disabled.
 */
const LONGEST_TURN_MS = 2000

export type CarefulAttemptsOptions = {
  claims: Pick<ShardClaims, 'endsOf'>
  begun: Pick<BegunAttempts, 'at'>
  outcomes: Pick<OutcomeRecorder, 'record'>
  clock: Clock
  giveUp: AbortSignal
  /** An attempt is over after so long. */
  attemptMs: number
}

/** @property start queues it */
type Suspect = { delivery: Delivery; start: () => void }

export class CarefulAttempts {
  readonly #options: CarefulAttemptsOptions
  readonly #places = new Semaphore({ atOnce: MAX_BEGUN, reserves: true })
  #suspects: Suspect[] = []
  #isTrying = false

  constructor(options: CarefulAttemptsOptions) {
    this.#options = options
  }

  /**
   * Call before an attempt. If it may end this process, that it is made is durable when this resolves.
   * @returns to be called when its outcome is stored @throws Error when the process ends before
   */
  async begin(delivery: Delivery): Promise<() => void> {
    const { queue, isSuspect = false } = delivery
    if (!isSuspect && this.#options.claims.endsOf(queue.shard) < CAREFUL_FROM_ENDS) return () => undefined
    const isOver = Promise.withResolvers<void>()
    await this.#place(queue.endpoint.namespace, isOver.promise)
    try {
      await this.record(delivery, { isAlone: isSuspect })
    } catch (error) {
      isOver.resolve()
      throw error
    }
    return () => isOver.resolve()
  }

  /** @param isAlone no other attempt is made that may have ended an owner */
  async record(delivery: Delivery, { isAlone }: { isAlone: boolean }): Promise<void> {
    const { attempts } = delivery
    const record = { kind: 'begin', position: delivery, attempts, isAlone } as const
    // The attempt waits for it, so an endpoint would fall behind at the usual pace of outcomes.
    await this.#options.outcomes.record(record, { isUrgent: true })
  }

  /** Resolves when there is a place, which is taken until `over`. */
  async #place(organization: string, over: Promise<void>): Promise<void> {
    const isTaken = Promise.withResolvers<void>()
    const held = async () => {
      isTaken.resolve()
      await over
    }
    void this.#places.run(held, { group: organization })
    await isTaken.promise
  }

  /** Tries a suspect when it is its turn. @param start queues it */
  hold(delivery: Delivery, start: () => void): void {
    if (this.#suspects.some((one) => one.delivery === delivery)) return
    this.#suspects.push({ delivery, start })
    if (!this.#isTrying) void this.#tryAll()
  }

  async #tryAll(): Promise<void> {
    const { clock, giveUp } = this.#options
    this.#isTrying = true
    await sleep(clock, SUSPECTS_AFTER_MS, giveUp)
    for (;;) {
      const suspect = this.#suspects.shift()
      if (!suspect || giveUp.aborted) break
      await this.#try(suspect)
    }
    this.#suspects = []
    this.#isTrying = false
  }

  async #try({ delivery, start }: Suspect): Promise<void> {
    const { begun, clock, giveUp, attemptMs } = this.#options
    const wasAlone = begun.at(delivery, delivery.attempts)?.isAlone === true
    // An earlier owner tried others after it. If this process ends before its attempt is over, that was the cause.
    const until = clock.monotonic() + LONGEST_TURN_MS + (wasAlone ? attemptMs : 0)
    const isOver = () => delivery.left || !delivery.isSuspect || delivery.queue.driver !== 'us'
    if (isOver()) return
    start()
    await pollUntil(clock, () => isOver() || clock.monotonic() >= until, giveUp)
  }
}
