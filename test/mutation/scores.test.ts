import { expect, it } from 'vitest'
import { countsOf, figuresOf, readReport, scoreOf, survivorsOf } from './scores.ts'

const mutant = (status: string, line = 1) => ({
  status,
  mutatorName: 'EqualityOperator',
  replacement: 'a >=\n  b',
  location: { start: { line, column: 1 } },
})

const REPORT = readReport(
  JSON.stringify({
    files: {
      'src/domain/a.ts': { mutants: [mutant('Killed'), mutant('Timeout'), mutant('Survived', 7)] },
      'src/domain/b.ts': { mutants: [mutant('NoCoverage', 9), mutant('Ignored')] },
      'src/runtime/shards/c.ts': { mutants: [mutant('RuntimeError')] },
      'src/runtime/d.ts': { mutants: [mutant('Ignored')] },
    },
  }),
)

it('counts by folder what tests have caught and missed, and leaves out what was not tried', () => {
  expect(Object.fromEntries(countsOf(REPORT))).toEqual({
    '': { caught: 3, missed: 2 },
    'src/domain': { caught: 2, missed: 2 },
    'src/runtime/shards': { caught: 1, missed: 0 },
    'src/runtime': { caught: 0, missed: 0 },
  })
})

it('keeps percents of those folders in which something was changed', () => {
  expect(figuresOf(REPORT)).toEqual({
    changes: 5,
    'caught, %': 60,
    'src/domain: changes': 4,
    'src/domain: caught, %': 50,
    'src/runtime/shards: changes': 1,
    'src/runtime/shards: caught, %': 100,
  })
  expect(scoreOf({ caught: 2, missed: 1 })).toBe(66.7)
})

it('names each change that was missed, on one line', () => {
  expect(survivorsOf(REPORT)).toEqual([
    { file: 'src/domain/a.ts', line: 7, what: 'EqualityOperator: a >= b', status: 'Survived' },
    { file: 'src/domain/b.ts', line: 9, what: 'EqualityOperator: a >= b', status: 'NoCoverage' },
  ])
})
