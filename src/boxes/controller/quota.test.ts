import { beforeEach, describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { BakeSlots } from './quota.ts'

const woken: string[] = []

beforeEach(() => {
  woken.length = 0
})

function turns(organization: number, all: number): BakeSlots {
  return new BakeSlots({ organization, all }, (key) => void woken.push(key))
}

describe('turns to bake', () => {
  test('are as many as an organization may have, and hold up no other one', () => {
    const of = turns(2, 10)
    expect(['acme/a', 'acme/b', 'acme/c', 'zoo/a'].map((key) => of.acquire(key))).toEqual([
      undefined,
      undefined,
      'organization',
      undefined,
    ])
    expect({ taken: of.taken, waiting: of.waiting }).toEqual({ taken: 3, waiting: 1 })
  })

  test('are as many as all may have', () => {
    const of = turns(2, 3)
    expect(['a/a', 'b/a', 'c/a', 'd/a'].map((key) => of.acquire(key))).toEqual([
      undefined,
      undefined,
      undefined,
      'all',
    ])
  })

  test('come in the order of asking, and nobody who asks later is faster', () => {
    const of = turns(1, 10)
    for (const name of ['a', 'b', 'c']) of.acquire(`acme/${name}`)
    of.release('acme/a')
    expect(woken).toEqual(['acme/b'])
    expect(of.acquire('acme/d')).toBe('organization')
    expect(of.acquire('acme/c')).toBe('organization')
    expect(of.acquire('acme/b')).toBeUndefined()
    expect({ taken: of.taken, waiting: of.waiting }).toEqual({ taken: 1, waiting: 2 })
  })

  test('of one that wants none any more goes to the next', () => {
    const of = turns(1, 10)
    for (const name of ['a', 'b', 'c']) of.acquire(`acme/${name}`)
    of.release('acme/a')
    of.release('acme/b')
    expect(woken).toEqual(['acme/b', 'acme/c'])
    expect(of.acquire('acme/c')).toBeUndefined()
  })

  test('are asked for again without a second one being taken', () => {
    const of = turns(2, 2)
    for (let times = 0; times < 3; times += 1) expect(of.acquire('acme/a')).toBeUndefined()
    expect(of.taken).toBe(1)
  })

  test('of bakes that a process before this one began count, even beyond the limit', () => {
    const of = turns(1, 10)
    of.occupy('acme/a')
    of.occupy('acme/b')
    of.acquire('acme/c')
    of.release('acme/a')
    expect(woken).toEqual([])
    of.release('acme/b')
    expect(woken).toEqual(['acme/c'])
  })

  test('that nobody had are released in vain', () => {
    const of = turns(1, 1)
    of.acquire('acme/a')
    of.acquire('acme/b')
    of.release('acme/unknown')
    expect(woken).toEqual([])
  })
})

test('whatever is asked and ended, no limit is passed, and whoever waits is woken in the end', () => {
  const key = fc
    .tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2', '3', '4'))
    .map((of) => of.join('/'))
  const limits = fc.record({
    organization: fc.integer({ min: 1, max: 3 }),
    all: fc.integer({ min: 3, max: 5 }),
  })
  fc.assert(
    fc.property(limits, fc.array(fc.tuple(fc.boolean(), key), { maxLength: 60 }), (limit, deeds) => {
      const taken = new Set<string>()
      const wanted = new Set<string>()
      const of = new BakeSlots(limit, (next) => void wanted.add(next))
      const ask = (one: string) => {
        if (of.acquire(one) === undefined) taken.add(one)
      }
      const end = (one: string) => {
        taken.delete(one)
        of.release(one)
        for (const next of [...wanted].splice(0)) {
          wanted.delete(next)
          ask(next)
        }
      }
      for (const [asks, one] of deeds) {
        if (asks) ask(one)
        else end(one)
        expect(of.taken).toBe(taken.size)
        expect(taken.size).toBeLessThanOrEqual(limit.all)
        for (const organization of ['a', 'b', 'c'])
          expect([...taken].filter((each) => each.startsWith(organization)).length).toBeLessThanOrEqual(
            limit.organization,
          )
      }
      while (taken.size > 0) end([...taken][0] ?? '')
      expect(of.waiting).toBe(0)
    }),
  )
})
