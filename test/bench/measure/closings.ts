/** Follows the delivery log's outcomes and counts the deliveries that were closed in it. */

import { MAX_SEGMENT_DELIVERIES, type Position } from '../../../src/apis/delivery-segment.ts'
import {
  decodeOutcomeRecords,
  type OutcomeRecord,
  outcomeSegments,
  readOutcomeSegment,
} from '../../../src/apis/outcome-segment.ts'
import { Informer, type InformerDependencies } from '../../../src/kube/informer.ts'
import { microseconds } from './instant.ts'

/** Deliveries by what closed them, and records that came a second time. */
export type Closed = { sent: number; moved: number; canceled: number; repeated: number }

export class Closings {
  readonly #feed: Informer<readonly OutcomeRecord[]>
  #closed: Closed = { sent: 0, moved: 0, canceled: 0, repeated: 0 }
  #seen = new Set<number>()
  #lastAt = 0

  /** @param namespace of the log */
  constructor(namespace: string, needs: InformerDependencies) {
    this.#feed = new Informer(
      {
        type: outcomeSegments,
        query: { namespace },
        streaming: true,
        decode: (raw) => decodeOutcomeRecords(readOutcomeSegment(raw).spec).filter(closes),
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

  /** Resets the counters. */
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

  #take(records: readonly OutcomeRecord[]): void {
    for (const record of records) {
      const key = keyOf(record.position)
      const { kind } = record
      if (kind !== 'sent' && kind !== 'moved' && kind !== 'canceled') continue
      if (this.#seen.has(key)) this.#closed.repeated += 1
      else this.#closed[kind] += 1
      this.#seen.add(key)
      this.#lastAt = microseconds()
    }
  }
}

function closes(record: OutcomeRecord): boolean {
  return record.kind === 'moved' || record.kind === 'canceled' || (record.kind === 'sent' && !record.object)
}

/** A number takes a tenth of the memory of the text. */
function keyOf({ version, index }: Position): number {
  return version * MAX_SEGMENT_DELIVERIES + index
}
