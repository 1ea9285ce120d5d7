import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { SortedLines } from './endpoint-logs.ts'
import { LineTable, NONE, STATES } from './line-table.ts'

function idOf(number: number): Uint32Array {
  return new Uint32Array([0, 0, number >>> 16, number & 0xffff])
}

/** Lines beside a plain sorted list of their numbers. */
class Model {
  readonly table = new LineTable(20_000)
  readonly sorted = new SortedLines(this.table)
  readonly held = new Map<number, number>()

  add(number: number, type = 0): void {
    if (this.held.has(number)) return
    const line = this.table.allocate(idOf(number), { log: 0, type, bytes: 0, sharesBody: false })
    this.sorted.add(line)
    this.held.set(number, line)
  }

  remove(number: number): void {
    const line = this.held.get(number)
    if (line === undefined) return
    this.sorted.remove(line)
    this.table.release(line)
    this.held.delete(number)
  }

  /** Numbers of the lines from the newest on, which is the smallest. */
  walk(after?: number): number[] {
    const lines = this.sorted.newest(after === undefined ? undefined : idOf(after))
    return [...lines].map((line) => this.numberOf(line))
  }

  numberOf(line: number): number {
    const id = new Uint32Array(4)
    this.table.copyId(line, id)
    return (id[2] ?? 0) * 0x1_0000 + (id[3] ?? 0)
  }

  check(after: number): void {
    const wanted = [...this.held.keys()].sort((a, b) => a - b)
    expect(this.sorted.size).toBe(wanted.length)
    expect(this.walk()).toEqual(wanted)
    expect(this.walk(after)).toEqual(wanted.filter((number) => number > after))
    const oldest: number[] = []
    this.sorted.walkOldest((line) => oldest.push(this.numberOf(line)) > 0)
    expect(oldest).toEqual(wanted.toReversed())
    expect(this.sorted.find(idOf(after))).toBe(this.held.get(after) ?? NONE)
  }
}

describe('lines in order', () => {
  it('are those of a plain sorted list, whatever is added and removed', () => {
    const step = fc.record({ number: fc.nat({ max: 60 }), add: fc.boolean() })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), fc.nat({ max: 60 }), (steps, after) => {
        const model = new Model()
        for (const { number, add } of steps) add ? model.add(number) : model.remove(number)
        model.check(after)
      }),
    )
  })

  it.each([
    { how: 'newest last', order: (at: number) => 5000 - at },
    { how: 'newest first', order: (at: number) => at },
    { how: 'from both ends', order: (at: number) => (at % 2 === 0 ? at : 10_000 - at) },
    { how: 'all over', order: (at: number) => (at * 7919) % 5003 },
  ])('hold in blocks what comes $how', ({ order }) => {
    const model = new Model()
    for (let at = 0; at < 5000; at += 1) model.add(order(at))
    model.check(order(2500))
    for (let at = 0; at < 5000; at += 3) model.remove(order(at))
    model.check(order(2500))
    model.check(order(2499))
  })

  it('take little more than four bytes each where they come newest last, as they do', () => {
    const model = new Model()
    for (let at = 0; at < 10_000; at += 1) model.add(20_000 - at)
    expect(model.sorted.bytes).toBeLessThan(4.3 * 10_000)
  })

  it('are looked through for a rare state once, and from then on where one may be', () => {
    const model = new Model()
    for (let at = 0; at < 5000; at += 1) model.add(at)
    const exhaust = (number: number) => {
      const line = model.held.get(number) ?? NONE
      model.table.setStatus(line, { state: 'exhausted', attempts: 8, at: 0 })
      model.sorted.stateChanged(line)
    }
    exhaust(2000)
    const look = (state: number) => {
      let looked = 0
      const found: number[] = []
      for (const line of model.sorted.newest(undefined, { state })) {
        looked += 1
        if (model.table.stateNumber(line) === state) found.push(model.numberOf(line))
      }
      return { looked, found }
    }
    const [exhausted, canceled] = [STATES.indexOf('exhausted'), STATES.indexOf('canceled')]
    expect(look(exhausted).found).toEqual([2000])
    expect(look(exhausted).looked).toBeLessThanOrEqual(512)
    expect(look(canceled)).toEqual({ looked: 0, found: [] })
    exhaust(4000)
    expect(look(exhausted).found).toEqual([2000, 4000])
    model.remove(2000)
    expect(look(exhausted).found).toEqual([4000])
    const before = look(exhausted).looked
    expect(before).toBeLessThanOrEqual(512)
    const pending = look(STATES.indexOf('pending')).found
    expect(pending).toHaveLength(4998)
  })

  it('are looked through for a type only where one may be, and for types that share a bit all the same', () => {
    const model = new Model()
    const typeAt = (at: number) => (at === 2000 ? 7 : at === 4000 ? 39 : at % 3)
    for (let at = 0; at < 5000; at += 1) model.add(at, typeAt(at))
    const look = (type: number) => {
      let looked = 0
      const found: number[] = []
      for (const line of model.sorted.newest(undefined, { type })) {
        looked += 1
        if (model.table.type(line) === type) found.push(model.numberOf(line))
      }
      return { looked, found }
    }
    expect(look(7).found).toEqual([2000])
    expect(look(7).looked).toBeLessThanOrEqual(2 * 512)
    expect(look(39).found).toEqual([4000])
    expect(look(8)).toEqual({ looked: 0, found: [] })
    expect(look(1).found).toHaveLength([...model.held.keys()].filter((at) => typeAt(at) === 1).length)
    model.remove(2000)
    look(7)
    expect(look(7).looked).toBeLessThanOrEqual(512)
    model.add(2000, 7)
    expect(look(7).found).toEqual([2000])
  })
})
