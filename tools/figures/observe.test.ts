import { expect, it } from 'vitest'
import { observedLines } from './observe.ts'

const PLAYS = [
  { ms: 10, files: ['src/a.ts'] },
  { ms: 20.4, files: ['src/a.ts', 'src/b.ts'] },
  { ms: 30, files: ['src/a.ts', 'src/b.ts', 'src/c.ts'] },
]
const LINE = '  A flow: 2 (1 to 3 in 3 runs, 20 ms)'

it('prints the median of the plays with their range', () => {
  expect(observedLines({ title: 'A flow', plays: PLAYS }, { list: false })).toEqual([LINE])
})

it('lists the files of that play', () => {
  const want = [LINE, '    src/a.ts', '    src/b.ts']
  expect(observedLines({ title: 'A flow', plays: PLAYS }, { list: true })).toEqual(want)
})
