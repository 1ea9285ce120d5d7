import { expect, it } from 'vitest'
import { type FleetFigures, fleetFigures, sumOf } from './fleet-figures.ts'
import { fleetReportOf } from './fleet-report.ts'

function run(seed: number, accepted: number, failOverMs: number[], wrong: string[] = []): FleetFigures {
  const none = Object.fromEntries(Object.keys(fleetFigures.shape.counts.shape).map((name) => [name, 0]))
  return fleetFigures.parse({
    seed,
    commit: 'abc',
    at: '2026-01-01',
    controllers: 3,
    servers: 2,
    leaseMs: 9000,
    perSecond: 10,
    between: 12,
    minutes: 4.2,
    load: 2,
    stalledMs: seed,
    latestAfterDisablingMs: seed,
    counts: { ...none, accepted, explained: 1 },
    faults: {
      'kill controller': {
        count: failOverMs.length,
        duplicates: { total: 1, most: 1, earliestMs: seed },
        gapMs: failOverMs,
        gapAloneMs: [],
        failOverMs,
        failOverAloneMs: failOverMs,
        failOverUnorderedMs: failOverMs,
      },
    },
    wrong,
  })
}

it('adds runs up', () => {
  const sum = sumOf([run(1, 1000, [10, 20]), run(2, 2000, [30])])
  expect(sum.counts).toMatchObject({ accepted: 3000, explained: 2, lost: 0 })
  expect(sum.minutes).toBe(8.4)
  expect(sum.latestAfterDisablingMs).toBe(2)
  expect(sum.faults['kill controller']).toEqual({
    count: 3,
    duplicates: { total: 2, most: 1, earliestMs: 2 },
    gapMs: [10, 20, 30],
    gapAloneMs: [],
    failOverMs: [10, 20, 30],
    failOverAloneMs: [10, 20, 30],
    failOverUnorderedMs: [10, 20, 30],
  })
})

it('tells of many runs as of one, and whose promises were broken', () => {
  const report = fleetReportOf([run(1, 1000, [1000, 2000]), run(2, 2000, [30_000], ['1 lost: o a'])])
  expect(report).toMatch(/^lost +0 \(95 % bound: 1\.0e-3\)$/m)
  expect(report).toMatch(/^kill controller +3 .*3: 2\.00, 30\.00, 30\.00/m)
  expect(report).toContain('BROKEN:\n  seed 2, abc: 1 lost: o a')
  expect(fleetReportOf([run(1, 1000, [])])).toContain('All promises held.')
  expect(fleetReportOf([])).toBe('No run is kept.')
})
