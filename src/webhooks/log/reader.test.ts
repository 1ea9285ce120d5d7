import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { logOn } from '../../../test/support/log-on.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { API_VERSION } from '../../apis/meta.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import type { RawObject } from '../../kube/client.ts'
import { createRandom } from '../../lib/time.ts'
import { segmentSpec } from './codec.ts'
import { SegmentNamer } from './kubernetes-store.ts'
import { reachesLowWater, readLowWater } from './read-back.ts'
import { readLiveSegment, readLoggedOutcomes, readSharedSegment } from './reader.ts'

const SYSTEM = 'davit-system'

async function written(...outcomes: { lowWater: string; records?: string }[]): Promise<MemoryStore> {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  for (const [i, spec] of outcomes.entries()) {
    await store.create(outcomeSegments, {
      apiVersion: API_VERSION,
      kind: 'OutcomeSegment',
      metadata: { name: `outcomes-${i}`, namespace: SYSTEM },
      spec: { writtenAt: 1, writer: 'test', records: '1/0 moved', ...spec },
    })
  }
  return store
}

const lowWaterOf = (store: MemoryStore) => readLowWater(logOn(store, { clock: new FakeClock() }))

describe('the low-water mark', () => {
  it('is the highest that the newest segments of outcomes say, and 0 in an empty log', async () => {
    expect(await lowWaterOf(await written())).toBe(0)
    expect(await lowWaterOf(await written({ lowWater: '7' }, { lowWater: '9' }))).toBe(9)
  })

  it('is not believed where it speaks of segments that came later', async () => {
    const store = await written({ lowWater: '7' }, { lowWater: '99999999999999999999' }, { lowWater: '104' })
    const versions = store.all(outcomeSegments).map(({ metadata }) => Number(metadata.resourceVersion))
    expect(Math.max(...versions)).toBeLessThan(104)
    expect(await lowWaterOf(store)).toBe(7)
  })
})

describe('outcomes that are read back', () => {
  it('are those that can be read, and the others are told of', async () => {
    const store = await written(
      { lowWater: '1', records: '5/0 moved\ngarbage\n5/1 postponed {}\nclaim 3,255\nrelease 3' },
      { lowWater: '1', records: '5/2 ended' },
    )
    const told: unknown[] = []
    const log = {
      info: () => undefined,
      warn: () => undefined,
      error: (_event: string, _message: string, words?: object) => void told.push(words),
    }
    const seen = store.all(outcomeSegments).flatMap((raw) => readLoggedOutcomes(raw, log) ?? [])
    expect(seen.map(({ records }) => records)).toMatchObject([
      [
        { kind: 'moved', position: { version: 5, index: 0 } },
        { kind: 'claim', shards: [3, 255] },
        { kind: 'release', shards: [3] },
      ],
      [{ kind: 'ended', position: { version: 5, index: 2 } }],
    ])
    expect(told).toEqual([{ segment: 'outcomes-0', lines: 2 }])
  })
})

describe('reading the log back', () => {
  /** By the API server's clock, in seconds. */
  const page = (...objects: { at?: number; version: number }[]): RawObject[] =>
    objects.map(({ at, version }) => ({
      metadata: {
        name: 'whatever-it-says',
        resourceVersion: String(version),
        ...(at === undefined ? {} : { creationTimestamp: new Date(at * 1000).toISOString() }),
      },
    }))

  it('ends a minute behind the mark', () => {
    const enough = reachesLowWater(10)
    expect(enough(page({ at: 900, version: 12 }, { at: 800, version: 10 }))).toBe(false)
    expect(enough(page({ at: 760, version: 9 }))).toBe(false)
    expect(enough(page({ at: 730, version: 8 }))).toBe(true)
  })

  it('goes on while something ahead of the mark is among what is old', () => {
    const enough = reachesLowWater(10)
    expect(enough(page({ at: 800, version: 10 }, { at: 700, version: 6 }, { at: 810, version: 11 }))).toBe(
      false,
    )
    expect(enough(page({ at: 690, version: 5 }))).toBe(true)
  })

  it('ends there although some do not say when they were made', () => {
    const enough = reachesLowWater(10)
    expect(enough(page({ version: 9 }, { at: 800, version: 10 }))).toBe(false)
    expect(enough(page({ at: 730, version: 8 }, { version: 7 }))).toBe(true)
  })

  it('finds all ahead of the mark, however wrong the clocks of writers are that see what others have written', async () => {
    const byChance = fc.record({
      // Of three writers: how far ahead of the API server's their clocks are, step by step, and who writes when.
      steps: fc.array(
        fc.record({
          who: fc.nat({ max: 2 }),
          aheadMs: fc.constantFrom(0, 0, 30_000, 301_000, 3_600_000),
          waitMs: fc.nat({ max: 20_000 }),
          sees: fc.boolean(),
        }),
        { minLength: 5, maxLength: 120 },
      ),
      mark: fc.nat({ max: 120 }),
      pageSize: fc.integer({ min: 1, max: 10 }),
    })
    await fc.assert(
      fc.asyncProperty(byChance, async ({ steps, mark, pageSize }) => {
        const log = await writeBy(steps)
        const byName = log.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
        const enough = reachesLowWater(mark)
        const read: RawObject[] = []
        for (let from = 0; from < byName.length; from += pageSize) {
          const some = byName.slice(from, from + pageSize)
          read.push(...some)
          if (enough(some)) break
        }
        const ahead = log.filter((one) => Number(one.metadata.resourceVersion) > mark)
        expect(read).toEqual(expect.arrayContaining(ahead))
      }),
      { numRuns: 500 },
    )
  })
})

type WriteStep = { who: number; aheadMs: number; waitMs: number; sees: boolean }

/** What a writer has not seen, or seen only after it made a name, is younger. */
const UNSEEN_MS = 45_000

/** @returns segments as they come; each writer has seen all that are not too young, and mostly all */
async function writeBy(steps: readonly WriteStep[]): Promise<RawObject[]> {
  let now = Date.UTC(2026, 0, 1)
  const aheadMs = [0, 0, 0]
  const names = aheadMs.map((_, who) => {
    const clock = new FakeClock()
    clock.now = () => now + (aheadMs[who] ?? 0)
    return new SegmentNamer({ clock, random: createRandom(), first: async () => undefined })
  })
  const log: RawObject[] = []
  for (const step of steps) {
    now += step.waitMs
    aheadMs[step.who] = step.aheadMs
    const own = names[step.who]
    for (const { metadata } of log)
      if (step.sees || now - Date.parse(String(metadata.creationTimestamp)) > UNSEEN_MS)
        own?.observe(metadata.name)
    const creationTimestamp = new Date(now).toISOString()
    log.push({
      metadata: {
        name: (await own?.next()) ?? '',
        resourceVersion: String(log.length + 1),
        creationTimestamp,
      },
    })
  }
  return log
}

describe('a segment that two readers get from one watch', () => {
  const NAME = '0'.repeat(26)

  /** @param size of its body @returns the segment, and how often it was unpacked */
  function segment(size = 10) {
    const payload = JSON.stringify('x'.repeat(size))
    const events = [{ event: { id: NAME, namespace: 'acme', type: 'a.b', payload }, targets: [] }]
    const { packed, events: lines, ...spec } = segmentSpec(events, 'test', 1)
    const text = packed === undefined ? { events: lines } : { packed }
    let count = 0
    const [field = ''] = Object.keys(text)
    Object.defineProperty(spec, field, {
      enumerable: true,
      get: () => {
        count += 1
        return Object.values(text)[0]
      },
    })
    const raw: RawObject = { metadata: { name: 's', resourceVersion: '7' }, spec }
    return { raw, unpacked: () => count }
  }

  it.each([10, 5000, 100_000])('is unpacked once for each two, with a body of %d characters', (size) => {
    const { raw, unpacked } = segment(size)
    const read = [readSharedSegment(raw, 100), readSharedSegment(raw, 100)]
    expect(unpacked()).toBe(1)
    expect(read[0]?.spec.events[0]).toHaveLength(size + `${NAME} acme a.b - - ""`.length)
    expect(read[1]).toEqual(read[0])
    expect(readLiveSegment(raw, 100)?.bodies).toEqual([JSON.stringify('x'.repeat(size))])
    readSharedSegment(raw, 100)
    expect(unpacked()).toBe(2)
  })

  it('is not kept if it came by a list, which has objects of its own', () => {
    const { raw, unpacked } = segment()
    for (let reader = 1; reader <= 3; reader += 1) {
      readSharedSegment(raw, undefined)
      expect(unpacked()).toBe(reader)
    }
  })

  it('is not kept for a reader that falls far behind', () => {
    const all = Array.from({ length: 100 }, () => segment(100_000))
    for (const { raw } of all) readSharedSegment(raw, 100)
    for (const { raw } of all.toReversed()) readSharedSegment(raw, 100)
    const again = all.filter(({ unpacked }) => unpacked() === 2)
    expect(again.length).toBeGreaterThan(75)
    expect(again.length).toBeLessThan(90)
  })
})
