import { expect, test } from 'vitest'
import { failureText } from './cloud.ts'

test.each([
  { given: { code: 'AccessDenied', message: 'not authorized.' }, want: 'AccessDenied: not authorized' },
  {
    given: { code: 'AccessDenied', operation: 'sts:AssumeRole', message: 'no' },
    want: 'AccessDenied (sts:AssumeRole): no',
  },
  { given: { code: 'TimedOut', operation: '', message: '' }, want: 'TimedOut' },
])('a failure reads $want', ({ given, want }) => {
  expect(failureText({ remedy: 'retry', ...given })).toBe(want)
})
