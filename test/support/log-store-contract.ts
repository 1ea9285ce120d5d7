/**
 * What every store of the delivery log has to do. Each implementation runs it: `describeLogStore('in memory', open)`. A bed is one log,
 * with a way to lose the next answer of an append that was done.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Watch } from '../../src/kube/watch-restarts.ts'
import type { Feed, LogStore, Sequence, StoredSegment } from '../../src/webhooks/log/log-store.ts'
import { scanBackwards } from '../../src/webhooks/log/log-store.ts'
import { until } from './until.ts'

export type LogStoreBed = {
  store: LogStore
  /** The next append is done, and its answer is lost. */
  loseAnswer(): void
  /** Appends fail until the returned function is called. */
  breakDown(): () => void
  close(): Promise<void>
}

const SEQUENCES: readonly Sequence[] = ['events', 'outcomes']

/** A spec that the real kinds accept. */
function specOf(sequence: Sequence, n: number): Record<string, unknown> {
  const about = { writtenAt: n, writer: 'contract' }
  if (sequence === 'outcomes') return { ...about, lowWater: '0', records: `${n}/0 ended` }
  return { ...about, events: [`${'0'.repeat(26)} acme test.happened - - ${n}`], deliveries: '' }
}

function numberOf({ spec }: StoredSegment): number {
  return Number((spec as { writtenAt: number }).writtenAt)
}

function versionOf({ metadata }: StoredSegment): number {
  return Number(metadata.resourceVersion)
}

export function describeLogStore(name: string, open: () => Promise<LogStoreBed>): void {
  describe(`a log ${name}`, () => {
    let bed: LogStoreBed
    const watches: Watch[] = []

    beforeEach(async () => {
      bed = await open()
    })

    afterEach(async () => {
      await Promise.all(watches.splice(0).map((watch) => watch.stop()))
      await bed.close()
    })

    const append = (sequence: Sequence, n: number, hasClaims = false) =>
      bed.store.append(sequence, { specOf: () => specOf(sequence, n), hasClaims })

    const all = async (sequence: Sequence, limit = 100) => {
      const found: number[] = []
      for await (const segment of scanBackwards(bed.store, sequence, limit)) found.push(numberOf(segment))
      return found
    }

    /** Follows a sequence and keeps the numbers of what it gets. */
    const follow = (sequence: Sequence, options: Partial<Feed<number>> = {}) => {
      const seen: number[] = []
      const gone: string[] = []
      const handler = {
        applied: (n: number) => void seen.push(n),
        gone: (key: string) => void gone.push(key),
      }
      const feed = { pageSize: 2, decode: numberOf, handler, ...options }
      const watch = bed.store.feed<number>(sequence, feed)
      watches.push(watch)
      watch.start()
      return { watch, seen, gone }
    }

    const untilSeen = (seen: readonly number[], wanted: number) =>
      until(
        async () => seen.includes(wanted) || undefined,
        () => `${wanted} is not among ${seen.join()}`,
      )

    test('gives back what was appended, under versions that rise over both sequences', async () => {
      const versions: number[] = []
      for (const [at, sequence] of ['events', 'outcomes', 'events'].entries()) {
        const { metadata } = await append(sequence as Sequence, at)
        const read = await bed.store.read(sequence as Sequence, metadata.name)
        if (!read) throw new Error('there is no such segment')
        expect([numberOf(read), versionOf(read)]).toEqual([at, Number(metadata.resourceVersion)])
        expect(Date.parse(String(read.metadata.creationTimestamp))).toBeGreaterThan(0)
        versions.push(versionOf(read))
      }
      expect(versions).toEqual(versions.toSorted((a, b) => a - b))
      expect(new Set(versions).size).toBe(3)
      expect(await bed.store.read('events', 'no-such-segment')).toBeUndefined()
    })

    test.each(SEQUENCES)('has what was appended once, though the answer was lost: %s', async (sequence) => {
      bed.loseAnswer()
      const { metadata } = await append(sequence, 1)
      await append(sequence, 2)
      expect(await all(sequence)).toEqual([2, 1])
      const read = await bed.store.read(sequence, metadata.name)
      expect(read?.metadata.resourceVersion).toBe(metadata.resourceVersion)
    })

    test('goes on with an append when the store is well again, and gives one with a deadline up', async () => {
      const mend = bed.breakDown()
      const specs = { specOf: () => specOf('outcomes', 1) }
      await expect(bed.store.append('outcomes', specs, { deadlineMs: 0 })).rejects.toThrow()
      const appended = append('outcomes', 2)
      mend()
      await appended
      expect(await all('outcomes')).toEqual([2])
    })

    test('waits with an append until it may be tried, and begins none that may not', async () => {
      let may = false
      const segment = { specOf: () => specOf('events', 1) }
      const waiting = bed.store.append('events', segment, { mayTry: () => may })
      await expect(bed.store.append('events', segment, { mayBegin: () => false })).rejects.toThrow()
      expect(await all('events')).toEqual([])
      may = true
      await waiting
      expect(await all('events')).toEqual([1])
    })

    test.each(SEQUENCES)('has pages by name, the newest first: %s', async (sequence) => {
      for (let n = 1; n <= 5; n += 1) await append(sequence, n, n % 2 === 0)
      expect(await all(sequence, 2)).toEqual([5, 4, 3, 2, 1])
      const { segments, version } = await bed.store.page(sequence, { limit: 10 })
      expect(version).toBeGreaterThanOrEqual(Math.max(...segments.map(versionOf)))
      const claims = await bed.store.page(sequence, { limit: 10, claimsOnly: true })
      expect(claims.segments.map(numberOf)).toEqual([4, 2])
    })

    test('feeds what was there and what is appended, each once and in order', async () => {
      for (let n = 1; n <= 5; n += 1) await append('outcomes', n)
      const { watch, seen } = follow('outcomes')
      await watch.synced
      expect(seen).toEqual([1, 2, 3, 4, 5])
      for (let n = 6; n <= 9; n += 1) await append('outcomes', n)
      await untilSeen(seen, 9)
      expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
      await append('events', 10)
      expect(seen).not.toContain(10)
    })

    test('reads back no further than a feed wants', async () => {
      for (let n = 1; n <= 6; n += 1) await append('events', n)
      const { watch, seen } = follow('events', {
        stopListing: (page) => page.some((segment) => numberOf(segment) <= 4),
      })
      await watch.synced
      expect(seen.slice(-2)).toEqual([5, 6])
      expect(seen).not.toContain(1)
      await append('events', 7)
      await untilSeen(seen, 7)
    })

    test('removes a segment once and for all, and tells its feeds', async () => {
      const first = await append('events', 1)
      await append('events', 2)
      const { watch, seen, gone } = follow('events')
      await watch.synced
      const { name } = first.metadata
      await bed.store.remove('events', name)
      await bed.store.remove('events', name)
      expect(await bed.store.read('events', name)).toBeUndefined()
      expect(await all('events')).toEqual([2])
      await until(
        async () => gone.some((key) => key.endsWith(name)) || undefined,
        () => `its feed does not know: ${gone.join()}`,
      )
      expect(seen).toEqual([1, 2])
    })
  })
}
