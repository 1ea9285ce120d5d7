/** Figures in the format of the tables. */
import type { Spread } from './measure/samples.ts'

export function milliseconds(of: { p50: number; p90: number; p99: number; max: number }): string[] {
  return [of.p50, of.p90, of.p99, of.max].map((value) => value.toFixed(1))
}

/** The median, and in parentheses the least and the most. */
export function range(spread: Spread | undefined, digits: number): string {
  if (!spread) return ''
  const [min, median, max] = [spread.min, spread.median, spread.max].map((value) => value.toFixed(digits))
  return min === max ? `${median}` : `${median} (${min}-${max})`
}

export function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0)
}
