import { describe, expect, it } from 'vitest'
import { settle } from '../../test/support/fake-clock.ts'
import { Semaphore, type Urgency } from './semaphore.ts'

function work(slots: Semaphore) {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const begin = (name: string, urgency: Urgency = 'normal', group = '') =>
    slots.run(
      () => {
        begun.push(name)
        const { promise, resolve } = Promise.withResolvers<string>()
        ends.set(name, () => resolve(name))
        return promise
      },
      { urgency, group },
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
    void begin('c', 'urgent')
    await end('a')
    await end('c')
    expect(begun).toEqual(['a', 'c', 'b'])
  })

  it.each([
    { given: ['canWait', 'normal', 'urgent'] },
    { given: ['normal', 'canWait', 'urgent', 'canWait', 'normal'] },
    { given: ['canWait', 'canWait', 'normal', 'normal'] },
    { given: ['urgent', 'canWait', 'urgent'] },
  ] satisfies { given: Urgency[] }[])('go to the most urgent first: $given', async ({ given }) => {
    const { begun, begin, end } = work(new Semaphore({ atOnce: 1 }))
    void begin('first')
    given.forEach((urgency, number) => void begin(`${urgency} ${number}`, urgency, `group ${number % 2}`))
    for (let number = 0; number <= given.length; number += 1) await end(begun[number] ?? '')
    const order = ['urgent', 'normal', 'canWait']
    const want = given.toSorted((a, b) => order.indexOf(a) - order.indexOf(b))
    expect(begun.slice(1).map((name) => name.split(' ')[0])).toEqual(want)
  })

  it('go to work that can wait one time in eight, however much else there is', async () => {
    const { begun, begin, end } = work(new Semaphore({ atOnce: 1 }))
    void begin('first')
    for (const name of ['late 1', 'late 2']) void begin(name, 'canWait')
    for (let number = 0; number < 20; number += 1) {
      void begin(`now ${number}`, number % 2 === 0 ? 'normal' : 'urgent')
      await end(begun[number] ?? '')
    }
    expect(begun.filter((name) => name.startsWith('late'))).toEqual(['late 1', 'late 2'])
    expect(begun.indexOf('late 2') - begun.indexOf('late 1')).toBe(8)
  })

  it('are left to a group that uses none, if they are reserved, and each group keeps its order', async () => {
    const { begun, begin, end } = work(new Semaphore({ atOnce: 10, reserves: true }))
    for (let number = 0; number < 12; number += 1) void begin(`a${number}`, 'normal', 'a')
    expect(begun).toHaveLength(9)
    for (const name of ['b0', 'b1']) void begin(name, 'normal', 'b')
    expect(begun).toHaveLength(10)
    await end('b0')
    expect(begun.slice(9)).toEqual(['b0', 'b1'])
    await end('a0')
    expect(begun).toHaveLength(11)
    await end('b1')
    await end('a1')
    expect(begun.slice(11)).toEqual(['a9', 'a10'])
  })

  it('are free again when work fails', async () => {
    const slots = new Semaphore({ atOnce: 1 })
    const failed = slots.run(() => Promise.reject(new Error('no')))
    const next = slots.run(() => Promise.resolve('done'))
    await expect(failed).rejects.toThrow('no')
    expect(await next).toBe('done')
    expect(await slots.run(() => Promise.resolve('again'))).toBe('again')
  })

  it('reject one of the group with the most when too many wait', async () => {
    const full = () => new Error('full')
    const slots = new Semaphore({ atOnce: 1, waiting: { max: 3, full } })
    const end = Promise.withResolvers<void>()
    const ran: string[] = []
    const run = (name: string) =>
      slots.run(
        async () => {
          ran.push(name)
          await end.promise
        },
        { group: name.charAt(0) },
      )
    const first = ['a1', 'a2', 'a3'].map(run)
    const displaced = run('a4')
    const other = run('b1')
    await expect(displaced).rejects.toThrow('full')
    await expect(run('a5')).rejects.toThrow('full')
    end.resolve()
    await Promise.all([...first, other])
    expect(ran).toEqual(['a1', 'a2', 'b1', 'a3'])
  })
})
