import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { API_VERSION } from '../../api/meta.ts'
import { outcomeSegments } from '../../api/outcome-segment.ts'
import { sortableName } from '../../domain/message-id.ts'
import type { RawObject } from '../../ports/kubernetes.ts'
import { readLowWater, readSeenOutcomes, readUntil } from './read-back.ts'

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

describe('the low-water mark', () => {
  it('is the highest that the newest segments of outcomes say, and 0 in an empty log', async () => {
    expect(await readLowWater(await written(), SYSTEM)).toBe(0)
    expect(await readLowWater(await written({ lowWater: '7' }, { lowWater: '9' }), SYSTEM)).toBe(9)
  })

  it('is not believed where it speaks of segments that came later', async () => {
    const store = await written({ lowWater: '7' }, { lowWater: '99999999999999999999' }, { lowWater: '104' })
    const versions = store.all(outcomeSegments).map(({ metadata }) => Number(metadata.resourceVersion))
    expect(Math.max(...versions)).toBeLessThan(104)
    expect(await readLowWater(store, SYSTEM)).toBe(7)
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
      error: (_: string, words?: object) => void told.push(words),
    }
    const seen = store.all(outcomeSegments).flatMap((raw) => readSeenOutcomes(raw, log) ?? [])
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
  const page = (...objects: { at?: number; version: number }[]): RawObject[] =>
    objects.map(({ at, version }) => ({
      metadata: {
        name: at === undefined ? 'a-name-of-people' : sortableName(at, new Uint8Array(10)),
        resourceVersion: String(version),
      },
    }))

  it('ends a minute behind the mark', () => {
    const enough = readUntil(10)
    expect(enough(page({ at: 900_000, version: 12 }, { at: 800_000, version: 10 }))).toBe(false)
    expect(enough(page({ at: 760_000, version: 9 }))).toBe(false)
    expect(enough(page({ at: 730_000, version: 8 }))).toBe(true)
  })

  it('ends there although names of segments tell no time', () => {
    const enough = readUntil(10)
    expect(enough(page({ version: 9 }, { at: 800_000, version: 10 }))).toBe(false)
    expect(enough(page({ at: 730_000, version: 8 }, { version: 7 }))).toBe(true)
  })
})
