/** How long after its receipt a delivery has its WebhookDelivery. */
import { type Quantiles, quantilesOf } from './samples.ts'

/** By the number of the event, in microseconds of `instant.ts`. */
type Times = ReadonlyMap<number, number>

/** Parts of 1, of all deliveries. */
export type Delays = {
  seen: number
  inTime: number
  /** Milliseconds, of those that were seen. */
  delay: Quantiles
}

export type ObjectDelays = {
  deliveries: number
  /** Until a watch had the object, and until it had the object with its first attempt. */
  object: Delays
  attempt: Delays
}

/** Each delivery is to have its object within this time. */
export const GOAL_MS = 2000

/** A delivery that had to wait may have its object before the receipt; that is a delay of 0. */
export function delaysOf(receivedAt: Times, seenAt: Times): Delays {
  const delays = [...receivedAt].flatMap(([n, received]) => {
    const seen = seenAt.get(n)
    return seen === undefined ? [] : [Math.max(0, seen - received) / 1000]
  })
  const part = (count: number) => (receivedAt.size === 0 ? 0 : count / receivedAt.size)
  return {
    seen: part(delays.length),
    inTime: part(delays.filter((ms) => ms <= GOAL_MS).length),
    delay: quantilesOf(Float64Array.from(delays)),
  }
}
