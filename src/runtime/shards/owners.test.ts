import { expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { ownersOf } from './owners.ts'

const SHARDS = 256

const members = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 20 }), { minLength: 1, maxLength: 8 })

it('gives every shard to one of the members, whatever their order', () => {
  fc.assert(
    fc.property(members, (names) => {
      const owners = ownersOf(names, SHARDS)
      expect(owners).toHaveLength(SHARDS)
      expect(owners.every((owner) => names.includes(owner))).toBe(true)
      expect(ownersOf([...names].reverse(), SHARDS)).toEqual(owners)
    }),
  )
})

it('moves only the share of who came or went', () => {
  fc.assert(
    fc.property(members, fc.string({ minLength: 21, maxLength: 30 }), (names, comer) => {
      const before = ownersOf(names, SHARDS)
      const after = ownersOf([...names, comer], SHARDS)
      after.forEach((owner, shard) => {
        if (owner !== comer) expect(owner).toBe(before[shard])
      })
    }),
  )
})

it('spreads the shards evenly enough', () => {
  for (const count of [2, 3, 5, 8]) {
    const names = Array.from({ length: count }, (_, n) => `davit-controller-7c9f6d-${n}`)
    const shares = names.map((name) => ownersOf(names, SHARDS).filter((owner) => owner === name).length)
    for (const share of shares) {
      expect(share).toBeGreaterThan((SHARDS / count) * 0.6)
      expect(share).toBeLessThan((SHARDS / count) * 1.5)
    }
  }
})

it('gives nothing to nobody', () => {
  expect(ownersOf([], SHARDS)).toEqual([])
})

it('is the same in every version of Davit, since two work side by side while one replaces the other', () => {
  expect(ownersOf(['a', 'b', 'c'], 8)).toEqual(['b', 'b', 'a', 'a', 'a', 'c', 'b', 'b'])
})

it('gives a shard for which two weigh the same to the first of their names', () => {
  for (const names of [
    ['r6507', 'r32216'],
    ['r32216', 'r6507'],
  ])
    expect(ownersOf(names, 8)[5]).toBe('r32216')
})
