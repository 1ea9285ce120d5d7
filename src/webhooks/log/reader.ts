/**
 * Reading the log: the low-water mark at the start, and what its segments hold. Names are newest first, so that a list ends
 * soon after the mark.
 */

import { outcomeSegment, outcomeSegments, readOutcomeSegment } from '../../apis/api-outcome-segment.ts'
import { readDeliverySegment } from '../../apis/delivery-segment.ts'
import { decodeLogRecords } from '../../apis/outcome-segment.ts'
import type { RawObject, ResourceReader } from '../../kube/client.ts'
import type { Logger } from '../../lib/ports-log.ts'
import { decodeDeliveries } from './codec.ts'
import type { LoggedOutcomes } from './seen-outcomes.ts'
import type { LogSegment } from './store.ts'

/**
 * Who writes has seen what is older than this, and named its segment accordingly. And keys so much older than the mark still make a
 * repeat harmless.
 */
const MARGIN_MS = 60_000

/**
 * A segment as the delivery plane takes it in. Undefined when it is being deleted: that moves its version, and what
 * it held was closed before. @throws ZodError when it is none
 */
export function readLiveSegment(raw: RawObject, bytes?: number): LogSegment | undefined {
  return raw.metadata.deletionTimestamp === undefined ? readSegment(raw, bytes) : undefined
}

/** @param bytes of it as JSON, where that is known. @throws ZodError when it is no segment */
export function readSegment(raw: RawObject, bytes?: number): LogSegment {
  const parsed = readDeliverySegment(raw)
  return {
    name: parsed.metadata.name,
    version: Number(parsed.metadata.resourceVersion),
    writtenAt: parsed.spec.writtenAt,
    createdAt: Date.parse(parsed.metadata.creationTimestamp ?? '') || parsed.spec.writtenAt,
    ...decodeDeliveries(parsed.spec),
    ...(bytes === undefined ? {} : { bytes }),
  }
}

/**
 * Tells when a list by name (newest first) has gone far enough behind the mark: to segments that the API server made so long before the
 * mark that whoever wrote one ahead of the mark had seen them, and gave that a newer name.
 */
export function reachesLowWater(lowWater: number): (page: readonly RawObject[]) => boolean {
  /** Of those behind it the last one. */
  let last = { version: -1, createdAt: Number.NEGATIVE_INFINITY }
  return (page) => {
    let newest = Number.NEGATIVE_INFINITY
    let allBehind = true
    for (const { metadata } of page) {
      const createdAt = Date.parse(String(metadata.creationTimestamp))
      const version = Number(metadata.resourceVersion)
      allBehind &&= version <= lowWater
      if (Number.isNaN(createdAt)) continue
      if (version <= lowWater && version > last.version) last = { version, createdAt }
      newest = Math.max(newest, createdAt)
    }
    return page.length > 0 && allBehind && newest < last.createdAt - MARGIN_MS
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

/** @throws ZodError when it is none */
export function readLoggedOutcomes(raw: RawObject, log: Logger): LoggedOutcomes | undefined {
  // A deletion moves its version; what it said was said before.
  if (raw.metadata.deletionTimestamp !== undefined) return undefined
  const { metadata, spec } = readOutcomeSegment(raw)
  const { records, unreadable } = decodeLogRecords(spec)
  const { name } = metadata
  if (unreadable > 0) {
    const words = 'Outcomes cannot be read; what they speak of may be sent again'
    log.error(words, { segment: name, lines: unreadable })
  }
  return {
    name,
    version: versionOf(raw),
    writer: spec.writer,
    createdAt: Date.parse(metadata.creationTimestamp ?? '') || spec.writtenAt,
    lowWater: Number(spec.lowWater),
    size: spec.records.length,
    records,
  }
}

function versionOf(raw: RawObject): number {
  return Number(raw.metadata.resourceVersion)
}
