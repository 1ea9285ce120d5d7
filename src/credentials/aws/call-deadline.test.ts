import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { CallDeadline, ExpiredError } from './calls.ts'

const never = () => new Promise<never>(() => undefined)

async function whyOf(work: Promise<unknown>): Promise<string> {
  const error = await work.catch((reason: unknown) => reason)
  return error instanceof ExpiredError ? error.why : 'no ExpiredError'
}

describe('the time of a call', () => {
  it('ends at the deadline of its work, whether the work listens or not', async () => {
    const clock = new FakeClock()
    const time = new CallDeadline(clock, { deadlineMs: 1000 })
    const why = whyOf(time.work(never))
    await clock.elapse(1000)
    expect(await why).toBe('TimedOut')
    expect(time.leftMs).toBe(0)
  })

  it('is one for all its work', async () => {
    const clock = new FakeClock()
    const time = new CallDeadline(clock, { deadlineMs: 1000 })
    const first = time.work(() => new Promise<void>((resolve) => clock.after(700, resolve)))
    await clock.elapse(700)
    await first
    const why = whyOf(time.work(never))
    await clock.elapse(299)
    expect(clock.pending).toBe(1)
    await clock.elapse(1)
    expect(await why).toBe('TimedOut')
  })

  it('stands still while it waits for a turn, which has a limit of its own', async () => {
    const clock = new FakeClock()
    const time = new CallDeadline(clock, { deadlineMs: 1000, turnMs: 5000 })
    const why = whyOf(time.turn(never))
    await clock.elapse(5000)
    expect(await why).toBe('Busy')
    expect(time.leftMs).toBe(1000)
  })

  it('tells the work when it is over, and leaves no timer', async () => {
    const clock = new FakeClock()
    const leaving = new AbortController()
    const time = new CallDeadline(clock, { signal: leaving.signal })
    let told: AbortSignal | undefined
    const why = whyOf(
      time.work((signal) => {
        told = signal
        return never()
      }),
    )
    leaving.abort()
    await settle()
    expect([await why, told?.aborted, clock.pending]).toEqual(['Canceled', true, 0])
    expect(await time.work(() => Promise.resolve(1)).catch((error: ExpiredError) => error.why)).toBe(
      'Canceled',
    )
  })

  it('passes on what the work ends with', async () => {
    const time = new CallDeadline(new FakeClock(), {})
    expect(await time.work(() => Promise.resolve('done'))).toBe('done')
    await expect(time.turn(() => Promise.reject(new Error('own')))).rejects.toThrow('own')
  })
})
