import { SHARD_COUNT } from '../../ha/assignment.ts'
import { Fifo } from '../../lib/semaphore.ts'
import { copyString } from '../../lib/text.ts'
import { type Delivery, EndpointQueue, type EndpointRef } from './queue.ts'

/** The lanes of all endpoints that have deliveries, and which of them this replica drives. */

export class EndpointQueues {
  readonly #byUid = new Map<string, EndpointQueue>()
  /** Those whose endpoint is gone, while what they have is being canceled. */
  readonly #closed = new Set<EndpointQueue>()
  /** Shards whose lanes are driven here. */
  readonly #ours = new Set<number>()

  get(endpointUid: string): EndpointQueue | undefined {
    return this.#byUid.get(endpointUid)
  }

  values(): IterableIterator<EndpointQueue> {
    return this.#byUid.values()
  }

  /** Those that this replica drives. */
  *ours(): IterableIterator<EndpointQueue> {
    for (const lane of this.#byUid.values()) if (lane.driver === 'us') yield lane
  }

  inShards(shards: ReadonlySet<number>): EndpointQueue[] {
    return [...this.#byUid.values()].filter(({ shard }) => shards.has(shard))
  }

  open({ namespace, name, uid }: EndpointRef): EndpointQueue {
    const lane = new EndpointQueue({
      namespace: copyString(namespace),
      name: copyString(name),
      uid: copyString(uid),
    })
    if (this.#ours.has(lane.shard)) lane.driver = 'us'
    this.#byUid.set(lane.endpoint.uid, lane)
    return lane
  }

  delete(lane: EndpointQueue): void {
    const { uid } = lane.endpoint
    // What is found of an endpoint that is gone opens another one.
    if (this.#byUid.get(uid) === lane) this.#byUid.delete(uid)
    this.#closed.delete(lane)
  }

  /** Nobody finds it any more; it is handed over with its shard all the same. */
  close(lane: EndpointQueue): void {
    lane.close()
    this.delete(lane)
    this.#closed.add(lane)
  }

  isOurs(shard: number): boolean {
    return this.#ours.has(shard)
  }

  /** Of all shards, 0 to 1. */
  get shareOfShards(): number {
    return this.#ours.size / SHARD_COUNT
  }

  /** This replica drives the lanes of these shards from here on. @returns those that there are */
  acquire(shards: ReadonlySet<number>): EndpointQueue[] {
    for (const shard of shards) this.#ours.add(shard)
    const lanes = this.inShards(shards)
    for (const lane of lanes) lane.driver = 'us'
    return lanes
  }

  /** This replica begins nothing more in them. @returns those that have something under way, or may have */
  release(shards: ReadonlySet<number>): EndpointQueue[] {
    for (const shard of shards) this.#ours.delete(shard)
    const closed = [...this.#closed].filter(({ shard }) => shards.has(shard))
    for (const lane of closed) this.#closed.delete(lane)
    const lanes = [...this.inShards(shards), ...closed].filter(({ driver }) => driver !== 'others')
    for (const lane of lanes) lane.driver = 'leaving'
    return lanes
  }
}

/**
 * Gives lanes fair turns: each lane that has something to start gets one start per round, under one bound on
 * attempts at a time for the whole process.
 */

export type DispatcherOptions = {
  maxInFlight: number
  /** False while nothing new may be sent (outcomes cannot be stored, the process is ending). */
  mayStart: () => boolean
  /** False for a lane that another replica drives, or might: it is woken when that changes. */
  mayRun: (lane: EndpointQueue) => boolean
  /** Runs one attempt; resolves when the delivery no longer holds its lane. Must not reject. */
  run: (delivery: Delivery) => Promise<void>
}

export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #runnable = new Fifo<EndpointQueue>()
  #inFlight = 0
  #pumping = false

  constructor(options: DispatcherOptions) {
    this.#options = options
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get waitingQueues(): number {
    return this.#runnable.size
  }

  /** The lane may have something to start. */
  wake(lane: EndpointQueue): void {
    if (!lane.listed) {
      lane.listed = true
      this.#runnable.push(lane)
    }
    this.pump()
  }

  /** Starts what may start. Called again when something that `mayStart` looks at has changed. */
  pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    try {
      while (this.#inFlight < this.#options.maxInFlight && this.#options.mayStart()) {
        const lane = this.#runnable.shift()
        if (!lane) return
        lane.listed = false
        if (!this.#options.mayRun(lane)) continue
        const delivery = lane.startNext()
        if (!delivery) continue
        lane.listed = true
        this.#runnable.push(lane)
        this.#start(lane, delivery)
      }
    } finally {
      this.#pumping = false
    }
  }

  #start(lane: EndpointQueue, delivery: Delivery): void {
    this.#inFlight += 1
    void this.#options.run(delivery).finally(() => {
      this.#inFlight -= 1
      this.wake(lane)
    })
  }
}
