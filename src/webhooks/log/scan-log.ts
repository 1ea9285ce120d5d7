/**
 * One slow look at the whole log after the start, for what is older than the read-back: retention knows nothing
 * of it otherwise.
 */

import { outcomeSegment, outcomeSegments } from '../../apis/api-outcome-segment.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import type { ResourceType } from '../../apis/meta.ts'
import { isApiError, type RawObject, type ResourceReader } from '../../kube/client.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import { sleep, yieldToEventLoop } from '../../lib/sleep.ts'
import { type OutcomesEntry, outcomesBytes, type SegmentEntry, toSegmentEntry } from './log-index.ts'
import { readSegment } from './reader.ts'

export type ScanOptions = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  clock: Clock
  log: Logger
  /** Ends the scan. */
  signal: AbortSignal
}

export type ScannedLog = { segments: SegmentEntry[]; outcomes: OutcomesEntry[] }

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
