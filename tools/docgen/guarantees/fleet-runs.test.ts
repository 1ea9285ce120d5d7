import { expect, test } from 'vitest'
import { fleetFaultRows, fleetFiguresOf } from './fleet-runs.ts'

function run(accepted: number, lost: number, failOverAloneMs: number[]) {
  const order = { inversions: 0, gaps: 0, overlaps: 0, beyondEight: 0, waitsOutside: 0, waitsCompared: 7 }
  const places = { events: 40, doubled: 0, disagreed: 0, misrouted: 0, deletions: 4, afterDeleting: 0 }
  const repeats = { explained: 2, unexplained: 0, taken: 90, watched: 60 }
  const counts = { accepted, lost, ...repeats, ...order, ...places }
  return {
    seed: accepted,
    at: '2026-11-22',
    commit: `made for ${accepted}`,
    minutes: 5.4,
    controllers: 3,
    servers: 2,
    latestAfterDisablingMs: lost,
    counts: { ...counts, disablings: 3, afterDisabling: 0 },
    faults: {
      'kill controller': {
        count: 2,
        duplicates: { total: 5, most: accepted },
        failOverMs: [...failOverAloneMs, 40],
        failOverAloneMs,
      },
    },
  }
}

test('figures of all runs are added up, times are of faults of a kind with no other near', () => {
  const found = fleetFiguresOf(JSON.stringify([run(100, 0, [3, 1]), run(200, 0, [2, 9])]))
  expect(found).toMatchObject({
    seed: 200,
    runs: 2,
    versions: 2,
    minutes: 11,
    seeds: '100 200',
    events: 80,
    accepted: 300,
    lost: 0,
    disablings: 6,
  })
  expect(found?.lostBound95).toBeCloseTo(0.009986, 6)
  expect(found?.newest).toMatchObject({ runs: 1, minutes: 5, faults: 2, accepted: 200, lost: 0 })
  expect(found?.newest.lostBound95).toBeCloseTo(0.014979, 6)
  expect(found?.waits).toEqual({ compared: 14, outside: 0 })
  expect(found?.received).toEqual({ well: 180, 'far from any fault': 120 })
  expect(found?.duplicates).toEqual({ explained: 4, unexplained: 0 })
  expect(found?.faults['kill controller']).toEqual({
    count: 4,
    duplicates: { total: 10, most: 200 },
    failOverMs: { times: 6, p50: 3, p99: 40, max: 40 },
    failOverAloneMs: { times: 4, p50: 2, p99: 9, max: 9 },
  })
})

test('each kind of fault is told of, and how often it came in the newest version', () => {
  expect(fleetFaultRows(JSON.stringify([run(100, 0, [3, 1]), run(2000, 0, [])]))).toEqual([
    ['kill controller', '4', '2', '10', '2,000', '4: 3 / 40 / 40', '2: 1 / 3 / 3'],
  ])
})

test('where something was lost nothing is said of how little that may be', () => {
  const found = fleetFiguresOf(JSON.stringify([run(100, 1, [])]))
  expect([found?.lost, found?.lostBound95, found?.faults['kill controller']?.failOverAloneMs]).toEqual([
    1,
    undefined,
    undefined,
  ])
})

test('no run has no figures', () => {
  expect(fleetFiguresOf('[]')).toBeUndefined()
})
