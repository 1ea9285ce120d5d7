import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  type Holders,
  type OutcomesSummary,
  outcomesToDelete,
  type SegmentSummary,
  segmentsToDelete,
} from './retention-plan.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const NOW = Date.UTC(2026, 0, 31, 12)
const limits = {
  succeededMs: DAY,
  failedMs: 7 * DAY,
  maxFinishedPerEndpoint: 10,
  maxFinishedBytes: 400_000,
  maxLogBytes: 1000,
}

/** A log with its segments and outcomes in one counter, as they would have been written. */
const anyLog = fc
  .record({
    steps: fc.array(
      fc.record({
        kind: fc.constantFrom('segment', 'outcomes'),
        bytes: fc.integer({ min: 1, max: 300 }),
        organization: fc.constantFrom('', 'acme', 'busy', 'quiet'),
        age: fc.integer({ min: -HOUR, max: 2 * DAY }),
        holders: fc.constantFrom<Holders>('none', 'none', 'none', 'succeeded', 'finished', 'unfinished'),
        behind: fc.nat(6),
        hasClaims: fc.boolean(),
      }),
      { maxLength: 30 },
    ),
    lowWater: fc.nat(40),
    room: fc.nat(4000),
  })
  .map(({ steps, lowWater, room }) => {
    const holders = new Map<number, Holders>()
    const log = { segments: [] as SegmentSummary[], outcomes: [] as OutcomesSummary[] }
    for (const [index, step] of steps.entries()) {
      const { kind, bytes, organization, age, holders: held, behind, hasClaims } = step
      const version = index + 1
      const createdAt = NOW - age
      if (kind === 'segment') {
        log.segments.push({ version, bytes, organization, createdAt })
        holders.set(version, held)
      } else
        log.outcomes.push({ version, bytes, createdAt, lowWater: Math.max(0, index - behind), hasClaims })
    }
    const state = {
      ...log,
      syncedVersion: 1000,
      lowWater,
      holders: ({ version }: SegmentSummary) => holders.get(version) ?? 'none',
    }
    return { log: state, limits: { ...limits, maxLogBytes: room } }
  })

test('of any log, only closed segments without an unfinished delivery go, each once', () => {
  fc.assert(
    fc.property(anyLog, ({ log, limits: given }) => {
      const { delete: going, release } = segmentsToDelete(log, given, NOW)
      expect(new Set([...going, ...release]).size).toBe(going.length + release.length)
      for (const found of [...going, ...release]) {
        expect(log.segments).toContain(found)
        expect(found.version).toBeLessThanOrEqual(log.lowWater)
      }
      for (const found of going) expect(log.holders(found)).toBe('none')
      for (const found of release) expect(['succeeded', 'finished']).toContain(log.holders(found))
    }),
  )
})

test('of any log, what is left fits, or nothing that is left beyond its share could have gone', () => {
  fc.assert(
    fc.property(anyLog, ({ log, limits: given }) => {
      const { delete: going, release } = segmentsToDelete(log, given, NOW)
      const gone = new Set([...going, ...release])
      const left = log.segments.filter((found) => !gone.has(found))
      const bytes = [...left, ...log.outcomes].reduce((sum, found) => sum + found.bytes, 0)
      const stuck = left.some(
        (found) =>
          found.version > log.lowWater ||
          log.holders(found) === 'unfinished' ||
          Math.abs(NOW - found.createdAt) < 2 * MINUTE,
      )
      const room = given.maxLogBytes - log.outcomes.reduce((sum, found) => sum + found.bytes, 0)
      if (!stuck && room >= 0) expect(bytes).toBeLessThanOrEqual(given.maxLogBytes)
    }),
  )
})

test('of any log that fits, only segments of more than a day ago go', () => {
  fc.assert(
    fc.property(anyLog, ({ log }) => {
      const { delete: going, release } = segmentsToDelete(log, { ...limits, maxLogBytes: 1e9 }, NOW)
      expect(release).toEqual([])
      for (const { createdAt } of going) expect(NOW - createdAt).toBeGreaterThan(DAY)
    }),
  )
})

test('of any log, outcomes stay as long as one segment that they speak of does, or claims before their own', () => {
  fc.assert(
    fc.property(anyLog, ({ log }) => {
      const going = new Set(outcomesToDelete(log, NOW))
      for (const found of log.outcomes) {
        const spokenOf = log.segments.some(
          ({ version }) => version > found.lowWater && version < found.version,
        )
        const young = Math.abs(NOW - found.createdAt) < 2 * MINUTE
        const isLater = found.hasClaims && found !== log.outcomes.find(({ hasClaims }) => hasClaims)
        expect(going.has(found)).toBe(!spokenOf && !young && !isLater && found !== log.outcomes.at(-1))
      }
    }),
  )
})
