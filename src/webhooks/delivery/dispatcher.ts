import { SHARD_COUNT } from '../../ha/assignment.ts'
import { FairQueue, SharedCapacity } from '../../lib/fair-queue.ts'
import { copyString } from '../../lib/text.ts'
import type { EndpointIdentity } from '../endpoints/directory.ts'
import { type Delivery, EndpointQueue } from './endpoint-queue.ts'

/** The queues of all endpoints that have deliveries, and the dispatcher that gives them fair turns. */

export class EndpointQueues {
  readonly #byUid = new Map<string, EndpointQueue>()
  /** Those whose endpoint is gone, while their deliveries are being canceled. */
  readonly #closed = new Set<EndpointQueue>()
  readonly #ours = new Set<number>()

  get(endpointUid: string): EndpointQueue | undefined {
    return this.#byUid.get(endpointUid)
  }

  values(): IterableIterator<EndpointQueue> {
    return this.#byUid.values()
  }

  *ours(): IterableIterator<EndpointQueue> {
    for (const queue of this.#byUid.values()) if (queue.driver === 'us') yield queue
  }

  inShards(shards: ReadonlySet<number>): EndpointQueue[] {
    return [...this.#byUid.values()].filter(({ shard }) => shards.has(shard))
  }

  open({ namespace, name, uid }: EndpointIdentity): EndpointQueue {
    const queue = new EndpointQueue({
      namespace: copyString(namespace),
      name: copyString(name),
      uid: copyString(uid),
    })
    if (this.#ours.has(queue.shard)) queue.driver = 'us'
    this.#byUid.set(queue.endpoint.uid, queue)
    return queue
  }

  delete(queue: EndpointQueue): void {
    const { uid } = queue.endpoint
    // A delivery found after its endpoint was deleted has opened another queue.
    if (this.#byUid.get(uid) === queue) this.#byUid.delete(uid)
    this.#closed.delete(queue)
  }

  /** Hides the queue of a deleted endpoint. It still leaves with its shard. */
  close(queue: EndpointQueue): void {
    queue.close()
    this.delete(queue)
    this.#closed.add(queue)
  }

  isOurs(shard: number): boolean {
    return this.#ours.has(shard)
  }

  get shareOfShards(): number {
    return this.#ours.size / SHARD_COUNT
  }

  acquire(shards: ReadonlySet<number>): EndpointQueue[] {
    for (const shard of shards) this.#ours.add(shard)
    const queues = this.inShards(shards)
    for (const queue of queues) queue.driver = 'us'
    return queues
  }

  /** Starts nothing more in these shards. @returns queues that may have work in progress */
  release(shards: ReadonlySet<number>): EndpointQueue[] {
    for (const shard of shards) this.#ours.delete(shard)
    const closed = [...this.#closed].filter(({ shard }) => shards.has(shard))
    for (const queue of closed) this.#closed.delete(queue)
    const queues = [...this.inShards(shards), ...closed].filter(({ driver }) => driver !== 'others')
    for (const queue of queues) queue.driver = 'leaving'
    return queues
  }
}

export type DispatcherOptions = {
  /** Attempts at a time. */
  maxInFlight: number
  /** Bytes of bodies on their way at a time. */
  maxBytesInFlight: number
  /** False while nothing new may be sent (outcomes cannot be stored, the process is ending). */
  mayStart: () => boolean
  /** False while too many outcomes of an organization wait to be stored. */
  mayServe: (organization: string) => boolean
  /** False for a queue that another replica drives, or might; it is woken when that changes. */
  mayRun: (queue: EndpointQueue) => boolean
  /** Runs one attempt; resolves when the delivery no longer holds its queue. Must not reject. */
  run: (delivery: Delivery) => Promise<void>
}

/**
 * Gives turns: to organizations, and in each of them to the queues of its endpoints, one delivery per turn. Attempts and bytes in flight
 * are limited for the whole process, and an organization that has few of them always finds some: one whose receivers answer late would
 * take all places otherwise.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #runnable = new FairQueue<EndpointQueue>()
  readonly #places: SharedCapacity
  readonly #bytes: SharedCapacity
  #pumping = false

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#places = new SharedCapacity(options.maxInFlight)
    this.#bytes = new SharedCapacity(options.maxBytesInFlight)
  }

  get inFlight(): number {
    return this.#places.used
  }

  get bytesInFlight(): number {
    return this.#bytes.used
  }

  /** Only the reserve for organizations with few attempts is left. */
  get isCrowded(): boolean {
    return this.#places.isScarce || this.#bytes.isScarce
  }

  get waitingQueues(): number {
    return this.#runnable.size
  }

  wake(queue: EndpointQueue): void {
    if (!queue.listed) {
      queue.listed = true
      this.#runnable.push(queue.endpoint.namespace, queue)
    }
    this.pump()
  }

  /** Starts what may start. To be called when the answer of `mayStart` may have changed. */
  pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    try {
      while (this.#options.mayStart() && !this.#places.isFull && !this.#bytes.isFull) {
        const queue = this.#runnable.take((organization) => this.#hasRoom(organization))
        if (!queue) return
        queue.listed = false
        const delivery = this.#options.mayRun(queue) ? queue.startNext() : undefined
        if (delivery) this.#start(delivery)
      }
    } finally {
      this.#pumping = false
    }
  }

  #hasRoom(organization: string): boolean {
    const { mayServe } = this.#options
    return this.#places.hasRoom(organization) && this.#bytes.hasRoom(organization) && mayServe(organization)
  }

  #start(delivery: Delivery): void {
    const { queue, bodyBytes } = delivery
    const { namespace } = queue.endpoint
    queue.listed = true
    this.#runnable.push(namespace, queue)
    this.#places.take(namespace, 1)
    this.#bytes.take(namespace, bodyBytes)
    void this.#options.run(delivery).finally(() => {
      this.#places.give(namespace, 1)
      this.#bytes.give(namespace, bodyBytes)
      this.wake(queue)
    })
  }
}
