import { describe, expect, test } from 'vitest'
import { SeededRandom } from '../seeded-random.ts'
import { collide, FAULT_KINDS, type PlanOptions, planEpisodes } from './faults.ts'

const OPTIONS: PlanOptions = { controllers: 3, facades: 2, leaseMs: 15_000, pace: 1 }

describe('the plan of faults', () => {
  test('is the same for the same seed, and another for another', () => {
    const plan = (seed: number) => [...planEpisodes(new SeededRandom(seed), { ...OPTIONS, faultsOfEach: 3 })]
    expect(plan(7)).toEqual(plan(7))
    expect(plan(7)).not.toEqual(plan(8))
  })

  test('has as many of each kind as were asked for, and none at a time that exclude each other', () => {
    const episodes = [...planEpisodes(new SeededRandom(1), { ...OPTIONS, faultsOfEach: 20 })]
    const counts = Map.groupBy(
      episodes.flatMap(({ faults }) => faults),
      ({ kind }) => kind,
    )
    expect([...counts].map(([kind, { length }]) => [kind, length]).sort()).toEqual(
      FAULT_KINDS.map((kind) => [kind, 20]).sort(),
    )
    const clashes = episodes.flatMap(({ faults }) =>
      faults.flatMap((one, index) => faults.slice(index + 1).filter((other) => collide(one, other))),
    )
    expect(clashes).toEqual([])
    expect(Math.max(...episodes.map(({ faults }) => faults.length))).toBe(3)
  })

  test('suspends for longer than the lease, and only members that there are', () => {
    const episodes = [...planEpisodes(new SeededRandom(2), { ...OPTIONS, faultsOfEach: 30 })]
    const faults = episodes.flatMap((episode) => episode.faults)
    const suspended = faults.filter(({ kind }) => kind.startsWith('suspend')).map(({ forMs }) => forMs)
    expect(Math.min(...suspended)).toBeGreaterThan(OPTIONS.leaseMs)
    const targets = faults.flatMap(({ target }) => (target ? [`${target.role}-${target.index}`] : []))
    expect(new Set(targets)).toEqual(
      new Set(['controller-0', 'controller-1', 'controller-2', 'api-0', 'api-1']),
    )
  })
})
