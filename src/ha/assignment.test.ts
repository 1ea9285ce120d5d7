import { expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { assignShards } from './assignment.ts'

const SHARDS = 256

const members = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 20 }), { minLength: 1, maxLength: 8 })

it('gives every shard to one of the members, whatever their order', () => {
  fc.assert(
    fc.property(members, (names) => {
      const owners = assignShards(names, SHARDS)
      expect(owners).toHaveLength(SHARDS)
      expect(owners.every((owner) => names.includes(owner))).toBe(true)
      expect(assignShards([...names].reverse(), SHARDS)).toEqual(owners)
    }),
  )
})

it('moves only the share of who came or went', () => {
  fc.assert(
    fc.property(members, fc.string({ minLength: 21, maxLength: 30 }), (names, comer) => {
      const before = assignShards(names, SHARDS)
      const after = assignShards([...names, comer], SHARDS)
      after.forEach((owner, shard) => {
        if (owner !== comer) expect(owner).toBe(before[shard])
      })
    }),
  )
})

it('spreads the shards evenly enough', () => {
  for (const count of [2, 3, 5, 8]) {
    const names = Array.from({ length: count }, (_, n) => `davit-controller-7c9f6d-${n}`)
    const shares = names.map((name) => assignShards(names, SHARDS).filter((owner) => owner === name).length)
    for (const share of shares) {
      expect(share).toBeGreaterThan((SHARDS / count) * 0.6)
      expect(share).toBeLessThan((SHARDS / count) * 1.5)
    }
  }
})

it('gives nothing to nobody', () => {
  expect(assignShards([], SHARDS)).toEqual([])
})

it('is the same in every version of Davit, since two work side by side while one replaces the other', () => {
  expect(assignShards(['a', 'b', 'c'], 8)).toEqual(['b', 'b', 'a', 'a', 'a', 'c', 'b', 'b'])
})

it('gives a shard for which two weigh the same to the first of their names', () => {
  for (const names of [
    ['r6507', 'r32216'],
    ['r32216', 'r6507'],
  ])
    expect(assignShards(names, 8)[5]).toBe('r32216')
})
