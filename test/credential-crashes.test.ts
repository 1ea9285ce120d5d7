/**
 * `kill -9` at each call of the controller of secrets to API server and cloud, before the call has its effect and after it; then
 * the next process begins on what is there. Where something is changed while no process runs, as well.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { type Played, play, playRest } from './support/secrets/crash.ts'
import type { Death } from './support/secrets/lifeline.ts'
import { MEANWHILE, SCENARIOS } from './support/secrets/scenarios.ts'

/** The cases with the most work in progress; SECRETS_CRASHES=all selects all. */
const WITH_CHANGES =
  process.env.SECRETS_CRASHES === 'all'
    ? SCENARIOS
    : SCENARIOS.filter(({ name }) => /^(create by|rotate$)/.test(name))

/** Some kill hundreds of processes. */
const LIMIT_MS = 240_000

let points = 0
let longestHeldMs = 0

async function crashEverywhere(run: (death?: Death) => Promise<Played>): Promise<string[]> {
  const whole = await run()
  const found = [...whole.broken]
  for (const [index, call] of whole.calls.entries()) {
    for (const when of ['before', 'after'] as const) {
      const played = await run({ call: index + 1, when })
      points += 1
      longestHeldMs = Math.max(longestHeldMs, played.longestHeldMs)
      found.push(...played.broken.map((words) => `killed ${when} call ${index + 1} (${call}): ${words}`))
    }
  }
  return found
}

afterAll(() => {
  console.info(
    `${points} crash points; the longest that a finalizer held something: ${longestHeldMs / 1000} s`,
  )
})

describe('a controller that is killed at any call keeps every promise', () => {
  test.each(SCENARIOS)(
    '$name',
    async (scenario) => {
      expect(await crashEverywhere((death) => play(scenario, death))).toEqual([])
    },
    LIMIT_MS,
  )
})

describe('a REST server that is killed at any call keeps every promise', () => {
  test.each(['nothing changes', ...Object.keys(MEANWHILE)])(
    '%s',
    async (meanwhile) => {
      expect(await crashEverywhere((death) => playRest(death, meanwhile))).toEqual([])
    },
    LIMIT_MS,
  )
})

describe.each(WITH_CHANGES)('$name, changed while no process runs', (scenario) => {
  test.each(Object.keys(MEANWHILE))(
    '%s',
    async (meanwhile) => {
      expect(await crashEverywhere((death) => play(scenario, death, meanwhile))).toEqual([])
    },
    LIMIT_MS,
  )
})
