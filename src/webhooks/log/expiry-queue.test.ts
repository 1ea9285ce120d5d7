import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { type ExpiringItem, ExpiryQueue } from './retention-index.ts'

function ended(completedAt: number): ExpiringItem {
  return { completedAt, isRemoved: false }
}

function take(queue: ExpiryQueue<ExpiringItem>, item: ExpiringItem): void {
  item.isRemoved = true
  queue.noteRemoved()
}

function drain(queue: ExpiryQueue<ExpiringItem>): number[] {
  const times: number[] = []
  for (let item = queue.first(); item; item = queue.first()) {
    times.push(item.completedAt)
    take(queue, item)
  }
  return times
}

test('what ended first comes first, however it was added', () => {
  const queue = new ExpiryQueue<ExpiringItem>()
  for (const time of [5, 3, 9, 1, 7]) queue.add(ended(time))
  expect(drain(queue)).toEqual([1, 3, 5, 7, 9])
})

test('newest first, as a list of objects comes, and far more than is looked through for a place', () => {
  const queue = new ExpiryQueue<ExpiringItem>()
  for (let time = 1000; time > 0; time -= 1) queue.add(ended(time))
  expect(drain(queue)).toEqual(Array.from({ length: 1000 }, (_, index) => index + 1))
})

test('what is taken elsewhere does not come, and does not count', () => {
  const queue = new ExpiryQueue<ExpiringItem>()
  const items = [1, 2, 3].map(ended)
  for (const item of items) queue.add(item)
  for (const item of items.slice(0, 2)) take(queue, item)
  expect(queue.size).toBe(1)
  expect(drain(queue)).toEqual([3])
  expect(queue.first()).toBeUndefined()
})

class Model implements fc.Command<ExpiringItem[], ExpiryQueue<ExpiringItem>> {
  readonly #name: string
  readonly #act: (left: ExpiringItem[], queue: ExpiryQueue<ExpiringItem>) => void

  constructor(name: string, act: (left: ExpiringItem[], queue: ExpiryQueue<ExpiringItem>) => void) {
    this.#name = name
    this.#act = act
  }

  check(): boolean {
    return true
  }

  run(left: ExpiringItem[], queue: ExpiryQueue<ExpiringItem>): void {
    this.#act(left, queue)
    expect(queue.size).toBe(left.length)
  }

  toString(): string {
    return this.#name
  }
}

function adding(time: number): Model {
  return new Model(`add(${time})`, (left, queue) => {
    const item = ended(time)
    left.push(item)
    queue.add(item)
  })
}

function taking(which: number): Model {
  return new Model(`take(${which})`, (left, queue) => {
    const [item] = left.splice(which % Math.max(1, left.length), 1)
    if (item) take(queue, item)
  })
}

function looking(): Model {
  return new Model('first()', (left, queue) => {
    const oldest = left.length > 0 ? Math.min(...left.map((item) => item.completedAt)) : undefined
    expect(queue.first()?.completedAt).toBe(oldest)
  })
}

test('of any additions and takings, the oldest that is left is always in front', () => {
  const steps = fc.commands(
    [fc.nat(500).map(adding), fc.nat(500).map(adding), fc.nat().map(taking), fc.constant(looking())],
    { size: '+2', maxCommands: 600 },
  )
  fc.assert(
    fc.property(steps, (commands) => {
      const left: ExpiringItem[] = []
      const queue = new ExpiryQueue<ExpiringItem>()
      fc.modelRun(() => ({ model: left, real: queue }), commands)
      expect(drain(queue)).toEqual(left.map((item) => item.completedAt).sort((a, b) => a - b))
    }),
  )
})
