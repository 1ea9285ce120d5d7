import { expect, test } from 'vitest'
import { ApiError, type ApiErrorKind, UnreadableError } from '../../kube/client.ts'
import { KeysDamagedError } from '../../webhooks/endpoints/signing-keys.ts'
import { OverloadedError } from '../../webhooks/log/group-commit.ts'
import type { EventLog } from '../../webhooks/log/store.ts'
import { RefusedError, withLogRefusals, withRefusals } from './problems.ts'

const failing = (error: unknown) => async () => {
  throw error
}

const caught = (work: Promise<unknown>) => work.catch((error: unknown) => error)

test('what the cluster says comes out as a refusal, and what is no refusal as it was', async () => {
  expect(await withRefusals(async () => 'done')).toBe('done')
  const away = await caught(withRefusals(failing(new ApiError('Unavailable', 'away'))))
  expect(away).toBeInstanceOf(RefusedError)
  expect(away).toMatchObject({ code: 'unavailable' })
  const broken = new TypeError('broken')
  expect(await caught(withRefusals(failing(broken)))).toBe(broken)
})

test('too many appends that wait are too much to do', async () => {
  expect(await caught(withRefusals(failing(new OverloadedError())))).toMatchObject({
    code: 'overloaded',
    retryAfter: 1,
  })
})

test('an endpoint that cannot be used is refused without the names of what it is stored in', async () => {
  for (const error of [
    new UnreadableError('WebhookEndpoint', 'acme/a'),
    new KeysDamagedError('system/acme.a'),
  ]) {
    const refused = await caught(withRefusals(failing(error)))
    expect(refused).toMatchObject({ code: 'unreadable', cause: error })
    expect((refused as RefusedError).detail).not.toMatch(/acme|system/)
  }
})

test.each<[ApiErrorKind]>([['Quota'], ['Forbidden'], ['Terminating'], ['NotFound']])(
  'a log that takes nothing puts publishers off: %s',
  async (kind) => {
    const log: EventLog = { append: failing(new ApiError(kind, 'exceeded quota: davit-system')) }
    const error = await caught(withRefusals(() => withLogRefusals(log).append([])))
    expect(error).toMatchObject({ code: 'overloaded', retryAfter: 30 })
    expect((error as Error).message).not.toContain('davit-system')
  },
)

test('what may pass by itself is left to others', async () => {
  const away = new ApiError('Unavailable', 'away')
  expect(await caught(withLogRefusals({ append: failing(away) }).append([]))).toBe(away)
})
