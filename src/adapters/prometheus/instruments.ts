/** Instruments of one registry, made so that counting can never fail or grow without bound. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

export type Count = (...labels: string[]) => void
export type Observe = (value: number, ...labels: string[]) => void

export type Instruments = {
  /** @param labels names of the labels whose values each call gives, in this order */
  counter(name: string, help: string, labels: readonly string[]): Count
  histogram(name: string, help: string, buckets: readonly number[], label?: string): Observe
  /** A value read at each scrape; with `label`, one for each of its values. */
  gauge(name: string, help: string, read: () => number | Record<string, number>, label?: string): void
}

/** Values of one label that are told apart; the rest are counted as `other`. */
const MAX_LABEL_VALUES = 100
const OTHER = 'other'

export function createInstruments(registry: Registry): Instruments {
  const registers = [registry]
  return {
    counter(name, help, labelNames) {
      const counter = new Counter({ name, help, labelNames, registers })
      const bounded = labelNames.map(boundedLabel)
      return (...values) => counter.labels(...bounded.map((bound, i) => bound(values[i] ?? ''))).inc()
    },
    histogram(name, help, buckets, label) {
      const labelNames = label === undefined ? [] : [label]
      const histogram = new Histogram({ name, help, buckets: [...buckets], labelNames, registers })
      const bounded = labelNames.map(boundedLabel)
      return (value, ...values) => {
        // A clock that was set back makes negative durations.
        const sane = Number.isFinite(value) ? Math.max(0, value) : 0
        histogram.labels(...bounded.map((bound, i) => bound(values[i] ?? ''))).observe(sane)
      }
    },
    gauge(name, help, read, label) {
      new Gauge({
        name,
        help,
        labelNames: label === undefined ? [] : [label],
        registers,
        collect() {
          // Values that are no longer read must not stay at their last number.
          this.reset()
          for (const [value, number] of readings(read)) {
            if (label === undefined) this.set(number)
            else this.set({ [label]: value }, number)
          }
        },
      })
    },
  }
}

/** A gauge that cannot be read shows NaN: one bad reading must not take the whole scrape with it. */
function readings(read: () => number | Record<string, number>): [string, number][] {
  try {
    const value = read()
    if (typeof value === 'number') return [['', value]]
    return Object.entries(value).slice(0, MAX_LABEL_VALUES)
  } catch {
    return [['', Number.NaN]]
  }
}

function boundedLabel(): (value: string) => string {
  const known = new Set<string>()
  return (value) => {
    if (known.has(value)) return value
    if (known.size >= MAX_LABEL_VALUES) return OTHER
    known.add(value)
    return value
  }
}
