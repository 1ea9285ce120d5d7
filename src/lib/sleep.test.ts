import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { pollUntil, sleep } from './time.ts'

describe('a pause', () => {
  it('lasts as long as asked, however long that is', async () => {
    const clock = new FakeClock()
    let over = false
    void sleep(clock, 2 ** 40).then(() => {
      over = true
    })
    await clock.elapse(2 ** 31 - 2)
    expect(over).toBe(false)
    await clock.elapse(1)
    // Longer than a timer of Node can be is as long as one can be.
    expect(over).toBe(true)
    await sleep(clock, Number.NaN, AbortSignal.abort())
  })

  it('ends when it is aborted, and leaves no timer and no listener behind', async () => {
    const clock = new FakeClock()
    const abort = new AbortController()
    const paused = sleep(clock, 1_000, abort.signal)
    abort.abort()
    await paused
    expect(clock.pending).toBe(0)
    await sleep(clock, 1_000, abort.signal)
    expect(clock.pending).toBe(0)
  })

  it('that ran to its end listens to the signal no more', async () => {
    const clock = new FakeClock()
    const abort = new AbortController()
    let listeners = 0
    const { addEventListener, removeEventListener } = abort.signal
    abort.signal.addEventListener = ((...args: Parameters<typeof addEventListener>) => {
      listeners += 1
      addEventListener.apply(abort.signal, args)
    }) as typeof addEventListener
    abort.signal.removeEventListener = ((...args: Parameters<typeof removeEventListener>) => {
      listeners -= 1
      removeEventListener.apply(abort.signal, args)
    }) as typeof removeEventListener
    const paused = sleep(clock, 5, abort.signal)
    clock.advance(5)
    await paused
    await settle(1)
    expect(listeners).toBe(0)
  })
})

describe('a look until something is so', () => {
  it('resolves at the first look at which it is', async () => {
    const clock = new FakeClock()
    let isSo = false
    let over = false
    void pollUntil(clock, () => isSo).then(() => {
      over = true
    })
    await clock.elapse(1000)
    expect(over).toBe(false)
    isSo = true
    await clock.elapse(20)
    expect(over).toBe(true)
    await pollUntil(clock, () => true)
    expect(clock.pending).toBe(0)
  })

  it('ends when it is aborted', async () => {
    const clock = new FakeClock()
    const abort = new AbortController()
    const looking = pollUntil(clock, () => false, abort.signal)
    await settle()
    abort.abort()
    await looking
    expect(clock.pending).toBe(0)
  })
})
