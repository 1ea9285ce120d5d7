import { expect, test } from 'vitest'
import { rotated, runRounds } from './rounds.ts'

test.for([
  { name: 'all rounds fit', limitSeconds: 100, start: 10, takes: [20, 20, 20], want: 3 },
  { name: 'all rounds just fit', limitSeconds: 70, start: 10, takes: [20, 20, 20], want: 3 },
  { name: 'the last round does not fit', limitSeconds: 69, start: 10, takes: [20, 20, 20], want: 2 },
  {
    name: 'a later round may be as long as the longest',
    limitSeconds: 109,
    start: 0,
    takes: [50, 10, 10],
    want: 2,
  },
  {
    name: 'the first round runs whatever the limit is',
    limitSeconds: 5,
    start: 10,
    takes: [20, 20],
    want: 1,
  },
  { name: 'a single round that takes too long is kept', limitSeconds: 5, start: 0, takes: [200], want: 1 },
])('$name', async ({ limitSeconds, start, takes, want }) => {
  let now = start
  const ran: number[] = []
  const rounds = await runRounds(
    { rounds: takes.length, limitSeconds },
    () => now,
    async (round) => {
      ran.push(round)
      now += takes[round] ?? 0
    },
  )
  expect({ rounds, ran }).toEqual({ rounds: want, ran: takes.slice(0, want).map((_, round) => round) })
})

test.for([
  [0, ['a', 'b', 'c']],
  [1, ['b', 'c', 'a']],
  [2, ['c', 'a', 'b']],
  [3, ['a', 'b', 'c']],
] as const)('round %i begins with another turn than the one before', ([round, want]) => {
  expect(rotated(['a', 'b', 'c'], round)).toEqual(want)
})

test('nothing in turn is nothing', () => {
  expect(rotated([], 2)).toEqual([])
})
