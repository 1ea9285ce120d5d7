import {
  decodeEventLine,
  deliverySegment,
  deliverySegmentKind,
  deliverySegments,
  readDeliverySegment,
} from '../../apis/delivery-segment.ts'
import {
  decodeLogRecords,
  outcomeSegment,
  outcomeSegments,
  readOutcomeSegment,
} from '../../apis/outcome-segment.ts'
import type { PayloadRef } from '../../apis/webhook-delivery.ts'
import { findObject, type RawObject, type ResourceReader, UnreadableError } from '../../kube/client.ts'
import type { Logger } from '../../lib/log.ts'
import { decodeDeliveries } from './codec.ts'
import type { LoggedOutcomes, LogSegment } from './store.ts'

/**
 * How much of the log is asked for at once: segments may be large, and then few of them make a page; where they hold
 * one event each, a page may grow.
 */
export const LOG_PAGE = 50
export const LARGEST_LOG_PAGE = 1000

/** What is younger was there when the first list was read: it is kept for two minutes, and lists go back for one. */
const KEPT_MS = 30_000

/** Which part of the sequence of outcomes this process has read without a gap. */
export class OutcomeReadProgress {
  readonly #startedAt: number
  #from = 0
  #version = 0
  #isListed = false

  /** @param startedAt milliseconds since 1970 */
  constructor(startedAt: number) {
    this.#startedAt = startedAt
  }

  /** Every segment up to this version was taken in, as far as there was one. */
  get version(): number {
    return this.#version
  }

  /** Before this version some may have been deleted before they were read. */
  get from(): number {
    return this.#from
  }

  /**
   * The first list has ended: what comes now is shown by the watch, and nothing can have gone before it. So a clock that is ahead of the API
   * server's, by which all that comes looks old, costs what the list would have told, and no more.
   */
  listComplete(): void {
    this.#isListed = true
  }

  /** In the order of the log. @param createdAt by the API server, milliseconds since 1970; absent: now */
  advance({
    version,
    createdAt = this.#startedAt,
  }: Pick<LoggedOutcomes, 'version'> & { createdAt?: number }): void {
    if (!this.#isListed) {
      if (this.#version === 0 && createdAt < this.#startedAt) this.#from = version - 1
      if (createdAt < this.#startedAt - KEPT_MS) this.#from = version
    }
    this.#version = Math.max(this.#version, version)
  }
}

/**
 * Reading the log: the low-water mark at the start, and what its segments hold. Names are newest first, so that a list ends
 * soon after the mark.
 */

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

/**
 * A payload over 16 KiB, from the segment that holds it.
 * @param namespace the operator's
 * @param organization of the delivery: events of another one are in the same log, and whoever could make a delivery by hand must not
 * have them sent
 * @returns undefined when the segment is gone (somebody deleted it: the log keeps what is referred to), or has no such event of it
 * @throws UnreadableError
 */
export async function readLargePayload(
  resources: ResourceReader,
  namespace: string,
  ref: PayloadRef,
  organization: string,
): Promise<string | undefined> {
  const raw = await findObject(resources, deliverySegments, { namespace, name: ref.segment })
  if (!raw) return undefined
  const { data } = deliverySegment.safeParse(raw)
  if (!data) throw new UnreadableError(deliverySegmentKind.kind, `${namespace}/${ref.segment}`)
  const event = decodeEventLine(data.spec.events[ref.event] ?? '')
  return event?.namespace === organization ? event.payload : undefined
}
