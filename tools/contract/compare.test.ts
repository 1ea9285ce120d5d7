import { expect, test } from 'vitest'
import { compare, describeDifferences } from './compare.ts'

const BASELINE = new Map([
  ['metrics.txt', ['/davit_a/type = "gauge"', '/davit_b/type = "counter"']],
  ['problems.txt', ['/invalid/status = 422']],
])

function against(lines: readonly string[]) {
  return compare(BASELINE, new Map([...BASELINE, ['metrics.txt', lines]]))
}

test.each([
  {
    what: 'an added line',
    given: ['/davit_a/type = "gauge"', '/davit_b/type = "counter"', '/davit_c/type = "gauge"'],
    want: ['contract/metrics.txt: lines removed: 0, added: 1', '  + /davit_c/type = "gauge"'],
  },
  {
    what: 'a removed line',
    given: ['/davit_b/type = "counter"'],
    want: ['contract/metrics.txt: lines removed: 1, added: 0', '  - /davit_a/type = "gauge"'],
  },
  {
    what: 'a changed line',
    given: ['/davit_a/type = "counter"', '/davit_b/type = "counter"'],
    want: [
      'contract/metrics.txt: lines removed: 1, added: 1',
      '  - /davit_a/type = "gauge"',
      '  + /davit_a/type = "counter"',
    ],
  },
  {
    what: 'a line that is there twice',
    given: ['/davit_a/type = "gauge"', '/davit_b/type = "counter"', '/davit_b/type = "counter"'],
    want: ['contract/metrics.txt: lines removed: 0, added: 1', '  + /davit_b/type = "counter"'],
  },
])('$what is reported', ({ given, want }) => {
  expect(describeDifferences(against(given))).toEqual(want)
})

test('the same lines in another order are no difference', () => {
  expect(against(['/davit_b/type = "counter"', '/davit_a/type = "gauge"'])).toEqual([])
})

test('a part that is new, and one that is gone, are reported', () => {
  const now = new Map([
    ['metrics.txt', BASELINE.get('metrics.txt') ?? []],
    ['names.txt', ['davit.dev/retain']],
  ])
  expect(describeDifferences(compare(BASELINE, now))).toEqual([
    'contract/names.txt: lines removed: 0, added: 1',
    '  + davit.dev/retain',
    'contract/problems.txt: lines removed: 1, added: 0',
    '  - /invalid/status = 422',
  ])
})

test('a long difference is cut off', () => {
  const given = Array.from({ length: 10 }, (_, index) => `/davit_${index}/type = "gauge"`)
  const report = describeDifferences(against(given), 3)
  expect(report).toHaveLength(5)
  expect(report.at(-1)).toBe('  and 9 more')
})

test('a part with many changes leaves room for the others', () => {
  const many = Array.from({ length: 10 }, (_, index) => `/davit_${index}/type = "gauge"`)
  const now = new Map([...BASELINE, ['metrics.txt', many] as const, ['chart/a.txt', ['/a = 1']] as const])
  expect(describeDifferences(compare(BASELINE, now), 4)).toEqual([
    'contract/metrics.txt: lines removed: 2, added: 10',
    expect.any(String),
    expect.any(String),
    '  and 10 more',
    'contract/chart/a.txt: lines removed: 0, added: 1',
    '  + /a = 1',
  ])
})
