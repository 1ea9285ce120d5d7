import { expect, test } from 'vitest'
import { mayDecideMore } from './plan.ts'

test.each([
  { own: 0, all: 0, want: true, why: 'nothing is unwritten' },
  { own: 4999, all: 49_999, want: true, why: 'there is room for one' },
  { own: 5000, all: 5000, want: false, why: 'its own room is used up' },
  { own: 500, all: 50_000, want: false, why: 'that of all is' },
  { own: 499, all: 50_000, want: true, why: 'what others cannot write keeps nobody else from his' },
])(
  'of $own unwritten verdicts of its own and $all of all, one more: $want, since $why',
  ({ own, all, want }) => {
    expect(mayDecideMore(own, all)).toBe(want)
  },
)
