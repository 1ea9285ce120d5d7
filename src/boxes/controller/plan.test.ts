import { describe, expect, test } from 'vitest'
import { BakeWorld, failed, GOOD, PROBLEM, START } from '../../../test/support/bake-world.ts'
import { finishAction } from './plan.ts'

const STARTED = { state: 'running', number: 1, attempts: 1 } as const
const LATER = '2026-01-31T12:00:10Z'

function newSpec(one: BakeWorld): void {
  one.generation = 2
}

function newCredential(one: BakeWorld): void {
  one.credentials = 2
}

function askedFor(one: BakeWorld): void {
  one.request = LATER
}

/** With a bake that ended so. */
function ended(outcome = GOOD): BakeWorld {
  const one = new BakeWorld()
  one.run()
  one.end(outcome)
  one.run()
  one.steps.length = 0
  return one
}

describe('a clock that is set back', () => {
  test('makes no bake that is tried again wait for longer than the longest wait', () => {
    const one = ended(failed('evicted'))
    one.now -= 86_400_000
    one.run()
    expect(one.bake).toMatchObject({ state: 'pending', attempts: 2 })
  })
})

describe('the first bake', () => {
  test('is begun, has its name before its Job, runs and ends', () => {
    const one = new BakeWorld()
    expect(one.run()).toEqual({
      step: 'wait',
      reason: "the current bake's Pod is not running yet",
      until: undefined,
    })
    one.progress({ state: 'running' })
    expect(one.run()).toEqual({ step: 'wait', reason: 'the current bake is running' })
    one.end(GOOD)
    expect(one.run()).toEqual({ step: 'nothing', until: undefined })
    expect(one.steps).toEqual(['start', 'create', 'wait', 'run', 'wait', 'finish', 'nothing'])
    expect(one.bake).toMatchObject({ state: 'succeeded', attempts: 1, generation: 1, job: 'job-1' })
  })

  test('is not begun while there is a problem, which is said once, and is when that has gone', () => {
    const one = new BakeWorld()
    one.problem = PROBLEM
    one.run()
    one.run()
    expect(one.steps).toEqual(['refuse', 'nothing', 'nothing'])
    expect(one.bake).toMatchObject({
      state: 'failed',
      attempts: 0,
      failure: { step: 'check', code: PROBLEM.code },
    })
    one.problem = { ...PROBLEM, message: 'It is not ready.' }
    one.run()
    expect(one.bake?.failure?.message).toBe('It is not ready.')
    one.problem = undefined
    one.run()
    expect(one.bake).toMatchObject({ state: 'pending', attempts: 1 })
    expect(one.made.size).toBe(1)
  })

  test.for([
    ['its code', { code: 'credential_not_ready' }],
    ['the service', { service: 'db' }],
    ['its words', { message: 'It is not ready.' }],
  ] as const)('is refused anew once %s of the problem is another, and only then', ([, changed]) => {
    const one = new BakeWorld()
    one.problem = PROBLEM
    one.run()
    one.run()
    one.steps.length = 0
    one.problem = { ...PROBLEM, ...changed }
    one.run()
    one.run()
    expect(one.steps.filter((step) => step === 'refuse')).toHaveLength(1)
    expect(one.bake?.failure).toMatchObject(changed)
  })

  test('is made again where a process ended before its Job', () => {
    const one = new BakeWorld()
    one.run(1)
    expect([...one.made.keys()]).toEqual([])
    one.run()
    expect([...one.made.keys()]).toEqual(['job-1'])
    expect(one.steps).toEqual(['start', 'create', 'wait'])
  })

  test.for([
    ['the spec has changed', newSpec],
    ['a credential has changed', newCredential],
    ['it is asked for', askedFor],
  ] as const)('is named anew where %s before its Job', ([, change]) => {
    const one = new BakeWorld()
    one.run(1)
    change(one)
    one.run()
    expect([...one.made.keys()]).toEqual(['job-2'])
    expect(one.bake).toMatchObject({ state: 'pending', attempts: 1, generation: one.generation })
  })

  test('is refused where a problem comes before its Job', () => {
    const one = new BakeWorld()
    one.run(1)
    one.problem = PROBLEM
    one.run()
    expect(one.made.size).toBe(0)
    expect(one.bake).toMatchObject({ state: 'failed', failure: { code: PROBLEM.code } })
  })
})

describe('after a success', () => {
  test.for([
    ['a credential changes', newCredential],
    [
      'there is a problem',
      (one: BakeWorld) => {
        one.problem = PROBLEM
      },
    ],
    [
      'the request is old',
      (one: BakeWorld) => {
        one.request = '2026-01-30T12:00:00Z'
      },
    ],
    [
      'time goes on',
      (one: BakeWorld) => {
        one.now += 1e9
      },
    ],
  ] as const)('nothing is baked when %s', ([, change]) => {
    const one = ended()
    change(one)
    one.run()
    expect(one.steps).toEqual(['nothing'])
    expect(one.bake?.state).toBe('succeeded')
  })

  test.for([
    ['the spec changes', newSpec],
    ['it is asked for', askedFor],
  ] as const)('it is baked again when %s', ([, change]) => {
    const one = ended()
    change(one)
    one.run()
    expect(one.steps).toEqual(['start', 'create', 'wait'])
  })

  test('it is baked once for each value of the request', () => {
    const one = ended()
    one.request = LATER
    one.run()
    one.end(GOOD)
    one.run()
    one.run()
    expect(one.made.size).toBe(2)
    one.request = '2026-01-31T12:00:11Z'
    one.run()
    expect(one.made.size).toBe(3)
  })

  test('a request that is no time is told of once, and not baked for', () => {
    const one = ended()
    one.request = 'now'
    one.run()
    one.run()
    expect(one.steps).toEqual(['ignore-request', 'nothing', 'nothing'])
    expect(one.bake).toMatchObject({ state: 'succeeded', observedRebake: 'now' })
  })
})

describe('after a failure', () => {
  test('nothing is baked while nothing changes', () => {
    const one = ended(failed('wrong_credentials'))
    one.now += 1e9
    expect(one.run()).toEqual({ step: 'nothing', until: undefined })
  })

  test.for([
    ['the spec changes', newSpec],
    ['it is asked for', askedFor],
    ['a credential changes', newCredential],
  ] as const)('it is repeated when %s', ([, change]) => {
    const one = ended(failed('wrong_credentials'))
    change(one)
    one.run()
    expect(one.bake).toMatchObject({ state: 'pending', attempts: 1 })
    expect(one.made.size).toBe(2)
  })

  test('that passes it is tried again, three times in all', () => {
    const one = ended(failed('evicted'))
    const next = () => one.run()
    expect(next()).toEqual({ step: 'nothing', until: START + 30_000 })
    one.now += 30_000
    next()
    expect(one.bake).toMatchObject({ state: 'pending', attempts: 2 })
    one.end(failed('quota'))
    expect(next()).toEqual({ step: 'nothing', until: START + 30_000 + 120_000 })
    one.now += 120_000
    next()
    expect(one.bake).toMatchObject({ state: 'pending', attempts: 3 })
    one.end(failed('evicted'))
    expect(next()).toEqual({ step: 'nothing', until: undefined })
    expect(one.made.size).toBe(3)
  })

  test('that passes, attempts count anew when something changes', () => {
    const one = ended(failed('evicted'))
    one.generation = 2
    one.run()
    expect(one.bake).toMatchObject({ state: 'pending', attempts: 1, generation: 2 })
  })
})

test('a bake is not tried again by itself where a password was wrong, whatever else has failed', () => {
  const failure = failed('unreachable').failure
  const finish = (code: 'wrong_credentials' | 'unreachable') =>
    finishAction({ now: 0 }, STARTED, {
      services: [{ name: 'db', verified: { at: LATER, ok: false, code } }],
      failure,
    })
  expect(finish('unreachable').nextAttemptAt).toBe(30_000)
  expect(finish('wrong_credentials').nextAttemptAt).toBeUndefined()
})
