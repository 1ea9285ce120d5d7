import { sleep } from '../../lib/sleep.ts'
import type { DeliveryEngine } from './engine.ts'
import type { Delivery } from './queue.ts'
import { isFinal } from './status.ts'

const EVERY_MS = 1000
const AT_A_TIME = 4
/** Limit on deliveries of this replica that one round skips. */
const MAX_SKIPPED = 5000
/** Between the first checks of the same delivery. */
const ROUND_MS = 10 * 60_000

/**
 * Slowly checks the objects of deliveries that other replicas drive. One that has ended or is gone stops being pending here
 * even if no record says so: its replica may have died before it wrote the record.
 */
export class RemoteDeliverySweeper {
  readonly #engine: DeliveryEngine
  #rest: Iterator<Delivery> | undefined
  #roundAt: number

  constructor(engine: DeliveryEngine) {
    this.#engine = engine
    this.#roundAt = engine.ctx.clock.monotonic() + ROUND_MS
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.#engine.ctx.clock, EVERY_MS, signal)
      if (!signal.aborted) await Promise.all(this.#next().map((delivery) => this.#check(delivery)))
    }
  }

  #next(): Delivery[] {
    const now = this.#engine.ctx.clock.monotonic()
    if (!this.#rest && now < this.#roundAt) return []
    if (!this.#rest) this.#roundAt = now + ROUND_MS
    // The iterator follows later additions and skips what was removed.
    this.#rest ??= this.#engine.objectBacked.values()
    const chosen: Delivery[] = []
    for (let seen = 0; seen < MAX_SKIPPED && chosen.length < AT_A_TIME; seen += 1) {
      const { value, done } = this.#rest.next()
      if (done) {
        this.#rest = undefined
        break
      }
      if (value.queue.driver === 'others') chosen.push(value)
    }
    return chosen
  }

  async #check(delivery: Delivery): Promise<void> {
    const { objects, giveUp, log } = this.#engine.ctx
    try {
      const object = await objects.find(delivery)
      if (object && !isFinal(object.status?.state)) return
      // If this replica took it over meanwhile, the takeover has seen its end.
      if (delivery.queue.driver === 'others' && this.#engine.objectBacked.has(delivery))
        this.#engine.leave(delivery)
    } catch (error) {
      if (!giveUp.aborted) log.info('A delivery of another replica could not be looked at', { error })
    }
  }
}
