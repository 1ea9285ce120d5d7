import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { ChaosRun } from './chaos-run.ts'
import type { Findings } from './findings.ts'
import { reportOf } from './report.ts'

const LIMIT_MS = 240_000

let controlPlane: ControlPlane
let findings: Findings
const progress: string[] = []

// Its API server is stopped, so it is not the one that other tests use.
beforeAll(async () => {
  controlPlane = await startControlPlane()
  const run = new ChaosRun(controlPlane, {
    seed: 17,
    kills: 5,
    outages: 0.25,
    compactions: 0.3,
    eventsPerSecond: 25,
    opsPort: await freePort(),
    say: (line) => progress.push(line),
  })
  findings = await run.play()
  process.stdout.write(`${reportOf(findings)}\n`)
}, LIMIT_MS)

afterAll(() => controlPlane?.stop())

it('loses nothing, repeats nothing without a reason, and keeps the order, however often it is killed', () => {
  expect(findings.wrong, progress.join('\n')).toEqual([])
})

it('was really killed under load, while it read back, and without its API server', () => {
  const kinds = findings.deaths.map(({ life }) => life.trouble?.kind ?? life.killed)
  expect(new Set(kinds)).toEqual(new Set(['load', 'start', 'outage', 'compaction']))
  expect(findings.verdict.accepted).toBeGreaterThan(200)
  expect(findings.verdict.receptions).toBeGreaterThan(findings.verdict.accepted)
  expect(findings.pauses).toBeGreaterThan(0)
})
