import type { CancelReason, WebhookDelivery, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { Fifo } from '../../lib/fair-queue.ts'
import type { AttemptClass } from '../../lib/metrics.ts'
import type { Clock } from '../../lib/time.ts'
import type { EndpointIdentity } from '../endpoints/directory.ts'
import type { LeftOut } from '../endpoints/plan.ts'
import { isFromWebhookEvent } from '../events/plan.ts'
import { isBodyShared } from '../log/codec.ts'
import { type LogState, NO_RECORDS } from '../log/fold.ts'
import type { LogSize } from '../log/retention-plan.ts'
import type { LogDelivery, LogSegment } from '../log/store.ts'
import type { EventBody } from './payloads.ts'
import { longestWaitMs } from './retry-schedule.ts'

/**
 * The state of the engine in memory: pending deliveries, the queue of each endpoint, open entries of the log. There may be
 * hundreds of thousands of deliveries, so each is slim: the payload stays in its segment or object.
 */

/**
 * queued   may start when its queue allows it
 * waiting  a timer will queue it when its next attempt is due; or another replica drives it
 * sending  an attempt is in progress, or its outcome is being stored
 * passed   pending, but those behind it go on: its end is recorded and its object follows, or it cannot be read
 * ended    nothing more happens
 */
export type Stage = 'queued' | 'waiting' | 'sending' | 'passed' | 'ended'

/** By a quota or a policy: since when, milliseconds since 1970, and how the API server first put it. */
export type ObjectRejection = { since: number; message: string }

export type InLog = {
  kind: 'log'
  segment: OpenSegment
  entry: LogDelivery
  /** The result of attempts from the log; absent before the first. */
  status?: WebhookDeliveryStatus
  /** The object is being created; settles when it exists or cannot be created now. */
  promotion?: Promise<void> | undefined
  /** Its object is rejected. Set by `EndpointQueue.markRejected`. */
  rejection?: ObjectRejection
  /** Since when Davit has no right to create it, monotonic. */
  lacksRightSince?: number
  /** A call to create it was made, here or by an earlier owner, and may still take effect. Its end then needs an object as well. */
  objectMayExist?: boolean
  /** When such a call was last known to be unanswered, monotonic. */
  unansweredAt?: number
}

export const IN_OBJECT = { kind: 'object' } as const

export type Delivery = {
  readonly name: string
  readonly queue: EndpointQueue
  readonly version: number
  readonly index: number
  /** When the event was accepted, milliseconds since 1970. */
  readonly acceptedAt: number
  /** Whether its event is, or may be, a WebhookEvent, which is done when all its deliveries have ended. */
  readonly ofWebhookEvent: boolean
  /** Of its body, or the most that it may have if that is not known. */
  readonly bodyBytes: number
  /** Other deliveries may refer to the same body. */
  readonly sharesBody: boolean
  attempts: number
  /** When the next attempt is due, milliseconds since 1970; 0 for at once. */
  dueAt: number
  stage: Stage
  /** It has ended, or this process no longer tracks it. */
  left: boolean
  storage: InLog | typeof IN_OBJECT
  /** Its attempt may have ended an earlier owner: it is tried when no other such attempt is made. */
  isSuspect?: boolean
  /** The version in which its object shows its end, if this process wrote or read it. */
  endVersion?: string
  /** Its object, if this process created it during the attempt in progress. */
  created?: ObjectState | undefined
}

/** What a decision on the next status of an object is made on. `status`: absent if none is written yet. */
export type ObjectState = { version: string; status: WebhookDeliveryStatus | undefined }

export function stateOf({ metadata, status }: WebhookDelivery): ObjectState {
  return { version: metadata.resourceVersion, status }
}

export function deliveryFromEntry(
  queue: EndpointQueue,
  opened: OpenSegment,
  entry: LogDelivery,
  stage: Stage = queue.driver === 'us' ? 'queued' : 'waiting',
): Delivery {
  const { event, index } = entry
  return {
    name: event.id,
    queue,
    version: opened.segment.version,
    index,
    acceptedAt: opened.segment.writtenAt,
    ofWebhookEvent: isFromWebhookEvent(event),
    bodyBytes: event.bodyBytes,
    sharesBody: isBodyShared(event),
    attempts: 0,
    dueAt: 0,
    stage,
    left: false,
    storage: { kind: 'log', segment: opened, entry },
  }
}

/** The body of an entry that is open. */
export function bodyOf({ segment, entry }: InLog): EventBody {
  const body = segment.bodies.get(entry.eventIndex)
  if (!body) throw new Error('log entry has no event')
  return body
}

/** When the next attempt is due, milliseconds since 1970. Caps a time that was stored by a clock running ahead. */
export function dueTime(
  { dueAt, attempts }: Pick<Delivery, 'dueAt' | 'attempts'>,
  { clock, waitScale }: { clock: Pick<Clock, 'now'>; waitScale: number },
): number {
  return Math.min(dueAt, clock.now() + longestWaitMs(attempts, waitScale))
}

function compareDeliveries(a: Delivery, b: Delivery): number {
  return a.version - b.version || a.index - b.index
}

/** `us`: sends here. `leaving`: attempts in progress finish, none start. `others`: sent by another replica, or none. */
export type QueueDriver = 'us' | 'leaving' | 'others'

/** Failed attempts since the last 2xx: how many, since when (milliseconds since 1970), and the class of the last. */
export type Failing = { attempts: number; since: number; class: AttemptClass }

/** Above so many attempts whose outcome is not stored yet an endpoint waits, so that it does not take what all share. */
const MAX_SETTLING = 256
/** Ended deliveries that may stay listed at the head of the log's order. */
const MAX_SLACK = 32

/**
 * The pending deliveries of one endpoint. Unordered: they start in the order in which they became due, up to `concurrency` at a
 * time. Ordered: only the head of the log's order starts (interface §6.5). An endpoint may switch between the two.
 */
export class EndpointQueue {
  readonly endpoint: EndpointIdentity
  readonly shard: number
  driver: QueueDriver = 'others'
  /** Nothing starts: its endpoint is disabled, not known yet, or has no keys yet. */
  paused = true
  /** Its endpoint is gone: a delivery that returns from an attempt is canceled. */
  closed = false
  /** Attempts whose outcome is not wholly stored. */
  settling = 0
  busy = 0
  /** Its endpoint is disabled, so its deliveries are held. Changed only by PendingCounters, which counts both ways. */
  held = false
  listed = false
  /** Monotonic. */
  lastSuccess = Number.NEGATIVE_INFINITY
  /** Undefined if its last attempt succeeded; `unseen` if this process has made none. */
  failing: Failing | 'unseen' | undefined = 'unseen'
  readonly #members = new Set<Delivery>()
  readonly #passed = new Set<Delivery>()
  /** Members whose object is rejected, and some for which that is over. */
  readonly #rejected = new Set<Delivery>()
  readonly #queue = new Fifo<Delivery>()
  /** Members in the log's order; kept only while the endpoint is ordered. */
  #sequence: Delivery[] | undefined
  #head = 0
  leftOut: LeftOut | undefined
  #inFlight = 0
  #concurrency = 8
  #bytes = 0
  /** Shrinks to 1 while attempts take too long, so that a hanging or slow endpoint does not use up the attempts of all. */
  #window = 8

  constructor(endpoint: EndpointIdentity) {
    this.endpoint = endpoint
    this.shard = shardOf(endpoint.uid)
  }

  get size(): number {
    return this.#members.size
  }

  /** How the API server put it that it rejects the object of a delivery that has not ended; undefined if it rejects none. */
  get rejection(): string | undefined {
    for (const delivery of this.#rejected) {
      const { storage } = delivery
      if (storage.kind === 'log' && storage.rejection) return storage.rejection.message
      this.#rejected.delete(delivery)
    }
    return undefined
  }

  /** @param storage of the delivery when its object was rejected; the delivery may have another one by now, or none */
  markRejected(delivery: Delivery, storage: InLog, rejection: ObjectRejection): void {
    storage.rejection = rejection
    if (this.#members.has(delivery)) this.#rejected.add(delivery)
  }

  get bytes(): number {
    return this.#bytes
  }

  get listedCount(): number {
    return this.#queue.size + (this.#sequence?.length ?? 0)
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get ordered(): boolean {
    return this.#sequence !== undefined
  }

  get isHeldUp(): boolean {
    if (!this.#sequence) return this.#inFlight >= this.#window
    return this.#inFlight > 0 || this.#sequence[this.#head]?.stage !== 'queued'
  }

  get isIdle(): boolean {
    return this.#inFlight === 0 && this.busy === 0
  }

  close(): void {
    this.paused = true
    this.closed = true
  }

  /** Leaves the queue to another replica. Call it while the queue is idle. */
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

  setPolicy({ ordered, concurrency }: { ordered: boolean; concurrency: number }): void {
    if (concurrency !== this.#concurrency) {
      this.#concurrency = concurrency
      this.#window = concurrency
    }
    if (ordered === this.ordered) return
    this.#queue.clear()
    if (ordered) {
      this.#sequence = [...this.#members].sort(compareDeliveries)
      this.#head = 0
    } else {
      for (const delivery of this.#sequence ?? []) if (delivery.stage === 'queued') this.#queue.push(delivery)
      this.#sequence = undefined
    }
  }

  add(delivery: Delivery): void {
    this.#members.add(delivery)
    this.#bytes += delivery.bodyBytes
    if (this.#sequence) this.#insert(this.#sequence, delivery)
    else if (delivery.stage === 'queued') this.#queue.push(delivery)
  }

  markDue(delivery: Delivery): void {
    if (delivery.stage !== 'waiting') return
    delivery.stage = 'queued'
    if (!this.#sequence) this.#queue.push(delivery)
  }

  startNext(): Delivery | undefined {
    if (this.paused || this.settling >= MAX_SETTLING) return undefined
    const delivery = this.#sequence ? this.#takeHead(this.#sequence) : this.#takeNext()
    if (!delivery) return undefined
    delivery.stage = 'sending'
    this.#inFlight += 1
    return delivery
  }

  /**
   * The attempt no longer holds the queue. @param how whether it took too long (it timed out, or was slow while others waited), and the
   * monotonic time of a success
   */
  release(how: { tookTooLong: boolean; succeededAt?: number | undefined }): void {
    this.#inFlight -= 1
    this.lastSuccess = how.succeededAt ?? this.lastSuccess
    this.#window = how.tookTooLong
      ? Math.max(1, this.#window >> 1)
      : Math.min(this.#concurrency, this.#window * 2)
  }

  /** Notes the result of an attempt in `failing`. @param startedAt milliseconds since 1970 */
  recordAttempt({ acceptedAt, attempts }: Delivery, result: AttemptClass, startedAt: number): void {
    if (result === '2xx') this.failing = undefined
    if (result === '2xx' || result === 'canceled') return
    const { failing } = this
    // Another process made the attempts before.
    const isRepeat = failing === 'unseen' && attempts > 0
    const first = { since: isRepeat ? acceptedAt : startedAt, attempts: isRepeat ? attempts : 0 }
    const before = failing === 'unseen' ? first : (failing ?? first)
    this.failing = { attempts: before.attempts + 1, since: before.since, class: result }
  }

  pass(delivery: Delivery): void {
    delivery.stage = 'passed'
    this.#passed.add(delivery)
    if (this.#sequence) this.#trim(this.#sequence)
  }

  restore(delivery: Delivery): void {
    if (!this.#passed.delete(delivery) || !this.#sequence) return
    const at = this.#sequence.indexOf(delivery)
    if (at >= 0) this.#sequence.splice(at, 1)
    if (at >= 0 && at < this.#head) this.#head -= 1
    this.#insert(this.#sequence, delivery)
  }

  remove(delivery: Delivery): void {
    delivery.stage = 'ended'
    if (this.#members.delete(delivery)) this.#bytes -= delivery.bodyBytes
    this.#passed.delete(delivery)
    this.#rejected.delete(delivery)
    if (this.#sequence) this.#trim(this.#sequence)
  }

  /** Also runs where another replica sends and nothing is ever taken. */
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

export type OpenEntry = {
  readonly entry: LogDelivery
  delivery: Delivery | undefined
  /** The queue that counts it while it has no delivery. */
  counted: EndpointQueue | undefined
  /** What the log says of it so far. */
  state: LogState
  refused: CancelReason | undefined
}

export type OpenSegment = {
  readonly segment: Omit<LogSegment, 'deliveries' | 'undelivered' | 'bodies'>
  readonly open: OpenEntries
  /** By index of the event. */
  readonly bodies: ReadonlyMap<number, EventBody>
  /** All segments that came before it, and itself. */
  readonly upTo: LogSize
}

export type UnresolvedEntry = { opened: OpenSegment; open: OpenEntry }

/** By index. Every replica closes the entries of all one by one, for which an array is many times as fast as a Map. */
export class OpenEntries {
  readonly #byIndex: (OpenEntry | undefined)[] = []
  #size: number

  constructor(entries: readonly LogDelivery[]) {
    // All fields are there from the start: a later one would move each entry in memory, in every replica.
    for (const entry of entries)
      this.#byIndex[entry.index] = {
        entry,
        delivery: undefined,
        counted: undefined,
        state: NO_RECORDS,
        refused: undefined,
      }
    this.#size = entries.length
  }

  get size(): number {
    return this.#size
  }

  get(index: number): OpenEntry | undefined {
    return this.#byIndex[index]
  }

  has(index: number): boolean {
    return this.#byIndex[index] !== undefined
  }

  /** @returns what was open */
  delete(index: number): OpenEntry | undefined {
    const open = this.#byIndex[index]
    if (!open) return undefined
    this.#byIndex[index] = undefined
    this.#size -= 1
    return open
  }

  *values(): IterableIterator<OpenEntry> {
    for (const open of this.#byIndex) if (open) yield open
  }
}
