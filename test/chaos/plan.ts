/** Plans the faults in one life of a controller. */
import type { SeededRandom } from './seeded-random.ts'

export type Life = {
  /**
   * `start`: during its start, when it reads back the previous life's state; times count from its start, otherwise from when it
   * is ready.
   */
  killed: 'start' | 'load'
  killAfterMs: number
  /** A fault of the store and its time, from the same moment. */
  trouble?: { kind: 'compaction' | 'outage'; afterMs: number; outageMs: number }
}

export type PlanOptions = {
  kills: number
  /** Share of lives with a compaction of etcd, and with an outage of the API server. */
  compactions: number
  outages: number
}

export function planLives(random: SeededRandom, options: PlanOptions): Life[] {
  return Array.from({ length: options.kills }, () => planLife(random, options))
}

function planLife(random: SeededRandom, options: PlanOptions): Life {
  const early = random.chance(0.25)
  const killAfterMs = Math.round(early ? random.between(50, 1500) : random.between(50, 3500))
  const afterMs = Math.round(random.between(0, killAfterMs))
  const outageMs = Math.round(random.between(300, 4000))
  const kind = random.fraction()
  const life: Life = { killed: early ? 'start' : 'load', killAfterMs }
  if (kind < options.outages) return { ...life, trouble: { kind: 'outage', afterMs, outageMs } }
  if (kind < options.outages + options.compactions)
    return { ...life, trouble: { kind: 'compaction', afterMs, outageMs: 0 } }
  return life
}
