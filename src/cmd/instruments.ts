/** Instruments of one registry, made so that counting can never fail or grow without bound. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { GaugeRegistry, GaugeRow } from '../lib/metrics.ts'

export type Count = (...labels: string[]) => void
export type Observe = (value: number, ...labels: string[]) => void

export type Instruments = GaugeRegistry & {
  /**
   * @param labels names of the labels whose values each call gives, in this order
   * @param known values of its one label that are shown from the start: Prometheus sees no increase in the first sample of a series
   */
  counter(name: string, help: string, labels: readonly string[], known?: readonly string[]): Count
  histogram(name: string, help: string, buckets: readonly number[], label?: string): Observe
}

/** Values of one label that are told apart; the rest are counted as `other`. */
const MAX_LABEL_VALUES = 100
const OTHER = 'other'

export function createInstruments(registry: Registry): Instruments {
  const registers = [registry]
  return {
    counter(name, help, labelNames, known = []) {
      const counter = new Counter({ name, help, labelNames, registers })
      for (const value of known) counter.labels(value).inc(0)
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
    gaugeRows(name, help, labels, read) {
      new Gauge({
        name,
        help,
        labelNames: [...labels],
        registers,
        collect() {
          this.reset()
          for (const { labels: values, value } of rowsOf(read)) this.labels(...values).set(value)
        },
      })
    },
  }
}

function rowsOf(read: () => readonly GaugeRow[]): readonly GaugeRow[] {
  try {
    return read().slice(0, MAX_LABEL_VALUES)
  } catch {
    return []
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
