import type { Position } from '../../apis/delivery-segment.ts'
import type { LogSize } from '../log/retention-plan.ts'
import type { LogDelivery, LogSegment } from '../log/store.ts'
import { OpenEntries, type OpenSegment } from './endpoint-queue.ts'
import type { EventBody } from './payloads.ts'

/**
 * The segments of the log that still hold an open entry, and the low-water mark: every entry in a segment up to that version
 * is closed, so a restart reads nothing older. It covers all shards. log/read-back.ts reads the log back to it.
 */
export class OpenSegments {
  #segments: OpenSegment[] = []
  readonly #byVersion = new Map<number, OpenSegment>()
  /** The last one looked up: most records refer to the same segment as the record before. */
  #recent: OpenSegment | undefined
  #lowWater: number
  /** All that was added so far. */
  #added: LogSize = { bytes: 0, deliveries: 0 }
  /** Called when no entry of the event is open any more. */
  onBodyClosed: ((body: EventBody) => void) | undefined

  constructor(lowWater = 0) {
    this.#lowWater = lowWater
  }

  get lowWater(): number {
    return this.#lowWater
  }

  get size(): number {
    return this.#segments.length
  }

  /** Adds a segment with all its entries open. Undefined if it is known or behind the mark. */
  add(segment: LogSegment): OpenSegment | undefined {
    if (segment.version <= this.#lowWater || this.#byVersion.has(segment.version)) return undefined
    const { deliveries, undelivered: _, bodies: __, ...header } = segment
    this.#added = {
      bytes: this.#added.bytes + segment.bytes,
      deliveries: this.#added.deliveries + deliveries.length,
    }
    const opened: OpenSegment = {
      segment: header,
      open: new OpenEntries(deliveries),
      bodies: openBodies(segment.name, deliveries),
      upTo: this.#added,
    }
    let at = this.#segments.length
    while (at > 0 && (this.#segments[at - 1]?.segment.version ?? 0) > segment.version) at -= 1
    this.#segments.splice(at, 0, opened)
    this.#byVersion.set(segment.version, opened)
    this.#advance()
    return opened
  }

  /** What was added after the segment, which keeps it in the log while it is open. */
  after({ upTo }: OpenSegment): LogSize {
    const { bytes, deliveries } = this.#added
    return { bytes: bytes - upTo.bytes, deliveries: deliveries - upTo.deliveries }
  }

  /** Whether the entry is closed; false while its segment is not known. */
  isClosed({ version, index }: Position): boolean {
    if (version <= this.#lowWater) return true
    const opened = this.#byVersion.get(version)
    return opened !== undefined && !opened.open.has(index)
  }

  at(version: number): OpenSegment | undefined {
    if (this.#recent?.segment.version !== version) this.#recent = this.#byVersion.get(version)
    return this.#recent
  }

  /** Closes one entry: its end, or the creation of its object, is durable. */
  close(segment: OpenSegment, index: number): void {
    const closed = segment.open.delete(index)
    if (!closed) return
    const body = segment.bodies.get(closed.entry.eventIndex)
    if (body) {
      body.open -= 1
      if (body.open === 0) this.onBodyClosed?.(body)
    }
    if (segment.open.size === 0) this.#advance()
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

function openBodies(segment: string, deliveries: readonly LogDelivery[]): Map<number, EventBody> {
  const bodies = new Map<number, EventBody>()
  for (const { eventIndex, event } of deliveries) {
    if (bodies.has(eventIndex)) continue
    const { bodyBytes: bytes, receivers: open } = event
    bodies.set(eventIndex, { segment, event: eventIndex, bytes, open, buffer: undefined })
  }
  return bodies
}
