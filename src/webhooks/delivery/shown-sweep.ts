/**
 * Looks, slowly, at deliveries that an object shows and another replica drives: what has ended there, or is gone, is pending no
 * longer, although nobody says so. Whoever ended it may have died before that was in the log.
 */

import { sleep } from '../../lib/sleep.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryEngine } from './engine.ts'
import { isFinal } from './status.ts'

const EVERY_MS = 1000
const AT_A_TIME = 4
/** Of those that this replica drives so many are passed over at a time. */
const MOST_PASSED_OVER = 5000
/** Between the first looks at the same delivery. */
const ROUND_MS = 10 * 60_000

export class RemoteDeliverySweeper {
  readonly #plane: DeliveryEngine
  #rest: Iterator<Delivery> | undefined
  #roundAt: number

  constructor(plane: DeliveryEngine) {
    this.#plane = plane
    this.#roundAt = plane.ctx.clock.monotonic() + ROUND_MS
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.#plane.ctx.clock, EVERY_MS, signal)
      if (!signal.aborted) await Promise.all(this.#next().map((delivery) => this.#look(delivery)))
    }
  }

  /** A few of those that others drive, oldest first. */
  #next(): Delivery[] {
    const now = this.#plane.ctx.clock.monotonic()
    if (!this.#rest && now < this.#roundAt) return []
    if (!this.#rest) this.#roundAt = now + ROUND_MS
    // What is added meanwhile comes last, and what has left does not come.
    this.#rest ??= this.#plane.objectBacked.values()
    const chosen: Delivery[] = []
    for (let seen = 0; seen < MOST_PASSED_OVER && chosen.length < AT_A_TIME; seen += 1) {
      const { value, done } = this.#rest.next()
      if (done) {
        this.#rest = undefined
        break
      }
      if (value.queue.driver === 'others') chosen.push(value)
    }
    return chosen
  }

  async #look(delivery: Delivery): Promise<void> {
    const { objects, giveUp, log } = this.#plane.ctx
    try {
      const object = await objects.find(delivery)
      if (object && !isFinal(object.status?.state)) return
      // It may have come to this replica meanwhile, which then knows what became of it.
      if (delivery.queue.driver === 'others' && this.#plane.objectBacked.has(delivery))
        this.#plane.leave(delivery)
    } catch (error) {
      if (!giveUp.aborted) log.info('A delivery of another replica could not be looked at', { error })
    }
  }
}
