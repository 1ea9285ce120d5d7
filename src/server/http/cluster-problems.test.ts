import { expect, test } from 'vitest'
import { ApiError, type ApiErrorKind } from '../../kube/client.ts'
import { Problem, problemOf } from './problems.ts'

const given = (kind: ApiErrorKind, retryAfterMs?: number) =>
  new ApiError(kind, 'etcd at 10.0.0.1', retryAfterMs === undefined ? {} : { retryAfterMs })

test.each([
  { error: given('NoSpace'), want: { code: 'overloaded', retryAfter: 30 } },
  { error: given('Quota'), want: { code: 'overloaded', retryAfter: 30 } },
  { error: given('TooManyRequests'), want: { code: 'overloaded', retryAfter: 1 } },
  { error: given('TooManyRequests', 2_500), want: { code: 'overloaded', retryAfter: 3 } },
  { error: given('Unavailable'), want: { code: 'unavailable', retryAfter: 1 } },
  { error: given('Unavailable', 4_000), want: { code: 'unavailable', retryAfter: 4 } },
  { error: given('Unauthorized'), want: { code: 'unavailable', retryAfter: 1 } },
  { error: given('Terminating'), want: { code: 'not_found' } },
  { error: given('Forbidden'), want: { code: 'overloaded', retryAfter: 1 } },
])('$error.kind of the cluster is refused as $want.code', ({ error, want }) => {
  const refused = problemOf(error)
  expect(refused).toMatchObject(want)
  expect(refused.cause).toBe(error)
  expect(refused.message).not.toContain('10.0.0.1')
})

test('what was refused already stays as it is, and what only the operator can mend is no refusal', () => {
  const refused = new Problem('endpoint_disabled')
  expect(problemOf(refused)).toBe(refused)
  for (const kind of ['NotFound', 'Invalid', 'Conflict', 'Gone'] as const) {
    expect(problemOf(given(kind)).code).toBe('internal')
  }
  expect(problemOf(new TypeError('no')).code).toBe('internal')
})
