/** The lanes of all endpoints that have deliveries, and which of them this replica drives. */
import { SHARDS } from '../../domain/shard.ts'
import { ownText } from '../../runtime/own-text.ts'
import { Lane, type LaneEndpoint } from './lane.ts'

export class Lanes {
  readonly #byUid = new Map<string, Lane>()
  /** Those whose endpoint is gone, while what they have is being canceled. */
  readonly #closed = new Set<Lane>()
  /** Shards whose lanes are driven here. */
  readonly #ours = new Set<number>()

  get(endpointUid: string): Lane | undefined {
    return this.#byUid.get(endpointUid)
  }

  values(): IterableIterator<Lane> {
    return this.#byUid.values()
  }

  /** Those that this replica drives. */
  *ours(): IterableIterator<Lane> {
    for (const lane of this.#byUid.values()) if (lane.driver === 'us') yield lane
  }

  of(shards: ReadonlySet<number>): Lane[] {
    return [...this.#byUid.values()].filter(({ shard }) => shards.has(shard))
  }

  open({ namespace, name, uid }: LaneEndpoint): Lane {
    const lane = new Lane({ namespace: ownText(namespace), name: ownText(name), uid: ownText(uid) })
    if (this.#ours.has(lane.shard)) lane.driver = 'us'
    this.#byUid.set(lane.endpoint.uid, lane)
    return lane
  }

  delete(lane: Lane): void {
    const { uid } = lane.endpoint
    // What is found of an endpoint that is gone opens another one.
    if (this.#byUid.get(uid) === lane) this.#byUid.delete(uid)
    this.#closed.delete(lane)
  }

  /** Nobody finds it any more; it is handed over with its shard all the same. */
  close(lane: Lane): void {
    lane.close()
    this.delete(lane)
    this.#closed.add(lane)
  }

  isOurs(shard: number): boolean {
    return this.#ours.has(shard)
  }

  /** Of all shards, 0 to 1. */
  get part(): number {
    return this.#ours.size / SHARDS
  }

  /** This replica drives the lanes of these shards from here on. @returns those that there are */
  take(shards: ReadonlySet<number>): Lane[] {
    for (const shard of shards) this.#ours.add(shard)
    const lanes = this.of(shards)
    for (const lane of lanes) lane.driver = 'us'
    return lanes
  }

  /** This replica begins nothing more in them. @returns those that have something under way, or may have */
  leave(shards: ReadonlySet<number>): Lane[] {
    for (const shard of shards) this.#ours.delete(shard)
    const closed = [...this.#closed].filter(({ shard }) => shards.has(shard))
    for (const lane of closed) this.#closed.delete(lane)
    const lanes = [...this.of(shards), ...closed].filter(({ driver }) => driver !== 'others')
    for (const lane of lanes) lane.driver = 'leaving'
    return lanes
  }
}
