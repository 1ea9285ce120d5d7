/**
 * The deliveries of one endpoint that have not come to their end, and which of them may start now.
 *
 * Unordered: queued deliveries in the order in which they became due, up to `concurrency` at a time. Ordered:
 * the head of the log's order alone; the next starts only when the head has ended (interface §6.5). An endpoint
 * may change between the two at any time: what is under way ends first.
 */
import { shardOf } from '../../ha/shard.ts'
import type { AttemptClass } from '../../lib/metrics.ts'
import { Fifo } from '../../lib/semaphore.ts'
import { compareDeliveries, type Delivery, type Stage } from './delivery.ts'

export type EndpointRef = { readonly namespace: string; readonly name: string; readonly uid: string }
/**
 * Which replica drives it: this one; this one ends what is under way, and begins nothing; another one, or nobody.
 */
export type QueueDriver = 'us' | 'leaving' | 'others'
export type QueuePolicy = { ordered: boolean; concurrency: number }

/** Attempts since the last that was answered with 2xx: how many, since when (milliseconds since 1970), and how the last one ended. */
export type Failing = { attempts: number; since: number; class: AttemptClass }

/** Beyond so much that is not wholly stored an endpoint waits, so that it does not use up what all share. */
const MAX_SETTLING = 256
/** Deliveries that have ended and are still listed in the log's order, while others follow. */
const MAX_SLACK = 32

export class EndpointQueue {
  readonly endpoint: EndpointRef
  readonly shard: number
  driver: QueueDriver = 'others'
  /** Its endpoint is disabled, not known yet, or has no keys yet: nothing starts. */
  paused = true
  /** Its endpoint is gone: what comes back from an attempt is canceled. */
  closed = false
  /** What was attempted and is not wholly stored. */
  settling = 0
  /** Pieces of work on its deliveries beside attempts, those that settle among them. */
  busy = 0
  /** Its endpoint is disabled: what it has is held. Changed through the tally alone, which counts both ways. */
  held = false
  /** Listed with the dispatcher, so that it is listed once. */
  listed = false
  /** Monotonic time of the last attempt that was answered with 2xx. */
  lastSuccess = Number.NEGATIVE_INFINITY
  /** Undefined when its last attempt succeeded; `unseen` when this process has made none. */
  failing: Failing | 'unseen' | undefined = 'unseen'
  readonly #members = new Set<Delivery>()
  /** Members that the others do not wait for. */
  readonly #passed = new Set<Delivery>()
  readonly #queue = new Fifo<Delivery>()
  /** Members in the log's order; kept only while the endpoint is ordered. */
  #sequence: Delivery[] | undefined
  #head = 0
  #inFlight = 0
  #concurrency = 8
  #bytes = 0
  /** Shrinks to 1 while attempts time out, so that endpoints that hang do not use up all attempts at a time. */
  #window = 8

  constructor(endpoint: EndpointRef) {
    this.endpoint = endpoint
    this.shard = shardOf(endpoint.uid)
  }

  get size(): number {
    return this.#members.size
  }

  /** Bytes of their payloads. */
  get bytes(): number {
    return this.#bytes
  }

  /** Places that its lists take up, those of deliveries that have ended included. */
  get places(): number {
    return this.#queue.size + (this.#sequence?.length ?? 0)
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get ordered(): boolean {
    return this.#sequence !== undefined
  }

  /** What is due waits for what is under way, or, where it is ordered, for its head. */
  get isHeldUp(): boolean {
    if (!this.#sequence) return this.#inFlight >= this.#window
    return this.#inFlight > 0 || this.#sequence[this.#head]?.stage !== 'queued'
  }

  /** Nothing of it is under way. */
  get isIdle(): boolean {
    return this.#inFlight === 0 && this.busy === 0
  }

  close(): void {
    this.paused = true
    this.closed = true
  }

  /** Somebody else drives it from here on: nothing is queued. Call it while it is idle. */
  detach(): void {
    this.driver = 'others'
    this.failing = 'unseen'
    this.#queue.clear()
    for (const delivery of this.#members) {
      delivery.stage = 'waiting'
      this.restore(delivery)
    }
  }

  members(): IterableIterator<Delivery> {
    return this.#members.values()
  }

  setPolicy(policy: QueuePolicy): void {
    if (policy.concurrency !== this.#concurrency) {
      this.#concurrency = policy.concurrency
      this.#window = policy.concurrency
    }
    if (policy.ordered === this.ordered) return
    this.#queue.clear()
    if (policy.ordered) {
      this.#sequence = [...this.#members].sort(compareDeliveries)
      this.#head = 0
    } else {
      for (const delivery of this.#sequence ?? []) if (delivery.stage === 'queued') this.#queue.push(delivery)
      this.#sequence = undefined
    }
  }

  /** Takes in a delivery of the log or of an object; in any order. */
  add(delivery: Delivery): void {
    this.#members.add(delivery)
    this.#bytes += delivery.bytes
    if (this.#sequence) this.#insert(this.#sequence, delivery)
    else if (delivery.stage === 'queued') this.#queue.push(delivery)
  }

  /** Its next attempt has become due. */
  markDue(delivery: Delivery): void {
    if (delivery.stage !== 'waiting') return
    delivery.stage = 'queued'
    if (!this.#sequence) this.#queue.push(delivery)
  }

  /** The delivery that may start now; it is under way from then on, until `release`. */
  startNext(): Delivery | undefined {
    if (this.paused || this.settling >= MAX_SETTLING) return undefined
    const delivery = this.#sequence ? this.#takeHead(this.#sequence) : this.#takeNext()
    if (!delivery) return undefined
    delivery.stage = 'sending'
    this.#inFlight += 1
    return delivery
  }

  /** The attempt no longer holds the lane. @param how whether it timed out, and the monotonic time of a success */
  release(how: { timedOut: boolean; succeededAt?: number | undefined }): void {
    this.#inFlight -= 1
    this.lastSuccess = how.succeededAt ?? this.lastSuccess
    this.#window = how.timedOut
      ? Math.max(1, this.#window >> 1)
      : Math.min(this.#concurrency, this.#window * 2)
  }

  /** An attempt has ended. @param startedAt milliseconds since 1970 */
  recordAttempt({ acceptedAt, attempts }: Delivery, result: AttemptClass, startedAt: number): void {
    if (result === '2xx') this.failing = undefined
    if (result === '2xx' || result === 'canceled') return
    const { failing } = this
    // What came before was another process's to see.
    const isRepeat = failing === 'unseen' && attempts > 0
    const first = { since: isRepeat ? acceptedAt : startedAt, attempts: isRepeat ? attempts : 0 }
    const before = failing === 'unseen' ? first : (failing ?? first)
    this.failing = { attempts: before.attempts + 1, since: before.since, class: result }
  }

  /** It stays pending, and those behind it go on. */
  pass(delivery: Delivery): void {
    delivery.stage = 'passed'
    this.#passed.add(delivery)
    if (this.#sequence) this.#trim(this.#sequence)
  }

  /** Those behind it wait for it again, where they did not. */
  restore(delivery: Delivery): void {
    if (!this.#passed.delete(delivery) || !this.#sequence) return
    const at = this.#sequence.indexOf(delivery)
    if (at >= 0) this.#sequence.splice(at, 1)
    if (at >= 0 && at < this.#head) this.#head -= 1
    this.#insert(this.#sequence, delivery)
  }

  /** The delivery has come to its end or has left this process. */
  remove(delivery: Delivery): void {
    delivery.stage = 'ended'
    if (this.#members.delete(delivery)) this.#bytes -= delivery.bytes
    this.#passed.delete(delivery)
    if (this.#sequence) this.#trim(this.#sequence)
  }

  /** Also where nothing is ever taken, since another replica does. */
  #trim(sequence: Delivery[]): void {
    while (isPast(sequence[this.#head]?.stage)) this.#head += 1
    const isLong = this.#head > MAX_SLACK && this.#head * 2 > sequence.length
    if (isLong || this.#head === sequence.length) {
      sequence.splice(0, this.#head)
      this.#head = 0
    }
  }

  #takeHead(sequence: Delivery[]): Delivery | undefined {
    this.#trim(sequence)
    const head = sequence[this.#head]
    return this.#inFlight === 0 && head?.stage === 'queued' ? head : undefined
  }

  #takeNext(): Delivery | undefined {
    if (this.#inFlight >= this.#window) return undefined
    for (;;) {
      const next = this.#queue.shift()
      if (!next || next.stage === 'queued') return next
    }
  }

  /** Nearly always at the end: the log is read in its order. */
  #insert(sequence: Delivery[], delivery: Delivery): void {
    let at = sequence.length
    while (at > this.#head) {
      const before = sequence[at - 1]
      if (!before || compareDeliveries(before, delivery) <= 0) break
      at -= 1
    }
    sequence.splice(at, 0, delivery)
  }
}

function isPast(stage: Stage | undefined): boolean {
  return stage === 'ended' || stage === 'passed'
}
