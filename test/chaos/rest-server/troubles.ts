/** Faults of the REST servers and of their API server while clients use them. */
import type { SeededRandom } from '../seeded-random.ts'

export type Trouble = {
  /** `one`, `all`: kill -9 of one or of every REST server; `outage`: the API server is stopped. */
  kind: 'one' | 'all' | 'outage'
  /** Time after the end of the previous fault. */
  afterMs: number
  /** Time until the restart. */
  downMs: number
}

/** Alternates the kinds, so that a short run has each as well. */
export function planTroubles(
  random: SeededRandom,
  rounds: number,
  between: readonly [number, number],
): Trouble[] {
  return Array.from({ length: rounds }, () => {
    const downMs = Math.round(random.between(0, 2000))
    return (['all', 'outage', 'one'] as const).map((kind) => ({
      kind,
      afterMs: Math.round(random.between(...between)),
      downMs,
    }))
  }).flat()
}
