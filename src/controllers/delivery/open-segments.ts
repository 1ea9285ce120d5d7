/**
 * The segments of the log that still hold something open, and the low-water mark: every delivery in a segment
 * up to that version is closed, so nothing older needs to be read after a restart.
 */
import type { LogSegment } from '../../ports/delivery-log.ts'
import type { Delivery } from './delivery.ts'

export type OpenSegment = {
  /** Without its entries: each is held by its delivery for as long as it is needed. */
  readonly segment: Omit<LogSegment, 'deliveries' | 'unsent'>
  /** Deliveries that are not closed. */
  open: number
  readonly bytes: number
  /** Those of them that this process drives. */
  deliveries: Delivery[]
}

export class OpenSegments {
  /** In the order of their versions. */
  #segments: OpenSegment[] = []
  #names = new Set<string>()
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
    if (segment.version <= this.#lowWater || this.#names.has(segment.name)) return undefined
    const { deliveries, unsent: _, ...place } = segment
    const bytes = deliveries.reduce((sum, { event }) => sum + event.payload.length, 0)
    const opened: OpenSegment = { segment: place, open: deliveries.length, bytes, deliveries: [] }
    let at = this.#segments.length
    while (at > 0 && (this.#segments[at - 1]?.segment.version ?? 0) > segment.version) at -= 1
    this.#segments.splice(at, 0, opened)
    this.#names.add(segment.name)
    this.#bytes += bytes
    this.#advance()
    return opened
  }

  /** One delivery of it is closed: its end, or that an object has it, is durable. */
  close(segment: OpenSegment): void {
    segment.open -= 1
    if (segment.open === 0) {
      this.#bytes -= segment.bytes
      segment.deliveries = []
      this.#advance()
    }
  }

  values(): readonly OpenSegment[] {
    return this.#segments
  }

  #advance(): void {
    let closed = 0
    while (this.#segments[closed]?.open === 0) closed += 1
    if (closed === 0) return
    for (const { segment } of this.#segments.splice(0, closed)) {
      this.#names.delete(segment.name)
      this.#lowWater = segment.version
    }
  }
}
