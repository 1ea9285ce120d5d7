import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { ConcurrencyGroups } from './workqueue.ts'

/** `acme/a` is of the lane acme. */
const laneOf = (key: string) => ({ name: key.split('/')[0] ?? '', limit: 2 })

describe('the keys of a lane', () => {
  test('are worked on as many at a time as its limit says, and those of another one beside them', () => {
    const lanes = new ConcurrencyGroups(laneOf)
    expect(['acme/a', 'acme/b', 'acme/c', 'other/a'].map((key) => lanes.enter(key))).toEqual([
      true,
      true,
      false,
      true,
    ])
    expect(lanes.waiting).toBe(1)
  })

  test('that are worked on may enter again, and take no other place', () => {
    const lanes = new ConcurrencyGroups(laneOf)
    expect([lanes.enter('acme/a'), lanes.enter('acme/a'), lanes.enter('acme/b')]).toEqual([true, true, true])
  })

  test('take a place that has become free in the order in which they came', () => {
    const lanes = new ConcurrencyGroups(laneOf)
    for (const key of ['acme/a', 'acme/b', 'acme/c', 'acme/d']) lanes.enter(key)
    expect([lanes.leave('acme/a'), lanes.leave('acme/b'), lanes.leave('acme/c')]).toEqual([
      'acme/c',
      'acme/d',
      undefined,
    ])
    expect(lanes.waiting).toBe(0)
    expect([lanes.enter('acme/e'), lanes.enter('acme/f')]).toEqual([true, false])
  })

  test('that were never worked on free no place', () => {
    const lanes = new ConcurrencyGroups(laneOf)
    for (const key of ['acme/a', 'acme/b', 'acme/c']) lanes.enter(key)
    expect(lanes.leave('acme/x')).toBeUndefined()
    expect(lanes.waiting).toBe(1)
  })

  test('all go where there are no lanes', () => {
    const lanes = new ConcurrencyGroups(undefined)
    expect(['a', 'b', 'c'].every((key) => lanes.enter(key))).toBe(true)
    expect(lanes.leave('a')).toBeUndefined()
  })
})

describe('a key that waits', () => {
  const world = () => {
    let lane = 'acme'
    const lanes = new ConcurrencyGroups(() => ({ name: lane, limit: 1 }))
    lanes.enter('a')
    lanes.enter('b')
    return { lanes, move: () => (lane = 'other') }
  }

  test('goes on waiting where it is, and leaves where its lane is another one', () => {
    const { lanes, move } = world()
    expect([lanes.staysWaiting('b'), lanes.waiting]).toEqual([true, 1])
    move()
    expect([lanes.staysWaiting('b'), lanes.waiting]).toEqual([false, 0])
    expect(lanes.staysWaiting('b')).toBe(false)
    expect(lanes.leave('a')).toBeUndefined()
  })

  test('waits no more when all are cleared', () => {
    const { lanes } = world()
    lanes.clear()
    expect([lanes.waiting, lanes.staysWaiting('b')]).toEqual([0, false])
    expect(lanes.leave('a')).toBeUndefined()
  })
})

/** What is worked on and what waits, as the lanes say it. */
class Course {
  readonly #lanes = new ConcurrencyGroups(laneOf)
  readonly working = new Set<string>()
  readonly waiting = new Set<string>()

  enter(key: string): void {
    if (this.waiting.has(key)) return
    const entered = this.#lanes.enter(key) ? this.working : this.waiting
    entered.add(key)
  }

  leave(key: string): void {
    if (!this.working.delete(key)) return
    const next = this.#lanes.leave(key)
    if (next !== undefined && this.waiting.delete(next)) this.working.add(next)
  }

  check(): void {
    expect(this.#lanes.waiting).toBe(this.waiting.size)
    for (const lane of ['acme', 'other']) {
      const of = (keys: Set<string>) => [...keys].filter((one) => laneOf(one).name === lane).length
      expect(of(this.working)).toBeLessThanOrEqual(2)
      if (of(this.waiting) > 0) expect(of(this.working)).toBe(2)
    }
  }
}

test('over any course no lane has more than its limit, and none waits where there is room', () => {
  const key = fc.constantFrom('acme/a', 'acme/b', 'acme/c', 'acme/d', 'other/a', 'other/b', 'other/c')
  const step = fc.record({ kind: fc.constantFrom('enter', 'leave'), key })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const course = new Course()
      for (const { kind, key } of steps) {
        course[kind](key)
        course.check()
      }
    }),
  )
})
