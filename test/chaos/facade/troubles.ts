/** What is done to the facades and to their API server while clients use them. */
import type { SeededRandom } from '../seeded-random.ts'

export type Trouble = {
  /** `one`, `all`: kill -9 of a facade, or of every one; `outage`: the API server stops. */
  kind: 'one' | 'all' | 'outage'
  /** After the end of the one before. */
  afterMs: number
  /** Until it is started again. */
  downMs: number
}

/** Each kind in turn, so that a short run has each as well. */
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
