import type { Position } from '../../apis/delivery-segment.ts'
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { LogDelivery } from '../log/store.ts'
import { type Delivery, type EndpointQueue, IN_OBJECT } from './queue.ts'

/** More than a segment can hold, and few enough for versions of eleven digits. */
const INDEXES = 65_536

/** Pending deliveries that an object shows, by their places in the log. There may be hundreds of thousands. */
export class ObjectBackedDeliveries {
  readonly #byPlace = new Map<number, Delivery>()

  at(position: Position): Delivery | undefined {
    // A place is a number beyond 32 bits, for which Map has to make an object first.
    return this.#byPlace.size === 0 ? undefined : this.#byPlace.get(offsetKey(position))
  }

  /** That of an entry of the log: what an object says of its place is its word alone, and one of another endpoint is not it. */
  findEntry(
    version: number,
    { index, endpoint }: Pick<LogDelivery, 'index' | 'endpoint'>,
  ): Delivery | undefined {
    const shown = this.at({ version, index })
    return shown?.queue.endpoint.uid === endpoint.uid ? shown : undefined
  }

  has(delivery: Delivery): boolean {
    return this.at(delivery) === delivery
  }

  /** Those first that were added first. */
  values(): MapIterator<Delivery> {
    return this.#byPlace.values()
  }

  /** By what the log says, which knows its own places. */
  add(delivery: Delivery): void {
    this.#byPlace.set(offsetKey(delivery), delivery)
  }

  /** By what an object says: of two that are not the same, and say to be at one place, the first stays. */
  addFound(delivery: Delivery): void {
    const held = this.at(delivery)
    if (!held || isSameDelivery(held, delivery)) this.add(delivery)
  }

  delete(delivery: Delivery): void {
    if (this.has(delivery)) this.#byPlace.delete(offsetKey(delivery))
  }
}

/** An event at an endpoint. */
export function isSameDelivery(one: Delivery, other: Delivery): boolean {
  return one.name === other.name && one.queue.endpoint.uid === other.queue.endpoint.uid
}

/** One number for a place, as long as versions have no more than eleven digits. */
export function offsetKey({ version, index }: Position): number {
  return version * INDEXES + index
}

/** What the log says of a delivery: an object has it, or it is pending no longer. */
type RemoteOutcome = 'shown' | 'ended'

export type RemoteOutcomesOptions = {
  shown: ObjectBackedDeliveries
  /** It is pending no longer. */
  forget: (delivery: Delivery) => void
}

/**
 * What another replica has said of deliveries. Where this one has not let go of them (it could not renew its Lease for long,
 * and somebody else drives them by now) that counts when it has nothing of them under way.
 */
export class RemoteOutcomes {
  readonly #options: RemoteOutcomesOptions
  /** By place. */
  readonly #later = new Map<number, { delivery: Delivery; apply: RemoteOutcome }>()

  constructor(options: RemoteOutcomesOptions) {
    this.#options = options
  }

  /** By what the log says, the delivery at this place has come to its end. */
  applyEnd(position: Position): void {
    const delivery = this.#options.shown.at(position) ?? this.deferredAt(position)
    if (delivery) this.told(delivery, 'ended')
  }

  /** One that this replica has not let go of, at this place: it is neither an entry of the log any more, nor is it shown yet. */
  deferredAt(position: Position): Delivery | undefined {
    return this.#later.get(offsetKey(position))?.delivery
  }

  /** It is pending no longer. */
  forget(delivery: Delivery): void {
    const place = offsetKey(delivery)
    if (this.#later.get(place)?.delivery === delivery) this.#later.delete(place)
  }

  /** This replica knows that an object has it, by what it has written itself. */
  markPromoted(delivery: Delivery): void {
    this.#options.shown.add(delivery)
    if (this.#later.get(offsetKey(delivery))?.apply === 'shown') this.forget(delivery)
  }

  told(delivery: Delivery, told: RemoteOutcome): void {
    const { shown, forget } = this.#options
    if (delivery.left) return
    if (this.deferredAt(delivery) && told === 'shown') return
    if (delivery.queue.driver !== 'others') this.#later.set(offsetKey(delivery), { delivery, apply: told })
    else if (told === 'ended') forget(delivery)
    else {
      delivery.storage = IN_OBJECT
      shown.add(delivery)
    }
  }

  /** Nothing of the lane is under way here. */
  applyDeferred(lane: EndpointQueue): void {
    for (const [place, { delivery, apply }] of [...this.#later]) {
      if (delivery.queue !== lane) continue
      this.#later.delete(place)
      this.told(delivery, apply)
    }
  }
}

/** A record, with the version of the segment that it is in, and who wrote that. */
export type SequencedRecord = { record: OutcomeRecord; version: number; writer: string }

/** Segments that were closed before they were shown, or cannot be read, are looked for from this many on. */
const TIDY_FROM = 1000
/** A watch that is cut off for minutes at full load. */
const MAX_RECORDS = 200_000

const NONE: ReadonlyMap<number, SequencedRecord[]> = new Map()

/** Records of entries whose segment was not shown yet, by its version. */
export class OutOfOrderRecords {
  readonly #byVersion = new Map<number, SequencedRecord[]>()
  #size = 0

  /** More wait than can be held. */
  get isFull(): boolean {
    return this.#size > MAX_RECORDS
  }

  add(said: SequencedRecord): void {
    this.#size += 1
    const { version } = said.record.position
    const held = this.#byVersion.get(version)
    if (held) held.push(said)
    else this.#byVersion.set(version, [said])
  }

  /** The records of a segment that is shown now, by index, in order. */
  take(version: number): ReadonlyMap<number, SequencedRecord[]> {
    const records = this.#byVersion.get(version)
    if (!records) return NONE
    this.#drop(version)
    return Map.groupBy(records, ({ record }) => record.position.index)
  }

  /** Nothing up to this version is open. */
  forget(lowWater: number): void {
    if (this.#byVersion.size < TIDY_FROM) return
    for (const version of this.#byVersion.keys()) if (version <= lowWater) this.#drop(version)
  }

  #drop(version: number): void {
    this.#size -= this.#byVersion.get(version)?.length ?? 0
    this.#byVersion.delete(version)
  }
}
