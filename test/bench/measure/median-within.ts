import { type Spread, spreadOf } from './samples.ts'

const BEYOND = 0.025

/**
 * A median, and between which two of the values the median of what they were drawn from lies with 95 % certainty: whatever that is
 * like, so many of them are below it as heads of so many coins. Undefined for fewer than six.
 */
export function medianWithin(values: readonly number[]): Spread | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  const left = leftOut(sorted.length)
  if (left === 0) return undefined
  const { median } = spreadOf(sorted)
  return { min: sorted[left - 1] ?? 0, median, max: sorted[sorted.length - left] ?? 0 }
}

/** The place from either end that is beyond the median with too little chance; 0 where there is none. */
function leftOut(count: number): number {
  let chance = 0.5 ** count
  let sum = 0
  let place = 0
  while (sum + chance <= BEYOND) {
    sum += chance
    place += 1
    chance *= (count - place + 1) / place
  }
  return place
}
