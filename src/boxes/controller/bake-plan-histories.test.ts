import { describe, expect, test } from 'vitest'
import { BakeWorld, failed, GOOD, PROBLEM } from '../../../test/support/bake-world.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { dueReason } from './plan.ts'

/** What happens to the world between two passes. */
type Happening = (one: BakeWorld, serial: number) => void
const HAPPENINGS: Record<string, Happening> = {
  'the spec changes': (one) => {
    one.generation += 1
  },
  'a bake is asked for': (one, n) => {
    one.request = new Date(one.now + n).toISOString()
  },
  'nonsense is asked for': (one, n) => {
    one.request = `now-${n}`
  },
  'a credential changes': (one) => {
    one.credentials += 1
  },
  'a credential changes back': (one) => {
    one.credentials = 1
  },
  'a problem comes': (one) => {
    one.problem = PROBLEM
  },
  'the problem goes': (one) => {
    one.problem = undefined
  },
  'the pod runs': (one) => one.progress({ state: 'running' }),
  'the bake succeeds': (one) => one.end(GOOD),
  'the password is wrong': (one) => one.end(failed('wrong_credentials')),
  'the pod is evicted': (one) => one.end(failed('evicted')),
  'the pod cannot run': (one) => one.progress({ state: 'stuck', outcome: failed('quota') }),
  'the Job is deleted': (one) => {
    one.jobs = one.jobs.filter((job) => job !== one.job)
  },
  'a pod lingers': (one) => {
    one.leavingPods = ['lingering']
  },
  'pods have left': (one) => {
    one.leavingPods = []
  },
  'a Job of a predecessor is there': (one, n) => one.addJob({ name: `old-${n}` }),
  'Jobs that ended are removed': (one) => {
    one.jobs = one.jobs.filter(({ progress }) => progress.state !== 'ended' || progress === one.job?.progress)
  },
  'time goes on': (one) => {
    one.now += 45_000
  },
}

const round = fc.record({
  happening: fc.constantFrom(...Object.keys(HAPPENINGS)),
  stopAfter: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 1, max: 4 })),
})
const history = fc.array(round, { maxLength: 25 })

function live(rounds: readonly { happening: string; stopAfter: number }[]): BakeWorld {
  const one = new BakeWorld()
  for (const [serial, { happening, stopAfter }] of rounds.entries()) {
    HAPPENINGS[happening]?.(one, serial)
    one.run(stopAfter)
  }
  return one
}

describe('whatever happens, and wherever the process ends', () => {
  test('there is one bake at a time, none with a problem, and none without a reason', () => {
    fc.assert(
      fc.property(history, (rounds) => {
        expect(live(rounds).wrongs).toEqual([])
      }),
      { numRuns: 4000 },
    )
  })

  test('what is wanted is baked in the end, and then nothing more', () => {
    fc.assert(
      fc.property(
        history,
        fc.constantFrom(GOOD, failed('wrong_credentials'), failed('evicted')),
        (rounds, outcome) => {
          const one = live(rounds)
          one.problem = undefined
          one.settle(outcome)
          expect(one.wrongs).toEqual([])
          expect(dueReason(one.facts())).toBeUndefined()
          expect(one.bake).toMatchObject({ generation: one.generation })
          expect(one.jobs.every(({ progress }) => progress.state === 'ended')).toBe(true)
          const made = one.made.size
          one.now += 1e9
          one.run()
          expect(one.made.size).toBe(made)
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('a problem that stays keeps everything from being made', () => {
    fc.assert(
      fc.property(history, (rounds) => {
        const one = live(rounds)
        one.problem = PROBLEM
        const made = one.made.size
        one.generation += 1
        one.settle(GOOD)
        expect(one.wrongs).toEqual([])
        expect(one.made.size).toBe(made)
        expect(one.bake).toMatchObject({
          state: 'failed',
          failure: { step: 'check' },
          generation: one.generation,
        })
      }),
      { numRuns: 2000 },
    )
  })
})
