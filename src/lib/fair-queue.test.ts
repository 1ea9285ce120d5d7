import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { FairQueue, remainingShare, SharedCapacity } from './fair-queue.ts'

function drain<T>(queue: FairQueue<T>): T[] {
  const taken: T[] = []
  for (let item = queue.take(); item !== undefined; item = queue.take()) taken.push(item)
  return taken
}

describe('a fair queue', () => {
  test('takes turns by group, and keeps the order within each', () => {
    const queue = new FairQueue<string>()
    for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) queue.push(item.charAt(0), item)
    expect(queue.size).toBe(6)
    expect(drain(queue)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
    expect(queue.size).toBe(0)
  })

  test('passes over a group that may not take, which keeps its place', () => {
    const queue = new FairQueue<string>()
    for (const item of ['a1', 'a2', 'b1', 'b2']) queue.push(item.charAt(0), item)
    expect(queue.take((group) => group !== 'a')).toBe('b1')
    expect(queue.take()).toBe('a1')
    expect(queue.take(() => false)).toBeUndefined()
    expect(drain(queue)).toEqual(['b2', 'a2'])
  })

  test('gives up the newest item of the group that has the most, unless the other would then have as many', () => {
    const queue = new FairQueue<string>()
    for (const item of ['a1', 'b1', 'b2', 'b3', 'c1', 'c2']) queue.push(item.charAt(0), item)
    expect(queue.takeFromLargest('c')).toBeUndefined()
    expect(queue.takeFromLargest('a')).toBe('b3')
    expect(queue.takeFromLargest('a')).toBeUndefined()
    expect(queue.takeFromLargest('d')).toBe('b2')
    expect(queue.takeFromLargest('d')).toBe('c2')
    expect(queue.takeFromLargest('d')).toBeUndefined()
    expect(queue.size).toBe(3)
    expect(drain(queue)).toEqual(['a1', 'b1', 'c1'])
  })

  test('serves the group that was served longest ago, whatever comes in between', () => {
    const step = fc.option(fc.constantFrom('a', 'b', 'c', 'd'))
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new FairQueue<string>()
        const model = new Model()
        for (const pushed of steps) {
          if (pushed === null) expect(queue.take()).toBe(model.take())
          else {
            queue.push(pushed, pushed)
            model.push(pushed)
          }
        }
      }),
    )
  })
})

/** Groups with the items that they wait with, in the order of the next turns. */
class Model {
  #waiting: { group: string; items: number }[] = []

  push(pushed: string): void {
    const held = this.#waiting.find(({ group }) => group === pushed)
    if (held) held.items += 1
    else this.#waiting.push({ group: pushed, items: 1 })
  }

  take(): string | undefined {
    const [next, ...rest] = this.#waiting
    if (!next) return undefined
    this.#waiting = next.items > 1 ? [...rest, { ...next, items: next.items - 1 }] : rest
    return next.group
  }
}

const limits = { organization: 2000, all: 10_000 }

describe('room for new deliveries', () => {
  test.each([
    { pending: { organization: 0, all: 0 }, room: 2000 },
    { pending: { organization: 1999, all: 1999 }, room: 1 },
    { pending: { organization: 2000, all: 2000 }, room: 0 },
    { pending: { organization: 2500, all: 2500 }, room: 0 },
    { pending: { organization: 10, all: 8500 }, room: 500 },
    // Of the reserve of 1000, each gets up to 50.
    { pending: { organization: 0, all: 9000 }, room: 50 },
    { pending: { organization: 49, all: 9500 }, room: 1 },
    { pending: { organization: 50, all: 9500 }, room: 0 },
    { pending: { organization: 0, all: 9990 }, room: 10 },
    { pending: { organization: 0, all: 10_000 }, room: 0 },
  ])('is $room with $pending', ({ pending, room }) => {
    expect(remainingShare(pending, limits)).toBe(room)
  })

  test('is never more than either limit leaves, and an idle organization has some until all is used', () => {
    const count = fc.integer({ min: 1, max: 300_000 })
    fc.assert(
      fc.property(count, count, count, count, (organization, others, forOne, forAll) => {
        const limits = { organization: forOne, all: forAll }
        const all = organization + others
        const room = remainingShare({ organization, all }, limits)
        expect(room).toBeGreaterThanOrEqual(0)
        if (room > 0) expect(organization + room).toBeLessThanOrEqual(forOne)
        if (room > 0) expect(all + room).toBeLessThanOrEqual(forAll)
        const idle = remainingShare({ organization: 0, all: others }, limits)
        if (forAll >= 10 && others < forAll) expect(idle).toBeGreaterThan(0)
      }),
    )
  })
})

describe('a capacity', () => {
  test('is counted by organization, and keeps some for those that use little', () => {
    const capacity = new SharedCapacity(100)
    capacity.take('greedy', 90)
    expect(capacity.hasRoom('greedy')).toBe(false)
    expect(capacity.hasRoom('modest')).toBe(true)
    capacity.take('modest', 1)
    expect(capacity.hasRoom('modest')).toBe(false)
    capacity.give('greedy', 50)
    expect(capacity.hasRoom('greedy')).toBe(true)
    expect(capacity.used).toBe(41)
  })

  test('may have a limit for each organization', () => {
    const capacity = new SharedCapacity(100, 20)
    capacity.take('greedy', 19)
    expect(capacity.hasRoom('greedy')).toBe(true)
    capacity.take('greedy', 1)
    expect(capacity.hasRoom('greedy')).toBe(false)
    expect(capacity.hasRoom('modest')).toBe(true)
  })

  test.each([{ given: [100] }, { given: [1000] }, { given: [90, 5] }, { given: [5000, 1, 1] }])(
    'keeps some for others although $given were taken without asking',
    ({ given }) => {
      const capacity = new SharedCapacity(100)
      for (const [number, amount] of given.entries()) capacity.take(`greedy-${number}`, amount)
      expect([capacity.hasRoom('greedy-0'), capacity.hasRoom('modest')]).toEqual([false, true])
      for (const [number, amount] of given.entries()) capacity.give(`greedy-${number}`, amount)
      expect([capacity.used, capacity.hasRoom('greedy-0')]).toEqual([0, true])
    },
  )
})
