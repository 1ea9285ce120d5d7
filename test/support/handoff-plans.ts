/** Random histories of shard handoffs. */
import { expect } from 'vitest'
import { fc } from './fast-check.ts'
import { ENDPOINTS, type Plan, type Step } from './handoff-story.ts'

const REFUSALS = fc.constantFrom(0, 0, 0, 0, 1, 1, 2, 9)
const MOST_STEPS = 25

/** @param kinds and their weights @param ms until the next step */
export function plansOf(
  kinds: Partial<Record<Step['kind'], number>>,
  ms: fc.Arbitrary<number>,
): fc.Arbitrary<Plan> {
  const kind = fc.oneof(
    ...Object.entries(kinds).map(([name, weight]) => ({
      weight,
      arbitrary: fc.constant(name as Step['kind']),
    })),
  )
  const endpoints = fc.integer({ min: 1, max: 2 ** ENDPOINTS.length - 1 })
  const step = fc.record({ kind, endpoints, who: fc.nat({ max: 11 }), ms })
  return fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    replicas: fc.constantFrom(2, 3),
    steps: fc.array(step, { minLength: 1, maxLength: MOST_STEPS }),
    refusals: fc.array(REFUSALS, { minLength: 1, maxLength: 6 }),
  })
}

/** @param play returns the violations */
export async function holdsInAll(
  plans: fc.Arbitrary<Plan>,
  play: (plan: Plan) => Promise<string[]>,
  { histories, seed, asFound }: { histories: number; seed: string | undefined; asFound: string | undefined },
): Promise<void> {
  const property = fc.asyncProperty(plans, async (plan) => {
    expect(await play(plan)).toEqual([])
  })
  await fc.assert(property, { numRuns: histories, seed: Number(seed ?? 1), endOnFailure: asFound === 'yes' })
}
