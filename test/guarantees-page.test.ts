/** test/reports/guarantees.md is what the results say, and names tests and figures that there are, and that were run. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { brokenLimits, GUARANTEES, LIMITS } from '../tools/docgen/guarantees/guarantees.ts'
import { casesRun, figuresOf, valueAt } from '../tools/docgen/guarantees/results.ts'
import { guaranteesPage } from '../tools/docgen/outputs/guarantees-page.ts'
import { ROWS, titlesOf } from './hostile/named-tests.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

function read(path: string): string | undefined {
  return existsSync(ROOT + path) ? readFileSync(ROOT + path, 'utf8') : undefined
}

test('the page is what the results say', () => {
  const [page] = guaranteesPage.files(read)
  expect(page?.content).toBe(read(page?.path ?? ''))
})

test('names days, and no commits: history may be rewritten', () => {
  const text = guaranteesPage.files(read)[0]?.content ?? ''
  expect(text.match(/\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,40}\b/g) ?? []).toEqual([])
  expect(text).not.toMatch(/\d\d:\d\d/)
})

test('has the failures F1 to F46 in their order', () => {
  expect(GUARANTEES.failures.map(({ name }) => name.split(':')[0])).toEqual(
    Array.from({ length: 46 }, (_, i) => `F${i + 1}`),
  )
})

test.for(Object.keys(LIMITS))('figures of %s are what they may be', (of) => {
  const found = figuresOf(of, read)
  const limits = Object.keys(LIMITS[of] ?? {})
  expect(limits.filter((key) => valueAt(found?.figures, key) === undefined)).toEqual([])
  expect(brokenLimits(of, (key) => valueAt(found?.figures, key))).toEqual([])
})

describe.for(ROWS)('$name', ({ tests, figures = [] }) => {
  test('has tests that exist', () => {
    expect(tests.length).toBeGreaterThan(0)
    expect(tests.filter((one) => (titlesOf(one, read) ?? []).length === 0)).toEqual([])
  })

  test('has no case that failed, and one that passed where it was run', () => {
    const run = casesRun(read)
    const wrong = tests.filter((one) => run[one] && (run[one].failed > 0 || run[one].passed === 0))
    expect(wrong).toEqual([])
  })

  // A test that was just added to a row is counted by the next run of all; that says the page itself.
  test('was run', () => {
    const run = casesRun(read)
    expect(tests.some((one) => (run[one]?.passed ?? 0) > 0)).toBe(true)
  })

  test('has its figures', () => {
    const missing = figures.flatMap(({ of, keys }) => {
      const found = figuresOf(of, read)
      return keys
        .filter((key) => found === undefined || valueAt(found.figures, key) === undefined)
        .map((key) => `${of}: ${key}`)
    })
    expect(missing).toEqual([])
  })
})
