/**
 * The segments of the log that still hold something open, and the low-water mark: every delivery in a segment
 * up to that version is closed, so nothing older needs to be read after a restart. Of all shards: what is closed is what
 * the log says, whoever wrote it.
 */
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { CancelReason } from '../../apis/webhook-delivery.ts'
import type { LogDelivery, LogSegment } from '../log/store.ts'
import type { Delivery } from './delivery.ts'
import { OpenEntries } from './open-entries.ts'
import type { EndpointQueue } from './queue.ts'

/** An entry that no record has closed. */
export type OpenEntry = {
  readonly entry: LogDelivery
  /** The delivery of it in its lane. */
  delivery: Delivery | undefined
  /** The lane that it will be in: until then it is counted, and no more. */
  counted: EndpointQueue | undefined
  /** What the log says of its attempts, in order. */
  records: readonly OutcomeRecord[]
  /** It is not to be sent. */
  refused: CancelReason | undefined
}

export type OpenSegment = {
  /** Without its entries: each is held for as long as it is needed. */
  readonly segment: Omit<LogSegment, 'deliveries' | 'unsent'>
  /** Those that are not closed. */
  readonly open: OpenEntries
  readonly bytes: number
}

/** An entry of the log that no record has closed, while it is looked for its object. */
export type UnresolvedEntry = { opened: OpenSegment; open: OpenEntry }

const NO_RECORDS: readonly OutcomeRecord[] = []

/** With all that it may have: to give it something later would move it to another place in memory, in each replica. */
function openEntry(entry: LogDelivery): OpenEntry {
  return { entry, delivery: undefined, counted: undefined, records: NO_RECORDS, refused: undefined }
}

export class OpenSegments {
  /** In the order of their versions. */
  #segments: OpenSegment[] = []
  readonly #byVersion = new Map<number, OpenSegment>()
  /** The one asked for last: most records speak of the segment that the one before speaks of. */
  #recent: OpenSegment | undefined
  #lowWater: number
  #bytes = 0

  constructor(lowWater = 0) {
    this.#lowWater = lowWater
  }

  get lowWater(): number {
    return this.#lowWater
  }

  get size(): number {
    return this.#segments.length
  }

  /** Bytes of payload held for entries of the log that have no object yet. */
  get bytes(): number {
    return this.#bytes
  }

  /** Undefined when the segment is known or behind the mark. All its deliveries are open. */
  add(segment: LogSegment): OpenSegment | undefined {
    if (segment.version <= this.#lowWater || this.#byVersion.has(segment.version)) return undefined
    const { deliveries, unsent: _, ...place } = segment
    const bytes = deliveries.reduce((sum, { event }) => sum + event.payload.length, 0)
    const open = new OpenEntries(deliveries.map(openEntry))
    const opened: OpenSegment = { segment: place, open, bytes }
    let at = this.#segments.length
    while (at > 0 && (this.#segments[at - 1]?.segment.version ?? 0) > segment.version) at -= 1
    this.#segments.splice(at, 0, opened)
    this.#byVersion.set(segment.version, opened)
    this.#bytes += bytes
    this.#advance()
    return opened
  }

  /** Undefined when it is not known, or all of it is closed. */
  at(version: number): OpenSegment | undefined {
    if (this.#recent?.segment.version !== version) this.#recent = this.#byVersion.get(version)
    return this.#recent
  }

  /** One delivery of it is closed: its end, or that an object has it, is durable. */
  close(segment: OpenSegment, index: number): void {
    if (!segment.open.delete(index) || segment.open.size > 0) return
    this.#bytes -= segment.bytes
    this.#advance()
  }

  values(): readonly OpenSegment[] {
    return this.#segments
  }

  #advance(): void {
    let closed = 0
    while (this.#segments[closed]?.open.size === 0) closed += 1
    if (closed === 0) return
    this.#recent = undefined
    for (const { segment } of this.#segments.splice(0, closed)) {
      this.#byVersion.delete(segment.version)
      this.#lowWater = segment.version
    }
  }
}
