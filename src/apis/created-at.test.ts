import { expect, test } from 'vitest'
import { createdAtOf, hasGeneratedName, sortableName } from './ids.ts'

const AT = Date.parse('2026-01-31T12:00:00.540Z')
const named = (ms: number) => sortableName(ms, new Uint8Array(10).fill(3))

test.each([
  {
    why: "Davit's name has the milliseconds",
    given: { name: named(AT), creationTimestamp: '2026-01-31T12:00:00Z' },
    want: '2026-01-31T12:00:00.540Z',
  },
  {
    why: 'a name from another time, as of a copy, tells nothing',
    given: { name: named(AT - 61_000), creationTimestamp: '2026-01-31T12:00:00Z' },
    want: '2026-01-31T12:00:00.000Z',
  },
  {
    why: 'a name that the author chose tells nothing',
    given: { name: 'billing', creationTimestamp: '2026-01-31T12:00:00Z' },
    want: '2026-01-31T12:00:00.000Z',
  },
  {
    why: 'before the API server has answered there is only the name',
    given: { name: named(AT) },
    want: '2026-01-31T12:00:00.540Z',
  },
])('$why', ({ given, want }) => {
  expect(createdAtOf(given)).toBe(want)
})

test.each([
  { why: 'a name of the time at which the object was made', given: AT, want: true },
  { why: 'a name of another time, as of a copy', given: AT - 61_000, want: false },
])('$why is one that Davit made for it: $want', ({ given, want }) => {
  expect(hasGeneratedName({ name: named(given), creationTimestamp: '2026-01-31T12:00:00Z' })).toBe(want)
})

test('a name that the author chose is none of Davit, nor is one before there is an object', () => {
  expect(hasGeneratedName({ name: 'billing', creationTimestamp: '2026-01-31T12:00:00Z' })).toBe(false)
  expect(hasGeneratedName({ name: named(AT) })).toBe(false)
})
