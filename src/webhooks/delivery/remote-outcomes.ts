import type { Position } from '../../apis/delivery-segment.ts'
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { LogDelivery } from '../log/store.ts'
import { type Delivery, type EndpointQueue, IN_OBJECT } from './queue.ts'

/**
 * What this replica knows of deliveries from elsewhere, by their offset in the log: those that have an object, outcomes that
 * other replicas recorded, and records that came before their segment.
 */

/** More than a segment can hold, and few enough for versions of eleven digits. */
const INDEXES = 65_536

/** One number for an offset in the log, as long as versions have no more than eleven digits. */
export function offsetKey({ version, index }: Position): number {
  return version * INDEXES + index
}

/** Whether both are the same event at the same endpoint. */
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

  /** In the order in which they were added. */
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

/** By the log, an object exists, or the delivery is no longer pending. */
type RemoteOutcome = 'promoted' | 'ended'

/**
 * Applies outcomes recorded by other replicas. While this replica still drives the delivery (it could not renew its Lease, and
 * another replica took over), they are deferred until nothing of its queue is in progress.
 */
export class RemoteOutcomes {
  readonly #objectBacked: ObjectBackedDeliveries
  readonly #onEnd: (delivery: Delivery) => void
  /** By offset. */
  readonly #deferred = new Map<number, { delivery: Delivery; outcome: RemoteOutcome }>()

  /** @param onEnd called with a delivery that is no longer pending */
  constructor(objectBacked: ObjectBackedDeliveries, onEnd: (delivery: Delivery) => void) {
    this.#objectBacked = objectBacked
    this.#onEnd = onEnd
  }

  /** Ends the delivery at this offset, if there is one that is no open entry. */
  applyEnd(position: Position): void {
    const delivery = this.#objectBacked.at(position) ?? this.deferredAt(position)
    if (delivery) this.apply(delivery, 'ended')
  }

  /** The delivery with a deferred outcome at this offset: no longer an open entry, nor among those with an object yet. */
  deferredAt(position: Position): Delivery | undefined {
    return this.#deferred.get(offsetKey(position))?.delivery
  }

  /** Drops the deferred outcome of a delivery that is no longer pending. */
  forget(delivery: Delivery): void {
    const key = offsetKey(delivery)
    if (this.#deferred.get(key)?.delivery === delivery) this.#deferred.delete(key)
  }

  /** This replica has itself recorded that the delivery has an object. */
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

  /** Applies what was deferred for a queue that is idle now. */
  applyDeferred(queue: EndpointQueue): void {
    for (const [key, { delivery, outcome }] of [...this.#deferred]) {
      if (delivery.queue !== queue) continue
      this.#deferred.delete(key)
      this.apply(delivery, outcome)
    }
  }
}

/** A record, with the version and the writer of its segment. */
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

  /** Drops what is behind the low-water mark. */
  forget(lowWater: number): void {
    if (this.#byVersion.size < TIDY_FROM) return
    for (const version of this.#byVersion.keys()) if (version <= lowWater) this.#drop(version)
  }

  #drop(version: number): void {
    this.#size -= this.#byVersion.get(version)?.length ?? 0
    this.#byVersion.delete(version)
  }
}
