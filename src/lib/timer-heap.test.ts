import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { TimerHeap } from './timers.ts'

/** The same by looking at all entries each time. */
class PlainModel {
  readonly due = new Map<string, number>()

  nextDue(): number | undefined {
    return this.due.size === 0 ? undefined : Math.min(...this.due.values())
  }
}

type Step =
  | { do: 'push'; key: string; due: number }
  | { do: 'remove'; key: string }
  | { do: 'pop'; now: number }

const key = fc.integer({ min: 0, max: 60 }).map((number) => `k${number}`)
const time = fc.oneof(fc.integer({ min: 0, max: 200 }), fc.constant(2 ** 52), fc.constant(-5))
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('push' as const), key, due: time }) },
  fc.record({ do: fc.constant('remove' as const), key }),
  fc.record({ do: fc.constant('pop' as const), now: time }),
)

function take(heap: TimerHeap<string>, model: PlainModel, step: Step): void {
  if (step.do === 'push') {
    heap.push(step.key, step.due)
    model.due.set(step.key, step.due)
  } else if (step.do === 'remove') {
    expect(heap.remove(step.key)).toBe(model.due.delete(step.key))
  } else {
    const earliest = model.nextDue()
    const popped = heap.popDue(step.now)
    if (earliest === undefined || earliest > step.now) expect(popped).toBeUndefined()
    else expect(model.due.get(popped ?? '')).toBe(earliest)
    model.due.delete(popped ?? '')
  }
}

describe('a timer heap', () => {
  it('does what looking at all entries each time would do', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const heap = new TimerHeap<string>()
        const model = new PlainModel()
        for (const each of steps) {
          take(heap, model, each)
          expect([heap.size, heap.nextDue()]).toEqual([model.due.size, model.nextDue()])
        }
        for (const [known, due] of model.due) expect(heap.dueOf(known)).toBe(due)
      }),
    )
  })

  it('gives back thousands of entries in the order of their due times', () => {
    const heap = new TimerHeap<number>()
    for (let index = 0; index < 5_000; index += 1) heap.push(index, (index * 7_919) % 10_007)
    const order: number[] = []
    for (let next = heap.nextDue(); next !== undefined; next = heap.nextDue()) {
      order.push(next)
      heap.popDue(next)
    }
    expect(order).toEqual([...order].sort((a, b) => a - b))
    expect(order).toHaveLength(5_000)
  })

  it('takes objects as keys by identity', () => {
    const heap = new TimerHeap<object>()
    const [one, other] = [{}, {}]
    heap.push(one, 2)
    heap.push(other, 1)
    expect(heap.popDue(5)).toBe(other)
    expect(heap.popDue(5)).toBe(one)
    expect(heap.popDue(5)).toBeUndefined()
  })
})
