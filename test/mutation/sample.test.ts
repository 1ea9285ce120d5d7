import { describe, expect, it } from 'vitest'
import { fc } from '../support/fast-check.ts'
import { type Change, cutOf, numberOf, strykerPlugins } from './sample.ts'
import { countsOf, type Report, withinSample } from './scores.ts'

const change = (line: number, fileName = 'src/a.ts'): Change => ({
  fileName,
  mutatorName: 'EqualityOperator',
  replacement: 'a >= b',
  location: { start: { line, column: 3 } },
})

const changes = Array.from({ length: 400 }, (_, index) => change(index + 1))

function drawn(all: readonly Change[], size: number, seed: string): Change[] {
  const cut = cutOf(all, size, seed)
  return all.filter((one) => numberOf(one, seed) <= cut)
}

describe('a sample', () => {
  it('has the size that was asked for, or all changes where there are fewer', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), fc.string(), (size, seed) => {
        expect(drawn(changes, size, seed)).toHaveLength(Math.min(size, changes.length))
      }),
    )
  })

  it('is the same for the same seed, in whatever order the changes come', () => {
    const lines = (sample: Change[]) =>
      sample.map(({ location }) => location.start.line).sort((a, b) => a - b)
    expect(lines(drawn(changes.toReversed(), 50, '1'))).toEqual(lines(drawn(changes, 50, '1')))
    expect(lines(drawn(changes, 50, '2'))).not.toEqual(lines(drawn(changes, 50, '1')))
  })

  it('spreads over all of them', () => {
    const upper = drawn(changes, 200, '1').filter(({ location }) => location.start.line <= 200)
    expect(upper.length).toBeGreaterThan(70)
    expect(upper.length).toBeLessThan(130)
  })

  it('of a part keeps what was drawn there of the whole', () => {
    const others = Array.from({ length: 400 }, (_, index) => change(index + 1, 'src/b.ts'))
    const whole = new Set(drawn([...changes, ...others], 100, '1'))
    const part = drawn(changes, 100, '1')
    expect(changes.filter((one) => whole.has(one) && !part.includes(one))).toEqual([])
  })
})

it('the plugin lets through as many changes as the sample has', async () => {
  process.env.MUTATION_SAMPLE = '20:7'
  const checker = strykerPlugins[0]?.factory()
  const mutants = changes.map((one, id) => ({ ...one, id: String(id) }))
  const [group] = (await checker?.group(mutants)) ?? []
  expect(group).toHaveLength(400)
  const found = Object.values((await checker?.check(mutants)) ?? {}).map(({ status }) => status)
  expect(found.filter((status) => status === 'passed')).toHaveLength(20)
  expect(found.filter((status) => status === 'compileError')).toHaveLength(380)
})

it('counts changes that no test runs in proportion to what was drawn of the others', () => {
  const cut = cutOf(changes, 100, '1')
  const mutants = changes.map((one) => ({
    status: numberOf(one, '1') <= cut ? 'Killed' : 'CompileError',
    mutatorName: one.mutatorName,
    replacement: one.replacement,
    location: { start: { line: one.location.start.line, column: 3 } },
  }))
  const uncovered = Array.from({ length: 400 }, (_, index) => ({
    status: 'NoCoverage',
    mutatorName: 'EqualityOperator',
    replacement: 'a >= b',
    location: { start: { line: index + 1, column: 3 } },
  }))
  const report: Report = { files: { 'src/a.ts': { mutants }, 'src/c.ts': { mutants: uncovered } } }
  const { caught, missed } = countsOf(withinSample(report, '1')).get('') ?? { caught: 0, missed: 0 }
  expect(caught).toBe(100)
  expect(missed).toBeGreaterThan(60)
  expect(missed).toBeLessThan(140)
})
