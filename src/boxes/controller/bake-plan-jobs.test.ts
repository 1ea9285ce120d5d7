import { describe, expect, test } from 'vitest'
import { BakeWorld, failed, GOOD, PROBLEM, START } from '../../../test/support/bake-world.ts'
import { planBake } from './plan.ts'

const LATER = '2026-01-31T12:00:10Z'

/** With a bake that runs. */
function running(): BakeWorld {
  const one = new BakeWorld()
  one.run()
  one.progress({ state: 'running' })
  one.run()
  one.steps.length = 0
  return one
}

describe('in the middle of a bake', () => {
  test('changes are picked up after it', () => {
    const one = running()
    one.generation = 2
    one.request = LATER
    one.credentials = 2
    one.problem = PROBLEM
    expect(one.run()).toMatchObject({ step: 'wait' })
    one.problem = undefined
    one.end(GOOD)
    one.run()
    expect(one.steps).toEqual(['wait', 'finish', 'start', 'create', 'wait'])
    expect(one.bake).toMatchObject({ generation: 2, observedRebake: LATER })
  })

  test('a Job that is gone is a bake that was canceled, and is not repeated', () => {
    const one = running()
    one.jobs = []
    expect(one.run()).toEqual({ step: 'nothing', until: undefined })
    expect(one.bake).toMatchObject({ state: 'failed', failure: { code: 'canceled' } })
    expect(one.bake?.failure?.fix).toContain(
      "compare `bake` in the output's credentials.json with status.bake.job",
    )
  })

  test.for(['pending', 'running'])('(%s) a Job that nobody looks for is no bake any more', (state) => {
    const one = state === 'running' ? running() : new BakeWorld()
    if (state === 'pending') one.run()
    const facts = { ...one.facts(), problem: PROBLEM, isOff: true, jobs: [] }
    expect(planBake(facts)).toEqual({ step: 'refuse', problem: PROBLEM })
  })

  test('a Job that is gone before it ran is made again', () => {
    const one = new BakeWorld()
    one.run()
    one.jobs = []
    one.run()
    expect(one.steps.slice(-2)).toEqual(['create', 'wait'])
  })

  test('a pod that cannot run is a failure, and its Job is removed', () => {
    const one = new BakeWorld()
    one.run()
    one.progress({ state: 'stuck', outcome: failed('bake_image_missing') })
    expect(one.run()).toEqual({ step: 'nothing', until: START + 30_000 })
    expect(one.steps.slice(-3)).toEqual(['finish', 'remove-job', 'nothing'])
    expect(one.jobs).toEqual([])
  })
})

describe('whatever else there is of a template', () => {
  test('a Job of one before it is removed, and waited for', () => {
    const one = new BakeWorld()
    one.addJob({ name: 'old-1' })
    one.addJob({ name: 'old-0', progress: { state: 'ended', outcome: GOOD } })
    one.run()
    expect(one.steps).toEqual(['remove-job', 'start', 'create', 'wait'])
  })

  test('a Job that is being deleted is waited for', () => {
    const one = new BakeWorld()
    one.addJob({ name: 'old-1', isLeaving: true })
    expect(one.run()).toEqual({
      step: 'wait',
      reason: 'the Job old-1 is still terminating',
      until: START + 10_000,
    })
  })

  test('a pod that is still there is waited for', () => {
    const one = new BakeWorld()
    one.leavingPods = ['old-1-x']
    expect(one.run()).toEqual({
      step: 'wait',
      reason: 'the Pod old-1-x is still terminating',
      until: START + 10_000,
    })
    one.leavingPods = []
    one.run()
    expect(one.steps).toEqual(['wait', 'start', 'create', 'wait'])
  })

  test('a Job of its own that its status does not name is removed', () => {
    const one = running()
    one.end(GOOD)
    one.run()
    one.steps.length = 0
    one.addJob({ name: 'stray', isOwn: true })
    one.run()
    expect(one.steps).toEqual(['remove-job', 'nothing'])
  })
})
