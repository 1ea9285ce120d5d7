import { storedBytes, unlessUnreadable } from '../../apis/log-format.ts'
import { isShardLine, readOutcomeSegment } from '../../apis/outcome-segment.ts'
import { isApiError } from '../../kube/client.ts'
import type { Logger } from '../../lib/log.ts'
import { type Clock, exponentialMs, sleep, yieldToEventLoop } from '../../lib/time.ts'
import { KEY_LIFE_MS, MAX_AHEAD_MS } from './idempotency-keys.ts'
import type { LogStore, Sequence, StoredSegment } from './log-store.ts'
import { indexForVersion } from './log-times.ts'
import { readSegment, SEGMENT_OVERHEAD_BYTES } from './reader.ts'
import type { FinishedDelivery, PayloadRefs } from './retention-index.ts'
import {
  type OutcomesSummary,
  outcomesToDelete,
  type RetentionLimits,
  type SegmentSummary,
  segmentsToDelete,
} from './retention-plan.ts'
import type { LogSegment } from './store.ts'

/**
 * Which segments of the log retention deletes next. It knows the name, version, time and size of every segment: from one slow scan of the
 * whole log after the start, then from the watch. It plans over all of them now and then.
 */

export type SegmentEntry = SegmentSummary & {
  readonly name: string
  /** Corrected if the clock of the API server was ahead. */
  createdAt: number
  /** When its last idempotency key expires, milliseconds since 1970; absent if it has none. Corrected likewise. */
  keysUntil?: number
  /** It holds nothing but keys. */
  readonly keysOnly?: boolean
  isDeleted?: true
}
type OutcomesEntry = OutcomesSummary & { readonly name: string; isDeleted?: true }

type Entry = { readonly version: number; readonly bytes: number; isDeleted?: true }

/** Segments of one kind in log order, without duplicates. */
export class LogSequence<T extends Entry> {
  #entries: T[] = []
  #bytes = 0
  #deleted = 0

  get size(): number {
    return this.#entries.length - this.#deleted
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Oldest first. */
  values(): readonly T[] {
    if (this.#deleted > 0) this.#entries = this.#entries.filter(({ isDeleted }) => !isDeleted)
    this.#deleted = 0
    return this.#entries
  }

  oldest(): T | undefined {
    return this.#entries.find(({ isDeleted }) => !isDeleted)
  }

  add(entry: T): void {
    const index = indexForVersion(this.#entries, entry.version)
    if (this.#entries[index]?.version === entry.version) return
    if (index === this.#entries.length) this.#entries.push(entry)
    else this.#entries.splice(index, 0, entry)
    this.#bytes += entry.bytes
  }

  merge(found: readonly T[]): void {
    const entries = new Map<number, T>()
    for (const entry of [...found, ...this.values()]) entries.set(entry.version, entry)
    this.#entries = [...entries.values()].sort((a, b) => a.version - b.version)
    this.#bytes = this.#entries.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  remove(entry: T): void {
    if (entry.isDeleted) return
    entry.isDeleted = true
    this.#deleted += 1
    this.#bytes -= entry.bytes
  }
}

export function toSegmentEntry(segment: LogSegment): SegmentEntry {
  const { name, version, createdAt, keys, deliveries, undelivered = [] } = segment
  const events = [...deliveries, ...undelivered]
  const namespace = events[0]?.event.namespace ?? ''
  // Empty if it holds events of several organizations, or none.
  const organization = events.every(({ event }) => event.namespace === namespace) ? namespace : ''
  const entry = { name, version, createdAt, organization, bytes: segment.bytes }
  if (!keys) return entry
  return { ...entry, keysUntil: keys.newestAt + KEY_LIFE_MS, keysOnly: events.length === 0 }
}

/** Bytes of an outcome segment. @param size of its spec */
export function outcomesBytes(size: number): number {
  return size + SEGMENT_OVERHEAD_BYTES
}

type ScanOptions = {
  store: Pick<LogStore, 'page'>
  clock: Clock
  log: Logger
  signal: AbortSignal
}

type ScannedLog = { segments: SegmentEntry[]; outcomes: OutcomesEntry[] }

/** A page should not block the event loop for more than a few milliseconds. */
const PAGE_BYTES = 512 * 1024
const FIRST_PAGE = 10
const LARGEST_PAGE = 250
const PAUSE_MS = 50
const RETRY_WAITS = { firstMs: 1000, longestMs: 60_000 }

/** Reads every segment, in any order, and retries until it has all. @returns undefined if `signal` aborted before */
export async function scanLog(options: ScanOptions): Promise<ScannedLog | undefined> {
  const outcomes = await scan(options, 'outcomes', readOutcomes)
  const segments = outcomes && (await scan(options, 'events', readAccepted))
  return segments && { segments, outcomes }
}

async function scan<T extends { bytes: number }>(
  options: ScanOptions,
  sequence: Sequence,
  read: (raw: StoredSegment) => T,
): Promise<T[] | undefined> {
  const { store, clock, log, signal } = options
  const found: T[] = []
  let from: string | undefined
  let limit = FIRST_PAGE
  let failures = 0
  while (!signal.aborted) {
    try {
      const { segments, next } = await store.page(sequence, { limit }, from)
      const bytes = await readPage(segments, read, found)
      if (next === undefined) return found
      from = next
      limit = pageLimit(bytes, segments.length)
      failures = 0
      await sleep(clock, PAUSE_MS, signal)
    } catch (error) {
      // The continue token has expired: start over.
      if (isApiError(error, 'Gone')) from = undefined
      log.warn('log_scan_failed', 'failed to read the delivery log for retention; retrying', {
        error,
        sequence,
      })
      failures += 1
      await sleep(clock, exponentialMs(failures, RETRY_WAITS), signal)
    }
  }
  return undefined
}

async function readPage<T extends { bytes: number }>(
  items: readonly StoredSegment[],
  read: (raw: StoredSegment) => T,
  found: T[],
): Promise<number> {
  let bytes = 0
  for (const raw of items) {
    const entry = read(raw)
    found.push(entry)
    bytes += entry.bytes
    await yieldToEventLoop()
  }
  return bytes
}

function pageLimit(bytes: number, objects: number): number {
  if (objects === 0) return FIRST_PAGE
  return Math.max(1, Math.min(LARGEST_PAGE, Math.floor((PAGE_BYTES * objects) / Math.max(1, bytes))))
}

function readAccepted(raw: StoredSegment): SegmentEntry {
  try {
    return toSegmentEntry(readSegment(raw))
  } catch {
    return { ...readAny(raw), organization: '' }
  }
}

function readOutcomes(raw: StoredSegment): OutcomesEntry {
  const segment = unlessUnreadable(() => readOutcomeSegment(raw))
  // It may be about any delivery before it.
  if (!segment) return { ...readAny(raw), lowWater: 0 }
  const { lowWater, records } = segment.spec
  return {
    ...namesOf(raw),
    lowWater: Number(lowWater),
    bytes: outcomesBytes(storedBytes(raw.spec)),
    ...(records.split('\n').some(isShardLine) ? { hasClaims: true } : {}),
  }
}

function readAny(raw: StoredSegment) {
  return { ...namesOf(raw), bytes: Buffer.byteLength(JSON.stringify(raw)) }
}

function namesOf({ metadata }: StoredSegment) {
  const { name, resourceVersion, creationTimestamp } = metadata
  return {
    name,
    version: Number(resourceVersion),
    createdAt: Date.parse(String(creationTimestamp ?? '')) || 0,
  }
}

type LogSweepOptions = {
  limits: RetentionLimits
  lowWater: () => number
  refs: PayloadRefs
  /** Deletes a finished delivery, since its segment takes too much space. */
  evict: (finished: FinishedDelivery) => void
}

/** A segment to delete. Until `keysUntil` its idempotency keys must be preserved first. */
export type SegmentDeletion = {
  sequence: Sequence
  name: string
  createdAt: number
  keysUntil?: number | undefined
  deleted: () => void
  failed: () => void
}

/** A segment that could be deleted if the objects that refer to it were. `evict`: its space is needed, so delete finished ones. */
export type UnverifiedSegment = { name: string; version: number; evict: boolean }

/** Segments of one plan; the rest is planned later, on newer data. */
const MAX_PLANNED = 500
/** Segments with bodies are large, so a few free much space. */
const MAX_RELEASED = 50

/** A larger segment of `kept` lines stays: copying its keys again would free no space. */
const KEY_STORE_BYTES = 16 * 1024

export class LogSweep {
  readonly #options: LogSweepOptions
  #segments = new LogSequence<SegmentEntry>()
  #outcomes = new LogSequence<OutcomesEntry>()
  #planned: SegmentDeletion[] = []
  #complete = false
  #syncedVersion = () => 0
  #hasMore = false
  #unverified: UnverifiedSegment[] = []

  constructor(options: LogSweepOptions) {
    this.#options = options
  }

  segmentSeen(entry: SegmentEntry): void {
    this.#segments.add(entry)
  }

  outcomesSeen(entry: OutcomesEntry): void {
    this.#outcomes.add(entry)
  }

  reset(): void {
    this.#segments = new LogSequence<SegmentEntry>()
    this.#outcomes = new LogSequence<OutcomesEntry>()
    this.#unverified = []
    this.#complete = false
    this.#giveUp()
  }

  takeUnverified(): UnverifiedSegment[] {
    return this.#unverified.splice(0)
  }

  /**
   * The whole log is known. Nothing is deleted before, since records may be about an unknown segment.
   * @param syncedVersion the version up to which `segmentSeen` was called for every segment of events
   */
  scanned(found: ScannedLog, syncedVersion: () => number): void {
    this.#segments.merge(found.segments)
    this.#outcomes.merge(found.outcomes)
    this.#syncedVersion = syncedVersion
    this.#complete = true
  }

  /**
   * Plans deletions. Outcome segments go first and alone, so that the plan for the others knows the space that is really used. @param now
   * milliseconds since 1970
   */
  plan(now: number): void {
    if (!this.#complete) return
    correctTimes(this.#segments.values(), now)
    const { refs } = this.#options
    const log = {
      segments: this.#segments.values(),
      outcomes: this.#outcomes.values(),
      lowWater: this.#options.lowWater(),
      syncedVersion: this.#syncedVersion(),
      holders: (segment: SegmentEntry) =>
        isKeyStore(segment, now) ? 'unfinished' : refs.holders(segment.name),
    }
    const outcomes = outcomesToDelete(log, now)
    if (outcomes.length > 0) {
      this.#take(outcomes, 'outcomes', this.#outcomes)
      this.#hasMore = true
      return
    }
    const segments = segmentsToDelete(log, this.#options.limits, now)
    // Deliveries that are being deleted, or could not be, do not block others.
    const releases = segments.release
      .map(({ name }) => refs.finishedOf(name).filter(({ isRemoved }) => !isRemoved))
      .filter((finished) => finished.length > 0)
    for (const finished of releases.slice(0, MAX_RELEASED).flat()) this.#options.evict(finished)
    this.#take(segments.delete, 'events', this.#segments)
    const { expired, surplus } = segments.unverified
    const wanted = new Set(surplus)
    const unverified = [...surplus, ...expired.filter((segment) => !wanted.has(segment))]
    this.#unverified = unverified.map((segment) => {
      return { name: segment.name, version: segment.version, evict: wanted.has(segment) }
    })
  }

  /** The last plan was cut at its limit. */
  get hasMore(): boolean {
    return this.#hasMore
  }

  /** Plans again after a plan that was cut. @param now milliseconds since 1970 */
  refill(now: number): void {
    if (this.#planned.length === 0 && this.#hasMore) this.plan(now)
  }

  next(): SegmentDeletion | undefined {
    return this.#planned.shift()
  }

  /** @param now milliseconds since 1970 */
  stats(now: number) {
    const oldest = this.#segments.oldest()
    return {
      logBytes: this.#segments.bytes + this.#outcomes.bytes,
      logSegments: this.#segments.size,
      outcomeSegments: this.#outcomes.size,
      oldestSegmentAgeMs: oldest ? Math.max(0, now - oldest.createdAt) : 0,
    }
  }

  #take<T extends SegmentEntry | OutcomesEntry>(
    entries: readonly T[],
    sequence: Sequence,
    known: LogSequence<T>,
  ): void {
    this.#hasMore = entries.length > MAX_PLANNED
    this.#planned = entries.slice(0, MAX_PLANNED).map((entry) => ({
      sequence,
      name: entry.name,
      createdAt: entry.createdAt,
      keysUntil: 'keysUntil' in entry ? entry.keysUntil : undefined,
      deleted: () => known.remove(entry),
      failed: () => this.#giveUp(),
    }))
  }

  /** Waits for the next plan: the others would most likely fail too. */
  #giveUp(): void {
    this.#planned = []
    this.#hasMore = false
  }
}

/**
 * Corrects segments of the future, which would never become old: no segment is younger than a later one. Its keys are no younger than itself.
 * @param segments in log order @param now milliseconds since 1970
 */
function correctTimes(segments: readonly SegmentEntry[], now: number): void {
  const latest = now + MAX_AHEAD_MS
  let next = Number.POSITIVE_INFINITY
  for (const segment of segments.toReversed()) {
    if (segment.createdAt > latest) segment.createdAt = Math.min(segment.createdAt, next)
    next = Math.min(next, segment.createdAt)
    const { createdAt, keysUntil = 0 } = segment
    if (keysUntil > latest + KEY_LIFE_MS) segment.keysUntil = Math.min(keysUntil, createdAt + KEY_LIFE_MS)
  }
}

function isKeyStore({ keysUntil = 0, keysOnly = false, bytes }: SegmentEntry, now: number): boolean {
  return keysOnly && keysUntil > now && bytes >= KEY_STORE_BYTES
}
