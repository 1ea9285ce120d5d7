import { describe, expect, it } from 'vitest'
import { settle } from '../../test/support/fake-clock.ts'
import { Semaphore } from './semaphore.ts'

function work(slots: Semaphore) {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const begin = (name: string, urgent = false) =>
    slots.run(
      () => {
        begun.push(name)
        const { promise, resolve } = Promise.withResolvers<string>()
        ends.set(name, () => resolve(name))
        return promise
      },
      { urgent },
    )
  const end = async (name: string) => {
    ends.get(name)?.()
    await settle()
  }
  return { begun, begin, end }
}

describe('slots', () => {
  it('let so many work at a time, in the order in which they came', async () => {
    const { begun, begin, end } = work(new Semaphore({ atOnce: 2 }))
    const results = ['a', 'b', 'c', 'd'].map((name) => begin(name))
    expect(begun).toEqual(['a', 'b'])
    await end('b')
    expect(begun).toEqual(['a', 'b', 'c'])
    for (const name of ['a', 'c', 'd']) await end(name)
    expect(await Promise.all(results)).toEqual(['a', 'b', 'c', 'd'])
  })

  it('let urgent work go before what waits', async () => {
    const { begun, begin, end } = work(new Semaphore({ atOnce: 1 }))
    for (const name of ['a', 'b']) void begin(name)
    void begin('c', true)
    await end('a')
    await end('c')
    expect(begun).toEqual(['a', 'c', 'b'])
  })

  it('are free again when work fails', async () => {
    const slots = new Semaphore({ atOnce: 1 })
    const failed = slots.run(() => Promise.reject(new Error('no')))
    const next = slots.run(() => Promise.resolve('done'))
    await expect(failed).rejects.toThrow('no')
    expect(await next).toBe('done')
    expect(await slots.run(() => Promise.resolve('again'))).toBe('again')
  })
})
