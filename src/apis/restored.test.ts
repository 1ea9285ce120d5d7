import { expect, test } from 'vitest'
import { isRestored } from './meta.ts'

const WRITTEN = Date.parse('2026-01-31T12:00:00.000Z')
const MINUTE = 60_000

test.each([
  {
    given: -1000,
    want: false,
    why: 'the API server has whole seconds, so it may seem made before it was written',
  },
  { given: 0, want: false, why: 'made at once' },
  { given: 5 * MINUTE, want: false, why: 'made after exactly five minutes' },
  { given: 5 * MINUTE + 1, want: true, why: 'made later than that' },
  { given: 30 * 24 * 60 * MINUTE, want: true, why: 'made a month later' },
  { given: -60 * MINUTE, want: false, why: 'the clocks differ the other way round' },
])('$why: restored is $want', ({ given, want }) => {
  expect(isRestored(WRITTEN, WRITTEN + given)).toBe(want)
})
