import { expect, test } from 'vitest'
import { flatten } from './flatten.ts'

test.each([
  { given: { a: { b: 1 }, c: 'd' }, want: ['/a/b = 1', '/c = "d"'] },
  { given: { a: {}, b: [], c: null }, want: ['/a = {}', '/b = []', '/c = null'] },
  { given: { enum: ['x', 'y'] }, want: ['/enum = ["x","y"]'] },
  { given: { '/v1/a': { get: true } }, want: ['/"/v1/a"/get = true'] },
  {
    given: {
      env: [
        { name: 'A', value: '1' },
        { name: 'B', value: '2' },
      ],
    },
    want: [
      '/env/* = ["A","B"]',
      '/env/A/name = "A"',
      '/env/A/value = "1"',
      '/env/B/name = "B"',
      '/env/B/value = "2"',
    ],
  },
  { given: { rules: [{ rule: 'x' }, { rule: 'y' }] }, want: ['/rules/0/rule = "x"', '/rules/1/rule = "y"'] },
])('$given is $want', ({ given, want }) => {
  expect(flatten(given)).toEqual(want)
})
