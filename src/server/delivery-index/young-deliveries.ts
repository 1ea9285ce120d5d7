import { nameOfMessage, timeOfName } from '../../apis/ids.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import { sleep } from '../../lib/sleep.ts'
import type { LoggedEndpoint } from './ports-delivery-index.ts'

/** Clocks of processes may differ by so much, and watches be so late. */
const YOUNG_MS = 5000
const WAITED_MS = 1000
const LOOKED_EVERY_MS = 25
/** Whoever invents ids of this moment keeps no more requests waiting than these. */
const MAX_WAITING = 100

export type DeliveryWaiterOptions = {
  clock: Clock
  /** Whether the log has been seen to hold the delivery. */
  isKnown(endpoint: LoggedEndpoint, deliveryId: string): boolean
}

/**
 * Waits for deliveries that another process may have accepted a moment ago, as their ids tell: whoever was told the id
 * there may ask here before the log was seen.
 */
export class DeliveryWaiter {
  readonly #options: DeliveryWaiterOptions
  #waiting = 0

  constructor(options: DeliveryWaiterOptions) {
    this.#options = options
  }

  /** @returns whether it has come; at once where that is not to be expected */
  async appears(endpoint: LoggedEndpoint, deliveryId: string): Promise<boolean> {
    const { clock, isKnown } = this.#options
    const age = clock.now() - timeOfName(nameOfMessage(deliveryId) ?? '')
    const isYoung = age > -YOUNG_MS && age < YOUNG_MS
    if (!isYoung || this.#waiting === MAX_WAITING) return false
    this.#waiting += 1
    try {
      const until = clock.monotonic() + WAITED_MS
      while (clock.monotonic() < until) {
        await sleep(clock, LOOKED_EVERY_MS)
        if (isKnown(endpoint, deliveryId)) return true
      }
      return false
    } finally {
      this.#waiting -= 1
    }
  }
}
