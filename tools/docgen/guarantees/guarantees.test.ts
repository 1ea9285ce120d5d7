import { expect, test } from 'vitest'
import { brokenLimits } from './guarantees.ts'

const LIMITS = { lost: { atMost: 0 }, score: { atLeast: 85 } } as const

test.for([
  [{ lost: 0, score: 85 }, []],
  [{ lost: 1, score: 84.9 }, ['runs: lost 1, at most 0', 'runs: score 84.9, at least 85']],
  [{ lost: 'three', score: 90 }, ['runs: lost three, at most 0']],
  [{}, []],
] as const)('%j', ([figures, broken]) => {
  const figure = (key: string) => (figures as Record<string, unknown>)[key]
  expect(brokenLimits('runs', figure, LIMITS)).toEqual(broken)
})
