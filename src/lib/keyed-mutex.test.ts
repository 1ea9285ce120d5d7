import { describe, expect, it } from 'vitest'
import { settle } from '../../test/support/fake-clock.ts'
import { KeyedMutex } from './semaphore.ts'

function held() {
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  return { gate, open }
}

describe('a keyed mutex', () => {
  it('runs one after the other for a key, in order, and other keys meanwhile', async () => {
    const mutex = new KeyedMutex()
    const { gate, open } = held()
    const order: string[] = []
    const first = mutex.run('a', () => gate.then(() => order.push('a1')))
    const second = mutex.run('a', async () => order.push('a2'))
    await mutex.run('b', async () => order.push('b1'))
    expect(order).toEqual(['b1'])
    open()
    await Promise.all([first, second])
    expect(order).toEqual(['b1', 'a1', 'a2'])
  })

  it('gives the result or the error of the work, and goes on after an error', async () => {
    const mutex = new KeyedMutex()
    const failed = mutex.run('a', () => Promise.reject(new Error('no')))
    const next = mutex.run('a', async () => 7)
    await expect(failed).rejects.toThrow('no')
    expect(await next).toBe(7)
    const thrown = mutex.run('a', () => {
      throw new Error('at once')
    })
    await expect(thrown).rejects.toThrow('at once')
    expect(await mutex.run('a', async () => 8)).toBe(8)
  })

  it('keeps nothing of a key that nobody uses', async () => {
    const mutex = new KeyedMutex()
    await Promise.all([1, 2, 3].map((each) => mutex.run(`k${each % 2}`, async () => each)))
    await settle()
    expect(mutex.size).toBe(0)
  })
})
