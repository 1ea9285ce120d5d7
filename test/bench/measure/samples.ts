/** A growing list of numbers without the weight of an array of them. */
export class Samples {
  #values = new Float64Array(1 << 14)
  #size = 0

  get size(): number {
    return this.#size
  }

  add(value: number): void {
    if (this.#size === this.#values.length) {
      const larger = new Float64Array(this.#size * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#size] = value
    this.#size += 1
  }

  /** In the order in which they were added. */
  values(): Float64Array {
    return this.#values.slice(0, this.#size)
  }
}

export type Quantiles = { count: number; p50: number; p90: number; p99: number; max: number }

/** Zeros of nothing. The unit is that of the values. */
export function quantilesOf(values: Float64Array): Quantiles {
  const sorted = values.slice().sort()
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)] ?? 0
  return { count: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: sorted.at(-1) ?? 0 }
}

export type Spread = { min: number; median: number; max: number }

export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? 0
  const lower = sorted.length % 2 === 0 ? (sorted[middle - 1] ?? 0) : upper
  return { min: sorted[0] ?? 0, median: (lower + upper) / 2, max: sorted.at(-1) ?? 0 }
}

/** By the names that the first of the values has. */
export function spreadsOf(values: readonly Record<string, number>[]): Record<string, Spread> {
  const names = Object.keys(values[0] ?? {})
  return Object.fromEntries(names.map((name) => [name, spreadOf(values.map((value) => value[name] ?? 0))]))
}
