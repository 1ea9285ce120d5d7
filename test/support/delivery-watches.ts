/**
 * The watches of a delivery world, like informers run them over the stores of the index: each reports its kind's events in order,
 * independently of the others, and any may lag, repeat events, or list again.
 */

import type { ObjectIdentity, Source } from '../../src/kube/store.ts'
import type { ChangeListener } from '../../src/server/delivery-index/changes.ts'
import { packedName } from '../../src/server/delivery-index/line-table.ts'
import {
  DeliveryLines,
  type ObjectDelivery,
  withClaimsOnly,
} from '../../src/server/delivery-index/line-updates.ts'
import { ObjectDeliveryStore, OutcomeStore, SegmentStore } from '../../src/server/delivery-index/reader.ts'
import type { DeliveryWorld, WorldEvent, WorldObject, WorldOutcomes } from './delivery-world.ts'

export const KINDS = ['segments', 'outcomes', 'objects'] as const
export type WatchedKind = (typeof KINDS)[number]

export class DeliveryWatches {
  readonly index: DeliveryLines
  lost = 0
  setBack = 0
  readonly #world: DeliveryWorld
  readonly #segments: SegmentStore
  readonly #outcomes: OutcomeStore
  readonly #objects: ObjectDeliveryStore
  readonly #delivered: Record<WatchedKind, number> = { segments: 0, outcomes: 0, objects: 0 }

  constructor(world: DeliveryWorld, capacity = 10_000, changes?: ChangeListener) {
    this.#world = world
    const onLost = () => {
      this.lost += 1
    }
    const onSetBack = () => {
      this.setBack += 1
    }
    this.index = new DeliveryLines(capacity, onLost, changes)
    this.#segments = new SegmentStore(this.index, onSetBack)
    this.#outcomes = new OutcomeStore(this.index, onSetBack)
    this.#objects = new ObjectDeliveryStore(this.index, onSetBack, () => undefined)
  }

  /** Delivers the next events of a watch. @param twice whether to repeat each of them */
  tell(kind: WatchedKind, count: number, twice: boolean): void {
    for (let left = count; left > 0; left -= 1) {
      const event = this.#next(kind)
      if (!event) return
      this.#tellEvent(event)
      if (twice) this.#tellEvent(event)
      this.#storeOf(kind).seenUpTo(event.version)
    }
  }

  /** Delivers all remaining events, and then a bookmark. */
  tellAll(): void {
    for (const kind of KINDS) {
      this.tell(kind, Number.POSITIVE_INFINITY, false)
      this.#storeOf(kind).seenUpTo(this.#world.version)
    }
  }

  /** As a start does, before it lists outcomes. */
  readClaims(): void {
    const { outcomes, version } = this.#world
    this.index.claimsRead(
      outcomes.map(withClaimsOnly).filter(({ records }) => records.length > 0),
      version,
    )
  }

  /** The watch's version was too old: lists the current state. @param broken whether an earlier list breaks off */
  list(kind: WatchedKind, broken: boolean): void {
    const store = this.#storeOf(kind)
    if (broken) {
      store.beginList()
      this.#takeListed(kind, 2)
      store.abandonList()
    }
    store.beginList()
    this.#takeListed(kind, Number.POSITIVE_INFINITY)
    for (const _ of store.endList(this.#world.version, true));
    this.#delivered[kind] = this.#world.version
  }

  /** Lists in parallel to the watch, which is ahead of the list when it ends. */
  compareObjects(between: () => void): void {
    const version = this.#world.version
    const listed = [...this.#world.objects.values()]
    this.#objects.beginList()
    between()
    this.tell('objects', Number.POSITIVE_INFINITY, false)
    for (const listedObject of listed) this.#takeObject(listedObject, 'list')
    for (const _ of this.#objects.endList(version, true));
  }

  #next(kind: WatchedKind): WorldEvent | undefined {
    const event = this.#world.events.find((one) => one.kind === kind && one.version > this.#delivered[kind])
    if (event) this.#delivered[kind] = event.version
    return event
  }

  #storeOf(kind: WatchedKind) {
    return { segments: this.#segments, outcomes: this.#outcomes, objects: this.#objects }[kind]
  }

  #tellEvent(event: WorldEvent): void {
    if (event.kind === 'outcomes') this.#takeOutcomes(event.outcomes)
    else if (event.kind === 'segments') {
      const identity = { key: `davit-system/${event.segment.name}`, uid: '', version: event.version }
      if (!this.#segments.isNews(identity, 'event')) return
      if (event.gone) this.#segments.delete(identity)
      else this.#segments.apply(identity, event.segment)
    } else if (!event.gone) this.#takeObject(event.object, 'event')
    else {
      const identity = { key: event.object.key, uid: '', version: event.version }
      if (this.#objects.isNews(identity, 'event')) this.#objects.delete(identity)
    }
  }

  #takeListed(kind: WatchedKind, most: number): void {
    const { segments, outcomes, objects } = this.#world
    if (kind === 'segments') {
      // By name: the newest first.
      for (const segment of [...segments.values()].reverse().slice(0, most)) {
        const identity = { key: `davit-system/${segment.name}`, uid: '', version: segment.version }
        if (this.#segments.isNews(identity, 'list')) this.#segments.apply(identity, segment)
      }
    } else if (kind === 'outcomes')
      for (const delivered of outcomes.toReversed().slice(0, most)) this.#takeOutcomes(delivered)
    else
      for (const listedObject of [...objects.values()].slice(0, most)) this.#takeObject(listedObject, 'list')
  }

  #takeOutcomes(delivered: WorldOutcomes): void {
    const identity = { key: `davit-system/${delivered.name}`, uid: '', version: delivered.version }
    if (this.#outcomes.isNews(identity)) this.#outcomes.apply(identity, delivered)
  }

  #takeObject(object: WorldObject, source: Source): void {
    const identity: ObjectIdentity = { key: object.key, uid: '', version: object.version }
    if (this.#objects.isNews(identity, source)) this.#objects.apply(identity, objectDeliveryOf(object))
  }
}

function objectDeliveryOf({ endpoint, id, state, attempts, at }: WorldObject): ObjectDelivery {
  const packed = packedName(id)
  if (!packed) throw new Error(`${id} is no id`)
  const { namespace, uid: endpointUid, name: endpointName } = endpoint
  const body = { bodyBytes: 2, sharesBody: false }
  return {
    namespace,
    endpointUid,
    endpointName,
    id: packed,
    type: 'test.happened',
    ...body,
    state,
    attempts,
    at,
  }
}
