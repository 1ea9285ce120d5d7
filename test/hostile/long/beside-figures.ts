/** The effect of a hanging endpoint on the others, for test/reports/guarantees.md. */
import { range } from '../../bench/figures.ts'
import {
  type Beside,
  medianOfRatios,
  type Rounds,
  ratioOf,
  ratiosOf,
  spreadIn,
} from '../../bench/measure/in-turn.ts'
import { type Figures, rounded } from '../figures.ts'

export function besideFigures(found: Beside): Figures {
  return {
    'rounds of each': found.without.length,
    'good events beside it, all received': found.beside.reduce((sum, { count }) => sum + count, 0),
    'p99 without it, ms': range(spreadIn(found.without, 'p99'), 1),
    'p99 beside it, ms': range(spreadIn(found.beside, 'p99'), 1),
    'p99 beside it over that without': rounded(ratioOf(found, 'p99')),
    'p50 beside it over that without': rounded(ratioOf(found, 'p50')),
    'p99 beside it over that without, by round': range(ratiosOf(found, 'p99'), 2),
    ...median(found, 'p99 beside it over that without, median of rounds and its 95 %'),
  }
}

/** The ratio to the same load without it in which another process creates its objects: the rest is Davit's share. */
export function besideMadeFigures({ beside, made }: { beside: Rounds; made: Rounds }): Figures {
  const found = { without: made, beside }
  return {
    'p99 where somebody else makes as many objects, ms': range(spreadIn(made, 'p99'), 1),
    'p99 beside it over that': rounded(ratioOf(found, 'p99')),
    'p50 beside it over that': rounded(ratioOf(found, 'p50')),
    'p99 beside it over that, by round': range(ratiosOf(found, 'p99'), 2),
    ...median(found, 'p99 beside it over that, median of rounds and its 95 %'),
  }
}

function median(found: Beside, name: string): Figures {
  const within = medianOfRatios(found, 'p99')
  return within ? { [name]: range(within, 2) } : {}
}
