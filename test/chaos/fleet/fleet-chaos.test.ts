import { beforeAll, expect, test } from 'vitest'
import { FAULT_KINDS, OF_VERSIONS } from './faults.ts'
import { fleetFiguresOf } from './fleet-figures.ts'
import { fleetReportOf } from './fleet-report.ts'
import { type FleetRun, type FleetRunOptions, playFleet } from './fleet-run.ts'

/** On an idle machine it takes two to four minutes. */
const LIMIT_MS = 1_200_000

const begun = performance.now()
const progress: string[] = []
const OPTIONS: FleetRunOptions = {
  seed: 11,
  lastsMs: LIMIT_MS / 2,
  controllers: 2,
  servers: 2,
  organizations: 2,
  perSecond: 8,
  // What a slow machine cannot deliver during the faults has to end afterwards, within the limit.
  maxBehind: 1000,
  leaseMs: 3000,
  retentionMs: 60_000,
  waitsForRetention: false,
  serversAgree: true,
  faultsOfEach: 1,
  between: 8,
  pace: 0.25,
  say: (line) => {
    const seconds = Math.round((performance.now() - begun) / 1000)
    progress.push(line)
    process.stdout.write(`${seconds} s: ${line}\n`)
  },
}

let run: FleetRun

beforeAll(async () => {
  run = await playFleet(OPTIONS)
  process.stdout.write(`seed ${OPTIONS.seed}\n${fleetReportOf([fleetFiguresOf(run, OPTIONS, 'here')])}\n`)
}, LIMIT_MS)

test('whatever is done to its processes, their clocks, their ways and their store, a fleet holds every promise', () => {
  // The first line of a failure is what a summary shows.
  expect(run.wrong, [...run.wrong, ...progress].join('\n')).toEqual([])
})

test('everything that there is was done to it, under load', () => {
  // There is no other version here. In addition, a Lease may lapse on a busy machine.
  const kinds = FAULT_KINDS.filter((kind) => kind !== OF_VERSIONS)
  expect(kinds.filter((kind) => !run.faults.some((fault) => fault.kind === kind))).toEqual([])
  expect(run.verdict.accepted).toBeGreaterThan(500)
  expect(run.verdict.receptions).toBeGreaterThan(run.verdict.accepted)
  expect(run.disablings).toBeGreaterThan(5)
  expect(run.deletions).toBeGreaterThan(2)
  expect(run.forgotten).toBeGreaterThan(0)
  expect(run.retried).toBeGreaterThan(5)
})
