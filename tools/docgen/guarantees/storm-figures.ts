/** Figures of storms of watches, and what they may be. */
import type { Limit } from './limits.ts'

const CUT = 'cut ten times a second'
const OTHERS = [
  'answered with 410',
  'that say at once that they are too old',
  'answered with 500',
  'answered with 429',
  'that end at once',
  'that say garbage',
]

/** Of one kind of object. */
const listsOf = (trouble: string) => `${trouble}: lists of one kind a minute, most`

export const STORM_LISTS: string[] = [CUT, ...OTHERS].map(listsOf)

/** Of storms that last for five minutes each. */
export function stormLimits(most: { cut: number; others: number }): Readonly<Record<string, Limit>> {
  return {
    'seconds of each': { atLeast: 300 },
    [listsOf(CUT)]: { atMost: most.cut },
    ...Object.fromEntries(OTHERS.map((trouble) => [listsOf(trouble), { atMost: most.others }])),
  }
}
