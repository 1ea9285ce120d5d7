import type { Position } from '../../apis/delivery-segment.ts'
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { LogDelivery } from '../log/store.ts'
import { type Delivery, type EndpointQueue, IN_OBJECT } from './endpoint-queue.ts'

/** Deliveries by their offset in the log: those with an object, outcomes of other replicas, and records that came early. */

/** More than a segment can hold, and few enough for versions of eleven digits. */
const INDEXES = 65_536

/** One number for an offset in the log, as long as versions have no more than eleven digits. */
export function offsetKey({ version, index }: Position): number {
  return version * INDEXES + index
}

export function isSameDelivery(one: Delivery, other: Delivery): boolean {
  return one.name === other.name && one.queue.endpoint.uid === other.queue.endpoint.uid
}

/** Pending deliveries that have an object, by offset. There may be hundreds of thousands. */
export class ObjectBackedDeliveries {
  readonly #byOffset = new Map<number, Delivery>()

  at(position: Position): Delivery | undefined {
    // The key exceeds 32 bits, for which Map has to allocate first.
    return this.#byOffset.size === 0 ? undefined : this.#byOffset.get(offsetKey(position))
  }

  /** The delivery of an entry. An object may state a wrong offset, so the endpoint has to match as well. */
  findEntry(
    version: number,
    { index, endpoint }: Pick<LogDelivery, 'index' | 'endpoint'>,
  ): Delivery | undefined {
    const found = this.at({ version, index })
    return found?.queue.endpoint.uid === endpoint.uid ? found : undefined
  }

  has(delivery: Delivery): boolean {
    return this.at(delivery) === delivery
  }

  values(): MapIterator<Delivery> {
    return this.#byOffset.values()
  }

  /** For an offset that the log states. */
  add(delivery: Delivery): void {
    this.#byOffset.set(offsetKey(delivery), delivery)
  }

  /** For an offset that an object states: if two objects claim the same, the first one wins. */
  addFound(delivery: Delivery): void {
    const existing = this.at(delivery)
    if (!existing || isSameDelivery(existing, delivery)) this.add(delivery)
  }

  delete(delivery: Delivery): void {
    if (this.has(delivery)) this.#byOffset.delete(offsetKey(delivery))
  }
}

type RemoteOutcome = 'promoted' | 'ended'

/**
 * Applies outcomes recorded by other replicas. If this replica still drives the queue (its Lease lapsed), they are deferred until
 * the queue is idle.
 */
export class RemoteOutcomes {
  readonly #objectBacked: ObjectBackedDeliveries
  readonly #onEnd: (delivery: Delivery) => void
  readonly #deferred = new Map<number, { delivery: Delivery; outcome: RemoteOutcome }>()

  /** @param onEnd called with a delivery that is no longer pending */
  constructor(objectBacked: ObjectBackedDeliveries, onEnd: (delivery: Delivery) => void) {
    this.#objectBacked = objectBacked
    this.#onEnd = onEnd
  }

  applyEnd(position: Position): void {
    const delivery = this.#objectBacked.at(position) ?? this.deferredAt(position)
    if (delivery) this.apply(delivery, 'ended')
  }

  /** The delivery with a deferred outcome at this offset: no longer an open entry, nor among those with an object yet. */
  deferredAt(position: Position): Delivery | undefined {
    return this.#deferred.get(offsetKey(position))?.delivery
  }

  forget(delivery: Delivery): void {
    const key = offsetKey(delivery)
    if (this.#deferred.get(key)?.delivery === delivery) this.#deferred.delete(key)
  }

  markPromoted(delivery: Delivery): void {
    this.#objectBacked.add(delivery)
    if (this.#deferred.get(offsetKey(delivery))?.outcome === 'promoted') this.forget(delivery)
  }

  apply(delivery: Delivery, outcome: RemoteOutcome): void {
    if (delivery.left) return
    if (this.deferredAt(delivery) && outcome === 'promoted') return
    if (delivery.queue.driver !== 'others') this.#deferred.set(offsetKey(delivery), { delivery, outcome })
    else if (outcome === 'ended') this.#onEnd(delivery)
    else {
      delivery.storage = IN_OBJECT
      this.#objectBacked.add(delivery)
    }
  }

  applyDeferred(queue: EndpointQueue): void {
    for (const [key, { delivery, outcome }] of [...this.#deferred]) {
      if (delivery.queue !== queue) continue
      this.#deferred.delete(key)
      this.apply(delivery, outcome)
    }
  }
}

export type SequencedRecord = { record: OutcomeRecord; version: number; writer: string }

/** From so many segments on, those that never come (closed before, or unreadable) are dropped. */
const TIDY_FROM = 1000
/** A watch that is cut off for minutes at full load. */
const MAX_RECORDS = 200_000

const NONE: ReadonlyMap<number, SequencedRecord[]> = new Map()

/** Records of entries whose segment has not arrived yet, by the version of that segment. */
export class OutOfOrderRecords {
  readonly #byVersion = new Map<number, SequencedRecord[]>()
  #size = 0

  get isFull(): boolean {
    return this.#size > MAX_RECORDS
  }

  add(sequenced: SequencedRecord): void {
    this.#size += 1
    const { version } = sequenced.record.position
    const existing = this.#byVersion.get(version)
    if (existing) existing.push(sequenced)
    else this.#byVersion.set(version, [sequenced])
  }

  /** Removes the records of a segment that has arrived. @returns them by index, in order */
  take(version: number): ReadonlyMap<number, SequencedRecord[]> {
    const records = this.#byVersion.get(version)
    if (!records) return NONE
    this.#drop(version)
    return Map.groupBy(records, ({ record }) => record.position.index)
  }

  forget(lowWater: number): void {
    if (this.#byVersion.size < TIDY_FROM) return
    for (const version of this.#byVersion.keys()) if (version <= lowWater) this.#drop(version)
  }

  #drop(version: number): void {
    this.#size -= this.#byVersion.get(version)?.length ?? 0
    this.#byVersion.delete(version)
  }
}
