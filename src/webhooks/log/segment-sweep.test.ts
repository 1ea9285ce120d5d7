import { expect, test } from 'vitest'
import { type FinishedDelivery, PayloadRefs } from './retention-index.ts'
import { LogSweep } from './segment-sweep.ts'

const DAY = 24 * 60 * 60_000
const NOW = 30 * DAY
const ALL_SHOWN = () => Number.POSITIVE_INFINITY

function bed() {
  const refs = new PayloadRefs()
  const evicted: string[] = []
  const sweep = new LogSweep({
    limits: {
      succeededMs: DAY,
      failedMs: 7 * DAY,
      maxFinishedPerEndpoint: 1,
      maxFinishedBytes: 4_000,
      maxLogBytes: 1e9,
    },
    lowWater: () => 1e6,
    refs,
    evict: ({ name }: FinishedDelivery) => void evicted.push(name),
  })
  return { refs, evicted, sweep }
}

function segments(count: number) {
  return Array.from({ length: count }, (_, at) => {
    return { name: `s${at}`, version: 2 * at + 1, createdAt: 0, bytes: 10, organization: 'acme' }
  })
}

function outcomes(count: number) {
  return Array.from({ length: count }, (_, at) => {
    return { name: `o${at}`, version: 2 * at + 2, createdAt: 0, bytes: 10, lowWater: 2 * at }
  })
}

/** Deletes what is planned, and what is planned again when that is done. */
function deleteAll(sweep: LogSweep): string[] {
  const deleted: string[] = []
  for (let round = 0; round < 10_000; round += 1) {
    sweep.refill(NOW)
    const going = sweep.next()
    if (!going) break
    deleted.push(`${going.sequence}/${going.name}`)
    going.deleted()
  }
  return deleted
}

test('one look leads to all that is to go, however much it is, segments before their outcomes', () => {
  const { sweep } = bed()
  sweep.scanned({ segments: segments(1200), outcomes: outcomes(1200) }, ALL_SHOWN)
  sweep.plan(NOW)
  const deleted = deleteAll(sweep)
  expect(deleted.filter((name) => name.startsWith('events/'))).toHaveLength(1200)
  expect(new Set(deleted).size).toBe(deleted.length)
  sweep.plan(NOW)
  deleted.push(...deleteAll(sweep))
  expect(deleted.filter((name) => name.startsWith('outcomes/'))).toHaveLength(1199)
  for (const at of [0, 700, 1198]) {
    const places = [`events/s${at}`, `outcomes/o${at}`].map((name) => deleted.indexOf(name))
    expect(places).toEqual(places.toSorted((a, b) => a - b))
  }
  expect(sweep.stats(NOW)).toEqual({
    logBytes: 10,
    logSegments: 0,
    outcomeSegments: 1,
    oldestSegmentAgeMs: 0,
  })
})

test('after outcomes, one look goes on with segments', () => {
  const { sweep } = bed()
  sweep.scanned({ segments: segments(3).slice(1), outcomes: outcomes(2) }, ALL_SHOWN)
  sweep.plan(NOW)
  expect(deleteAll(sweep)).toEqual(['outcomes/o0', 'events/s1', 'events/s2'])
})

test('claims go one after the other, and none before an earlier one that could not be deleted', () => {
  const { sweep } = bed()
  const claims = outcomes(4).map((entry) => ({ ...entry, hasClaims: true }))
  sweep.scanned({ segments: [], outcomes: claims }, ALL_SHOWN)
  sweep.plan(NOW)
  const first = sweep.next()
  expect([first?.name, sweep.next()]).toEqual(['o0', undefined])
  first?.failed()
  sweep.plan(NOW)
  expect(deleteAll(sweep)).toEqual(['outcomes/o0', 'outcomes/o1', 'outcomes/o2'])
})

test('what failed is left until the next look', () => {
  const { sweep } = bed()
  sweep.scanned({ segments: segments(1200), outcomes: [] }, ALL_SHOWN)
  sweep.plan(NOW)
  sweep.next()?.failed()
  sweep.refill(NOW)
  expect(sweep.next()).toBeUndefined()
  sweep.plan(NOW)
  expect(sweep.next()?.name).toBe('s0')
})

test('what was seen before all of the log was read counts once', () => {
  const { sweep } = bed()
  for (const entry of segments(3)) sweep.segmentSeen(entry)
  sweep.plan(NOW)
  expect(sweep.next()).toBeUndefined()
  sweep.scanned({ segments: segments(4), outcomes: [] }, ALL_SHOWN)
  expect(sweep.stats(NOW)).toMatchObject({ logSegments: 4, logBytes: 40, oldestSegmentAgeMs: NOW })
})

test('a large store of keys stays where it is while they stand, a small one is written anew, and both go in the end', () => {
  const { sweep } = bed()
  const keys = { createdAt: 0, organization: '', keysUntil: NOW + 1, keysOnly: true }
  const large = { ...keys, name: 'large', version: 1, bytes: 20_000 }
  const small = { ...keys, name: 'small', version: 3, bytes: 2000 }
  sweep.scanned({ segments: [large, small], outcomes: [] }, ALL_SHOWN)
  sweep.plan(NOW)
  expect(sweep.next()).toMatchObject({ name: 'small', keysUntil: NOW + 1 })
  expect(sweep.next()).toBeUndefined()
  sweep.plan(NOW + 1)
  expect([sweep.next()?.name, sweep.next()?.name]).toEqual(['large', 'small'])
})

test('a segment of the future is as old as the next one, and so are its keys', () => {
  const { sweep } = bed()
  const year = 365 * DAY
  const of = { organization: 'acme', bytes: 20_000 }
  const ahead = { createdAt: NOW + year, keysUntil: NOW + year + DAY, keysOnly: true }
  sweep.scanned(
    {
      segments: [
        { ...of, ...ahead, name: 'ahead', version: 1 },
        { ...of, ...ahead, name: 'ahead as well', version: 3 },
        { ...of, name: 'right', version: 5, createdAt: NOW - 2 * DAY },
        // Nothing is known of the last one.
        { ...of, ...ahead, name: 'last', version: 7 },
      ],
      outcomes: [],
    },
    ALL_SHOWN,
  )
  sweep.plan(NOW)
  const planned = [sweep.next(), sweep.next(), sweep.next(), sweep.next()]
  expect(planned.map((going) => going?.name)).toEqual(['ahead', 'ahead as well', 'right', undefined])
  expect(planned[0]).toMatchObject({ createdAt: NOW - 2 * DAY, keysUntil: NOW - DAY })
})

test('the clock of another API server that is behind ages nothing but its own segments', () => {
  const { sweep } = bed()
  const of = { organization: 'acme', bytes: 10 }
  const created = { good: NOW - 1000, behind: 0 }
  sweep.scanned(
    {
      segments: Object.entries(created).map(([name, createdAt], at) => ({
        ...of,
        name,
        version: 2 * at + 1,
        createdAt,
      })),
      outcomes: [],
    },
    ALL_SHOWN,
  )
  sweep.plan(NOW)
  expect([sweep.next()?.name, sweep.next()]).toEqual(['behind', undefined])
})
