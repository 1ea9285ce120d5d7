/** Runs loads in turn, round after round: other work of the machine affects all of them, and their ratios stay. */
import { medianWithin } from './median-within.ts'
import { type Quantiles, type Spread, spreadOf } from './samples.ts'

/** Quantiles of each round in the unit of the samples. */
export type Rounds = readonly Quantiles[]

/** The effect of one load on the other. */
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

/** Ratio of the medians of all rounds with and without it. */
export function ratioOf({ without, beside }: Beside, quantile: 'p50' | 'p99'): number {
  return spreadIn(beside, quantile).median / spreadIn(without, quantile).median
}

/** For each round, the ratio with and without it, which was measured just before or after. */
export function ratiosOf(found: Beside, quantile: 'p50' | 'p99'): Spread {
  return spreadOf(pairedRatios(found, quantile))
}

/** The two values between which the median of all possible rounds is with 95 % confidence; undefined for too few rounds. */
export function medianOfRatios(found: Beside, quantile: 'p50' | 'p99'): Spread | undefined {
  return medianWithin(pairedRatios(found, quantile))
}

function pairedRatios({ without, beside }: Beside, quantile: 'p50' | 'p99'): number[] {
  return beside.map((one, round) => one[quantile] / (without[round]?.[quantile] ?? one[quantile]))
}
