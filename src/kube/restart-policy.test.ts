import { describe, expect, it } from 'vitest'
import { fixedRandom } from '../../test/support/fake-clock.ts'
import { ApiError } from './client.ts'
import { RestartPolicy } from './watch-restarts.ts'

const policy = () => new RestartPolicy(fixedRandom(0))
const down = new ApiError('Unavailable', 'connection refused')
const garbage = new ApiError('Unavailable', 'invalid watch event', { status: 200 })

describe('the restart of a watch', () => {
  const table = [
    { given: 'a version that is too old', error: new ApiError('Gone', '', { status: 410 }), relist: true },
    { given: 'a refused request', error: new ApiError('BadRequest', '', { status: 400 }), relist: true },
    { given: 'a broken connection', error: down, relist: false },
    { given: 'a busy server', error: new ApiError('TooManyRequests', '', { status: 429 }), relist: false },
    { given: 'a missing right', error: new ApiError('Forbidden', '', { status: 403 }), relist: false },
    { given: 'an error of another sort', error: new Error('bug'), relist: false },
  ]
  it.each(table)('after $given lists again: $relist', ({ error, relist }) => {
    expect(policy().failed(error).relist).toBe(relist)
  })

  it.each([
    { given: 'nobody answers', error: down, longest: 2500 },
    { given: 'the server is busy', error: new ApiError('Unavailable', '', { status: 503 }), longest: 15_000 },
    { given: 'the version is too old', error: new ApiError('Gone', '', { status: 410 }), longest: 15_000 },
  ])('comes later after each failure where $given, and soon again after progress', ({ error, longest }) => {
    const restart = policy()
    const waits = Array.from({ length: 12 }, () => restart.failed(error).waitMs)
    expect(waits.slice(0, 4)).toEqual([50, 100, 200, 400])
    expect(Math.max(...waits)).toBe(longest)
    restart.progress()
    expect(restart.failed(error).waitMs).toBe(50)
  })

  it('comes soon after a watch was broken off that had been open for long, though nothing came', () => {
    const restart = policy()
    for (let attempt = 0; attempt < 10; attempt += 1) restart.failed(down)
    expect(restart.failed(down, 30_000).waitMs).toBe(50)
    expect(restart.failed(down, 10_000).waitMs).toBe(100)
  })

  it('comes soon while a server that was away is starting, and later if that goes on', () => {
    const restart = policy()
    const starting = new ApiError('Unavailable', 'please try again', { status: 503 })
    const gone = new ApiError('Gone', '', { status: 200 })
    for (let attempt = 0; attempt < 10; attempt += 1) restart.failed(down)
    expect([starting, starting, gone].map((error) => restart.failed(error))).toEqual([
      { relist: false, waitMs: 50 },
      { relist: false, waitMs: 100 },
      { relist: true, waitMs: 200 },
    ])
  })

  it('comes later and later where answers and broken connections take turns', () => {
    const restart = policy()
    const busy = new ApiError('Unavailable', '', { status: 503 })
    const waits = Array.from({ length: 20 }, (_, n) => restart.failed(n % 2 === 0 ? down : busy).waitMs)
    expect(waits.slice(-2)).toEqual([2500, 15_000])
  })

  it('waits as long as the server asks, but not for ever', () => {
    const asking = (retryAfterMs: number) =>
      policy().failed(new ApiError('TooManyRequests', '', { retryAfterMs })).waitMs
    expect(asking(7_000)).toBe(7_000)
    expect(asking(86_400_000)).toBe(60_000)
  })

  it('is immediate when a good watch ended in the ordinary way', () => {
    expect(policy().closed(1, true)).toEqual({ relist: false, waitMs: 0 })
    expect(policy().closed(10_000, false)).toEqual({ relist: false, waitMs: 0 })
  })

  it('waits when the server closes each watch at once', () => {
    const restart = policy()
    expect(restart.closed(1, false).waitMs).toBe(50)
    expect(restart.closed(1, false).waitMs).toBe(100)
  })

  it('lists again once the same version has brought nonsense three times, and not for broken connections', () => {
    const restart = policy()
    expect([1, 2, 3, 4].map(() => restart.failed(garbage).relist)).toEqual([false, false, true, false])
    expect(Array.from({ length: 20 }, () => restart.failed(down).relist)).not.toContain(true)
  })
})
