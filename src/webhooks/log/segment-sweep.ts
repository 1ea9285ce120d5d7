import { type AcceptedEvent, deliverySegments } from '../../apis/delivery-segment.ts'
import type { ResourceType } from '../../apis/meta.ts'
import { outcomeSegment, outcomeSegments } from '../../apis/outcome-segment.ts'
import { isApiError, type RawObject, type ResourceReader } from '../../kube/client.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { sleep, yieldToEventLoop } from '../../lib/sleep.ts'
import { sizeOf } from './codec.ts'
import { KEY_LIFE_MS } from './dedupe.ts'
import type { FinishedDelivery, PayloadRefs } from './finished-deliveries.ts'
import { readSegment } from './reader.ts'
import {
  type OutcomesSummary,
  outcomesToDelete,
  type RetentionLimits,
  type SegmentSummary,
  segmentsToDelete,
} from './retention-plan.ts'
import type { LogDelivery, LogSegment } from './store.ts'

/** What the log in the store consists of: names, versions, times and sizes of its segments, and nothing of what is in them. */

export type SegmentEntry = SegmentSummary & {
  readonly name: string
  /** Until when its Idempotency-Keys stand, in milliseconds since 1970; absent where it has none. */
  readonly keysUntil?: number
  /** There is nothing else in it. */
  readonly keysOnly?: boolean
  gone?: true
}
type OutcomesEntry = OutcomesSummary & { readonly name: string; gone?: true }

/** What the API server adds to an object: UID, times, labels, managed fields. */
const OBJECT_OVERHEAD_BYTES = 800

type Entry = { readonly version: number; readonly bytes: number; gone?: true }

/** Segments of one kind in the order of the log; a version is in it once. */
export class LogSequence<T extends Entry> {
  #entries: T[] = []
  #bytes = 0
  #dead = 0

  get size(): number {
    return this.#entries.length - this.#dead
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Oldest first. */
  values(): readonly T[] {
    if (this.#dead > 0) this.#entries = this.#entries.filter(({ gone }) => !gone)
    this.#dead = 0
    return this.#entries
  }

  oldest(): T | undefined {
    return this.#entries.find(({ gone }) => !gone)
  }

  add(entry: T): void {
    const place = this.#placeOf(entry.version)
    if (this.#entries[place]?.version === entry.version) return
    if (place === this.#entries.length) this.#entries.push(entry)
    else this.#entries.splice(place, 0, entry)
    this.#bytes += entry.bytes
  }

  /** Many at once, in any order. */
  merge(found: readonly T[]): void {
    const entries = new Map<number, T>()
    for (const entry of [...found, ...this.values()]) entries.set(entry.version, entry)
    this.#entries = [...entries.values()].sort((a, b) => a.version - b.version)
    this.#bytes = this.#entries.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  remove(entry: T): void {
    if (entry.gone) return
    entry.gone = true
    this.#dead += 1
    this.#bytes -= entry.bytes
  }

  /** Place of the first entry that is not before `version`; nearly always at the end. */
  #placeOf(version: number): number {
    let [low, high] = [0, this.#entries.length]
    const last = this.#entries.at(-1)
    if (!last || last.version < version) return high
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#entries[middle]?.version ?? 0) < version) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** A segment of accepted events, as the delivery plane sees it. */
export function toSegmentEntry(segment: LogSegment): SegmentEntry {
  const { name, version, createdAt, keys, deliveries } = segment
  const organization = organizationOf(deliveries)
  const bytes = segment.bytes ?? OBJECT_OVERHEAD_BYTES + bytesOf(deliveries) + (keys?.bytes ?? 0)
  const entry = { name, version, createdAt, organization, bytes }
  if (!keys) return entry
  return { ...entry, keysUntil: keys.newestAt + KEY_LIFE_MS, keysOnly: deliveries.length === 0 }
}

/** @returns '' where they are of several, or of none */
function organizationOf(deliveries: readonly LogDelivery[]): string {
  const name = deliveries[0]?.event.namespace ?? ''
  return deliveries.every(({ event }) => event.namespace === name) ? name : ''
}

/** An event that goes to several is in the segment once. */
function bytesOf(deliveries: readonly LogDelivery[]): number {
  const events = new Map<number, AcceptedEvent & { targets: LogDelivery['endpoint'][] }>()
  for (const { eventIndex, event, endpoint } of deliveries) {
    const held = events.get(eventIndex)
    if (held) held.targets.push(endpoint)
    else events.set(eventIndex, { event, targets: [endpoint] })
  }
  return sizeOf([...events.values()]).bytes
}

/** Bytes that a segment takes whose records have so many characters. */
export function outcomesBytes(size: number): number {
  return size + OBJECT_OVERHEAD_BYTES
}

/**
 * One slow look at the whole log after the start, for what is older than the read-back: retention knows nothing
 * of it otherwise.
 */

export type ScanOptions = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  clock: Clock
  log: Logger
  /** Ends the scan. */
  signal: AbortSignal
}

type ScannedLog = { segments: SegmentEntry[]; outcomes: OutcomesEntry[] }

/** A page should not hold the event loop for more than a few milliseconds. */
const PAGE_BYTES = 512 * 1024
const FIRST_PAGE = 10
const LARGEST_PAGE = 250
const PAUSE_MS = 50
const FIRST_RETRY_MS = 1000
const LONGEST_RETRY_MS = 60_000

/** Every segment, in any order. Goes on trying until it has all of them. @returns undefined when it was ended before */
export async function scanLog(options: ScanOptions): Promise<ScannedLog | undefined> {
  const outcomes = await scan(options, outcomeSegments, readOutcomes)
  const segments = outcomes && (await scan(options, deliverySegments, readAccepted))
  return segments && { segments, outcomes }
}

async function scan<T extends { bytes: number }>(
  options: ScanOptions,
  type: ResourceType,
  read: (raw: RawObject) => T,
): Promise<T[] | undefined> {
  const { resources, namespace, clock, log, signal } = options
  const found: T[] = []
  let from: string | undefined
  let limit = FIRST_PAGE
  let retryMs = FIRST_RETRY_MS
  while (!signal.aborted) {
    try {
      const page = await resources.list(type, { namespace, limit }, from)
      const bytes = await readPage(page.items, read, found)
      if (page.continue === undefined) return found
      from = page.continue
      limit = pageLimit(bytes, page.items.length)
      retryMs = FIRST_RETRY_MS
      await sleep(clock, PAUSE_MS, signal)
    } catch (error) {
      // The list took longer than the server keeps old versions: from the beginning.
      if (isApiError(error, 'Gone')) from = undefined
      log.warn('The log could not be read through for retention; trying again', { error, type: type.plural })
      await sleep(clock, retryMs, signal)
      retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2)
    }
  }
  return undefined
}

async function readPage<T extends { bytes: number }>(
  items: readonly RawObject[],
  read: (raw: RawObject) => T,
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

function readAccepted(raw: RawObject): SegmentEntry {
  try {
    return toSegmentEntry(readSegment(raw))
  } catch {
    return { ...readAny(raw), organization: '' }
  }
}

function readOutcomes(raw: RawObject): OutcomesEntry {
  const parsed = outcomeSegment.safeParse(raw)
  // Of one that cannot be read it is not known what it speaks of: of anything before it.
  if (!parsed.success) return { ...readAny(raw), lowWater: 0 }
  const { records, lowWater } = parsed.data.spec
  return { ...namesOf(raw), lowWater: Number(lowWater), bytes: outcomesBytes(records.length) }
}

function readAny(raw: RawObject) {
  return { ...namesOf(raw), bytes: Buffer.byteLength(JSON.stringify(raw)) }
}

function namesOf({ metadata }: RawObject) {
  const { name, resourceVersion, creationTimestamp } = metadata
  return {
    name,
    version: Number(resourceVersion),
    createdAt: Date.parse(String(creationTimestamp ?? '')) || 0,
  }
}

/** Which segments of the log are deleted next: a plan over all of it now and then, and taken from one by one. */

export type LogSweepOptions = {
  limits: RetentionLimits
  lowWater: () => number
  refs: PayloadRefs
  /** Its segment takes too much space, so the delivery goes first. */
  evict: (finished: FinishedDelivery) => void
}

/** A segment that is to be deleted. `keysUntil`: before that its Idempotency-Keys have to be kept elsewhere. */
export type GoingSegment = {
  type: ResourceType
  name: string
  keysUntil?: number | undefined
  deleted: () => void
  failed: () => void
}

/** A segment that would go if what refers to it were gone. `evict`: its space is needed, so finished deliveries go first. */
export type DoubtfulSegment = { name: string; version: number; evict: boolean }

/** Segments that a plan takes at most: what is left over is decided on what is there by then. */
const PLANNED = 500
/** Payloads are large: a few segments make room. */
const RELEASED = 50

/** Short lines of Idempotency-Keys from there on stay where they are: to write them anew would win no room. */
const KEY_STORE_BYTES = 16 * 1024

export class LogSweep {
  readonly #options: LogSweepOptions
  #segments = new LogSequence<SegmentEntry>()
  #outcomes = new LogSequence<OutcomesEntry>()
  #going: GoingSegment[] = []
  #complete = false
  #syncedVersion = () => 0
  #more = false
  #doubtful: DoubtfulSegment[] = []

  constructor(options: LogSweepOptions) {
    this.#options = options
  }

  segmentSeen(entry: SegmentEntry): void {
    this.#segments.add(entry)
  }

  outcomesSeen(entry: OutcomesEntry): void {
    this.#outcomes.add(entry)
  }

  /** Nothing is known of the log any more, and nothing is deleted. */
  reset(): void {
    this.#segments = new LogSequence<SegmentEntry>()
    this.#outcomes = new LogSequence<OutcomesEntry>()
    this.#doubtful = []
    this.#complete = false
    this.#giveUp()
  }

  /** Those of the last plan, once. */
  takeDoubtful(): DoubtfulSegment[] {
    return this.#doubtful.splice(0)
  }

  /**
   * The whole log is known: until then nothing is deleted, since outcomes may speak of a segment not known yet.
   * @param syncedVersion every segment of events up to this version is told of by `segmentSeen`
   */
  scanned(found: ScannedLog, syncedVersion: () => number): void {
    this.#segments.merge(found.segments)
    this.#outcomes.merge(found.outcomes)
    this.#syncedVersion = syncedVersion
    this.#complete = true
  }

  /**
   * Decides what goes. Outcomes first and alone, so that segments are decided on with the space that is really
   * taken. @param now milliseconds since 1970
   */
  plan(now: number): void {
    if (!this.#complete) return
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
      this.#take(outcomes, outcomeSegments, this.#outcomes)
      this.#more = true
      return
    }
    const segments = segmentsToDelete(log, this.#options.limits, now)
    // What is being deleted, or could not be, holds up no other.
    const releases = segments.release
      .map(({ name }) => refs.finishedOf(name).filter(({ isRemoved }) => !isRemoved))
      .filter((finished) => finished.length > 0)
    for (const finished of releases.slice(0, RELEASED).flat()) this.#options.evict(finished)
    this.#take(segments.delete, deliverySegments, this.#segments)
    const { expired, surplus } = segments.doubtful
    const wanted = new Set(surplus)
    const doubtful = [...surplus, ...expired.filter((segment) => !wanted.has(segment))]
    this.#doubtful = doubtful.map((segment) => {
      return { name: segment.name, version: segment.version, evict: wanted.has(segment) }
    })
  }

  /** The last plan left something over. */
  get hasMore(): boolean {
    return this.#more
  }

  /** Plans again when all of a plan is done that left something over. @param now milliseconds since 1970 */
  refill(now: number): void {
    if (this.#going.length === 0 && this.#more) this.plan(now)
  }

  next(): GoingSegment | undefined {
    return this.#going.shift()
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
    type: ResourceType,
    sequence: LogSequence<T>,
  ): void {
    this.#more = entries.length > PLANNED
    this.#going = entries.slice(0, PLANNED).map((entry) => ({
      type,
      name: entry.name,
      keysUntil: 'keysUntil' in entry ? entry.keysUntil : undefined,
      deleted: () => sequence.remove(entry),
      failed: () => this.#giveUp(),
    }))
  }

  /** Until the next plan: what failed once will most likely fail for all. */
  #giveUp(): void {
    this.#going = []
    this.#more = false
  }
}

function isKeyStore({ keysUntil = 0, keysOnly = false, bytes }: SegmentEntry, now: number): boolean {
  return keysOnly && keysUntil > now && bytes >= KEY_STORE_BYTES
}
