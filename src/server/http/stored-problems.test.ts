import { expect, test } from 'vitest'
import { ApiError, type ApiErrorKind, UnreadableError } from '../../kube/client.ts'
import { KeysDamagedError } from '../../webhooks/endpoints/signing-keys.ts'
import { OverloadedError } from '../../webhooks/log/group-commit.ts'
import type { EventLog } from '../../webhooks/log/store.ts'
import { problemBody, problemOf, withLogProblems } from './problems.ts'

const failing = (error: unknown) => async () => {
  throw error
}

const caught = (work: Promise<unknown>) => work.catch((error: unknown) => error)

test('what the cluster says comes out as a refusal, and what is no refusal as it was', () => {
  expect(problemOf(new ApiError('Unavailable', 'away'))).toMatchObject({ code: 'unavailable' })
  expect(problemOf(new TypeError('broken'))).toMatchObject({ code: 'internal' })
})

test('too many appends that wait are too much to do', () => {
  expect(problemOf(new OverloadedError())).toMatchObject({
    code: 'overloaded',
    retryAfter: 1,
  })
})

test('an endpoint that cannot be used is refused without the names of what it is stored in', () => {
  for (const error of [
    new UnreadableError('WebhookEndpoint', 'acme/a'),
    new KeysDamagedError('system/acme.a'),
  ]) {
    const refused = problemOf(error)
    expect(refused).toMatchObject({ code: 'unreadable', cause: error })
    const { detail } = problemBody(refused, 'req_1')
    expect(detail).toMatch(/cannot be read|is not valid in this version of Davit/)
    expect(detail).not.toMatch(/acme|system/)
  }
})

test.each<[ApiErrorKind]>([['Quota'], ['Forbidden'], ['Terminating'], ['NotFound']])(
  'a log that takes nothing puts publishers off: %s',
  async (kind) => {
    const log: EventLog = { append: failing(new ApiError(kind, 'exceeded quota: davit-system')) }
    const error = problemOf(await caught(withLogProblems(log).append([])))
    expect(error).toMatchObject({ code: 'overloaded', retryAfter: 30 })
    expect(error.message).not.toContain('davit-system')
  },
)

test('what may pass by itself is left to others', async () => {
  const away = new ApiError('Unavailable', 'away')
  expect(await caught(withLogProblems({ append: failing(away) }).append([]))).toBe(away)
})
