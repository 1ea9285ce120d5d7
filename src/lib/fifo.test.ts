import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { Fifo } from './fair-queue.ts'

type Queue = Pick<Fifo<number>, 'push' | 'shift' | 'clear' | 'size'>

/** @returns what it answered */
type Step = (queue: Queue) => (number | undefined)[]

const times = (count: number, run: (i: number) => void) => {
  for (let i = 0; i < count; i += 1) run(i)
  return []
}

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.integer().map(
    (value): Step =>
      (queue) =>
        times(1, () => queue.push(value)),
  ),
  fc.integer({ min: 1, max: 1500 }).map(
    (count): Step =>
      (queue) =>
        times(count, (i) => queue.push(i)),
  ),
  fc.integer({ min: 1, max: 2500 }).map(
    (count): Step =>
      (queue) =>
        Array.from({ length: count }, () => queue.shift()),
  ),
  fc.constant<Step>((queue) => times(1, () => queue.clear())),
)

describe('a queue', () => {
  it('gives back what came first, like an array', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const queue = new Fifo<number>()
        const items: number[] = []
        const model: Queue = {
          push: (item) => void items.push(item),
          shift: () => items.shift(),
          clear: () => void items.splice(0),
          get size() {
            return items.length
          },
        }
        for (const take of steps) {
          expect(take(queue)).toEqual(take(model))
          expect(queue.size).toBe(model.size)
        }
      }),
    )
  })

  it('holds nothing that was taken out', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const queue = new Fifo<object>()
    const held = pushOne(queue)
    queue.push({ next: true })
    queue.shift()
    // A target stays for the turn in which its reference was made.
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
    expect(held.deref()).toBeUndefined()
    expect(queue.size).toBe(1)
  })
})

function pushOne(queue: Fifo<object>): WeakRef<object> {
  const item = { large: 'x'.repeat(1000) }
  queue.push(item)
  return new WeakRef(item)
}
