/**
 * Reading the log back at the start: the low-water mark, then segments, then outcomes, each as a consistent
 * read in that order. Names are newest first, so reading ends soon after the mark.
 */

import { type DeliverySegment, deliverySegment } from '../../api/delivery-segment.ts'
import { type OutcomeRecord, recordsOf } from '../../api/outcome-record.ts'
import { outcomeSegment, outcomeSegments } from '../../api/outcome-segment.ts'
import { formatPosition } from '../../api/position.ts'
import { timeOfName } from '../../domain/message-id.ts'
import { deliveriesOf } from '../../domain/segment.ts'
import type { LogSegment } from '../../ports/delivery-log.ts'
import { isApiError, type RawObject, type ResourceReader } from '../../ports/kubernetes.ts'
import { LOG_PAGE } from './log-pages.ts'

/** Clocks of writers may differ by so much, and keys so much older than the mark still make a repeat harmless. */
const MARGIN_MS = 60_000

/**
 * A segment as the delivery plane takes it in. Undefined when it is being deleted: that moves its version, and what
 * it held was closed before. @throws ZodError when it is none
 */
export function readLiveSegment(raw: RawObject): LogSegment | undefined {
  return raw.metadata.deletionTimestamp === undefined ? readSegment(raw) : undefined
}

/** @throws ZodError when it is no segment */
export function readSegment(raw: RawObject): LogSegment {
  const parsed: DeliverySegment = deliverySegment.parse(raw)
  return {
    name: parsed.metadata.name,
    version: Number(parsed.metadata.resourceVersion),
    writtenAt: parsed.spec.writtenAt,
    createdAt: Date.parse(parsed.metadata.creationTimestamp ?? '') || parsed.spec.writtenAt,
    ...deliveriesOf(parsed.spec),
  }
}

/** Tells when a list by name (newest first) has gone far enough behind the mark. */
export function readUntil(lowWater: number): (page: readonly RawObject[]) => boolean {
  let firstBehind = Number.POSITIVE_INFINITY
  return (page) => {
    let oldest = Number.POSITIVE_INFINITY
    let allBehind = true
    for (const { metadata } of page) {
      const time = timeOfName(metadata.name)
      const behind = Number(metadata.resourceVersion) <= lowWater
      allBehind &&= behind
      // A name that Davit did not make tells no time.
      if (Number.isNaN(time)) continue
      if (behind && firstBehind === Number.POSITIVE_INFINITY) firstBehind = time
      oldest = Math.min(oldest, time)
    }
    return page.length > 0 && allBehind && oldest < firstBehind - MARGIN_MS
  }
}

/**
 * The highest low-water mark among the newest outcome segments; 0 in an empty log. What they say of segments that came
 * after them is not believed: those would never be read.
 */
export async function readLowWater(resources: ResourceReader, namespace: string): Promise<number> {
  const page = await resources.list(outcomeSegments, { namespace, limit: 10 })
  const marks = page.items.flatMap((raw) => {
    const { data } = outcomeSegment.safeParse(raw)
    const mark = Number(data?.spec.lowWater ?? 0)
    return mark < versionOf(raw) ? [mark] : []
  })
  return Math.max(0, ...marks)
}

/** Told of a segment of outcomes that cannot be read, or so many lines of it. */
export type OnUnreadable = (segment: string, lines: number) => void

/** Records by position (`48213/7`), in the order in which they were written. */
export async function readOutcomes(
  resources: ResourceReader,
  namespace: string,
  lowWater: number,
  onUnreadable?: OnUnreadable,
): Promise<Map<string, OutcomeRecord[]>> {
  const segments = await listBack(resources, namespace, lowWater)
  const records = new Map<string, OutcomeRecord[]>()
  for (const raw of segments.sort((a, b) => versionOf(a) - versionOf(b))) {
    const { data } = outcomeSegment.safeParse(raw)
    const found = data ? recordsOf(data.spec) : []
    const unreadable = (data?.spec.records.split('\n').length ?? 1) - found.length
    if (unreadable > 0) onUnreadable?.(raw.metadata.name, unreadable)
    for (const record of found) {
      if (record.position.version <= lowWater) continue
      const key = formatPosition(record.position)
      const held = records.get(key)
      if (held) held.push(record)
      else records.set(key, [record])
    }
  }
  return records
}

async function listBack(
  resources: ResourceReader,
  namespace: string,
  lowWater: number,
): Promise<RawObject[]> {
  for (;;) {
    try {
      return await listPages(resources, namespace, lowWater)
    } catch (error) {
      // The list took longer than the server keeps old versions: start it again.
      if (!isApiError(error, 'Gone')) throw error
    }
  }
}

async function listPages(
  resources: ResourceReader,
  namespace: string,
  lowWater: number,
): Promise<RawObject[]> {
  const enough = readUntil(lowWater)
  const found: RawObject[] = []
  let from: string | undefined
  do {
    const page = await resources.list(outcomeSegments, { namespace, limit: LOG_PAGE }, from)
    found.push(...page.items)
    from = enough(page.items) ? undefined : page.continue
  } while (from)
  return found
}

function versionOf(raw: RawObject): number {
  return Number(raw.metadata.resourceVersion)
}
