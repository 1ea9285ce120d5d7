/** Loads in turn, round after round: what the machine does beside them happens to all, and their ratios stay. */
import { medianWithin } from './median-within.ts'
import { type Quantiles, type Spread, spreadOf } from './samples.ts'

/** Quantiles of each round in the unit of the samples. */
export type Rounds = readonly Quantiles[]

/** What one load did to the other. */
export type Beside = { without: Rounds; beside: Rounds }

/** Each round begins with another load than the one before, so that none always comes first. */
export async function inTurn<Name extends string>(
  rounds: number,
  loads: Readonly<Record<Name, () => Promise<Quantiles>>>,
): Promise<Record<Name, Rounds>> {
  const names = Object.keys(loads) as Name[]
  const found = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Quantiles[]>
  for (let round = 0; round < rounds; round += 1) {
    const first = round % names.length
    for (const name of [...names.slice(first), ...names.slice(0, first)]) {
      found[name].push(await loads[name]())
    }
  }
  return found
}

/** Of the rounds. */
export function spreadIn(of: Rounds, quantile: 'p50' | 'p90' | 'p99'): Spread {
  return spreadOf(of.map((one) => one[quantile]))
}

/** Of the median round beside it, by that without. */
export function ratioOf({ without, beside }: Beside, quantile: 'p50' | 'p99'): number {
  return spreadIn(beside, quantile).median / spreadIn(without, quantile).median
}

/** Of each round, beside it by that without, which was measured just before or after. */
export function ratiosOf(found: Beside, quantile: 'p50' | 'p99'): Spread {
  return spreadOf(pairedRatios(found, quantile))
}

/** Between which two of those the median of all rounds that could be is, with 95 % certainty; undefined where rounds are too few to say. */
export function medianOfRatios(found: Beside, quantile: 'p50' | 'p99'): Spread | undefined {
  return medianWithin(pairedRatios(found, quantile))
}

function pairedRatios({ without, beside }: Beside, quantile: 'p50' | 'p99'): number[] {
  return beside.map((one, round) => one[quantile] / (without[round]?.[quantile] ?? one[quantile]))
}
