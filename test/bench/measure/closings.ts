/** Follows the delivery log's outcomes and counts the deliveries that were closed in it. */
import { decodeRecord, type OutcomeRecord } from '../../../src/api/outcome-record.ts'
import { outcomeSegment, outcomeSegments } from '../../../src/api/outcome-segment.ts'
import { formatPosition } from '../../../src/api/position.ts'
import { Reflector, type ReflectorNeeds } from '../../../src/runtime/reflector.ts'
import { microseconds } from './instant.ts'

/** Deliveries by what closed them, and records that came a second time. */
export type Closed = { sent: number; moved: number; canceled: number; repeated: number }

export class Closings {
  readonly #feed: Reflector<readonly string[]>
  #closed: Closed = { sent: 0, moved: 0, canceled: 0, repeated: 0 }
  #seen = new Set<string>()
  #lastAt = 0

  /** @param namespace of the log */
  constructor(namespace: string, needs: ReflectorNeeds) {
    this.#feed = new Reflector(
      {
        type: outcomeSegments,
        query: { namespace },
        forget: true,
        decode: (raw) => outcomeSegment.parse(raw).spec.records,
        handler: { applied: (records) => this.#take(records) },
      },
      needs,
    )
  }

  /** Follows from here on. */
  async start(): Promise<void> {
    await this.#feed.start().synced
  }

  async stop(): Promise<void> {
    await this.#feed.stop()
  }

  /** Begins to count anew. */
  reset(): void {
    this.#closed = { sent: 0, moved: 0, canceled: 0, repeated: 0 }
    this.#seen = new Set()
  }

  get closed(): Closed {
    return { ...this.#closed }
  }

  /** Deliveries that were closed, and when the last of them was, in microseconds of `instant.ts`. */
  get total(): { count: number; lastAt: number } {
    const { sent, moved, canceled } = this.#closed
    return { count: sent + moved + canceled, lastAt: this.#lastAt }
  }

  #take(records: readonly string[]): void {
    for (const text of records) {
      const record = decodeRecord(text)
      if (!record || !closes(record)) continue
      const key = formatPosition(record.position)
      if (this.#seen.has(key)) this.#closed.repeated += 1
      else if (record.kind !== 'failed') this.#closed[record.kind] += 1
      this.#seen.add(key)
      this.#lastAt = microseconds()
    }
  }
}

function closes(record: OutcomeRecord): boolean {
  return record.kind === 'moved' || record.kind === 'canceled' || (record.kind === 'sent' && !record.object)
}
