/** Two loads in turn, round after round: what the machine does beside them happens to both, and their ratio stays. */
import { type Quantiles, type Spread, spreadOf } from './samples.ts'

/** What one did to the other: quantiles of each round in the unit of the samples, and what came of them. */
export type Beside = {
  without: readonly Quantiles[]
  beside: readonly Quantiles[]
}

export type Loads = {
  without: () => Promise<Quantiles>
  beside: () => Promise<Quantiles>
}

const ORDER = ['without', 'beside'] as const

/** Each round begins with the other load than the one before, so that neither always comes first. */
export async function inTurn(rounds: number, loads: Loads): Promise<Beside> {
  const found = { without: [] as Quantiles[], beside: [] as Quantiles[] }
  for (let round = 0; round < rounds; round += 1) {
    for (const which of round % 2 === 0 ? ORDER : ORDER.toReversed()) found[which].push(await loads[which]())
  }
  return found
}

/** Of the rounds. */
export function spreadIn(of: readonly Quantiles[], quantile: 'p50' | 'p90' | 'p99'): Spread {
  return spreadOf(of.map((one) => one[quantile]))
}

/** Of the median round beside it, by that without. */
export function ratioOf({ without, beside }: Beside, quantile: 'p50' | 'p99'): number {
  return spreadIn(beside, quantile).median / spreadIn(without, quantile).median
}
