import { describe, expect, it } from 'vitest'
import { ApiError, type ApiErrorKind } from './client.ts'
import { type FailedAttempt, MAX_ATTEMPTS, retryWait } from './transport.ts'

function wait(kind: ApiErrorKind, failed: Partial<FailedAttempt> = {}): number | undefined {
  return retryWait(
    { error: new ApiError(kind, ''), fate: 'unknown', repeatable: false, attempt: 1, ...failed },
    0,
  )
}

describe('the retry of a call', () => {
  it('repeats a read when the server is unavailable or busy', () => {
    expect(wait('Unavailable', { repeatable: true })).toBe(50)
    expect(wait('TooManyRequests', { repeatable: true, fate: 'not done' })).toBe(50)
  })

  it('never repeats a write whose fate is not known', () => {
    expect(wait('Unavailable')).toBeUndefined()
  })

  it('repeats a write that surely was not done', () => {
    expect(wait('Unavailable', { fate: 'not done' })).toBe(50)
    expect(wait('TooManyRequests', { fate: 'not done' })).toBe(50)
  })

  it('repeats nothing that the server has answered for good', () => {
    for (const kind of [
      'NotFound',
      'Conflict',
      'Gone',
      'Forbidden',
      'Invalid',
      'NoSpace',
      'Quota',
      'TooLarge',
    ] as const) {
      expect(wait(kind, { repeatable: true, fate: 'not done' })).toBeUndefined()
    }
  })

  it('waits twice as long each time, up to half more by chance, and ends', () => {
    const attempts = Array.from({ length: MAX_ATTEMPTS }, (_, index) => index + 1)
    expect(attempts.map((attempt) => wait('Unavailable', { repeatable: true, attempt }))).toEqual([
      50,
      100,
      200,
      400,
      undefined,
    ])
    const failed = {
      error: new ApiError('Unavailable', ''),
      fate: 'unknown',
      repeatable: true,
      attempt: 1,
    } as const
    expect(retryWait(failed, 0.999)).toBeCloseTo(75, 0)
  })

  it('waits at least as long as the server asks', () => {
    const error = new ApiError('TooManyRequests', '', { retryAfterMs: 2_000 })
    expect(retryWait({ error, fate: 'not done', repeatable: false, attempt: 1 }, 0)).toBe(2_000)
  })
})
