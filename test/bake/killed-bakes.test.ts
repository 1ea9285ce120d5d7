import { expect, it } from 'vitest'
import { playBakeChaos } from '../chaos/bakes/bake-chaos.ts'
import { bakeReportOf } from '../chaos/bakes/bake-report.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'

const LIMIT_MS = 240_000

/** `npm run test:chaos -- --bakes` does the same at length. */
it('bakes that are killed at random moments leave nothing that counts, and no login', {
  timeout: LIMIT_MS,
}, async () => {
  const findings = await playBakeChaos({ kills: 8, random: new SeededRandom(4711), say: () => undefined })
  process.stdout.write(`${bakeReportOf(findings)}\n`)
  expect(findings.wrong).toEqual([])
  expect(findings.killed).toBe(8)
  // One is let go at the begin, at the end, and after each ten; how many turns there are depends on how many end before their time.
  expect(findings.baked).toBeGreaterThanOrEqual(2)
  expect(findings.planted).toMatch(/^(\d+) of \1$/)
})
