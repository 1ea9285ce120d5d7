import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { CancelReason, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import type { Clock } from '../../lib/clock.ts'
import type { AttemptClass } from '../../lib/metrics.ts'
import { Fifo } from '../../lib/semaphore.ts'
import { copyString } from '../../lib/text.ts'
import { isFromWebhookEvent } from '../events/plan.ts'
import { INLINE_PAYLOAD_BYTES } from '../log/codec.ts'
import type { LogDelivery, LogSegment } from '../log/store.ts'
import { longestWaitMs } from './retry-schedule.ts'

/**
 * A delivery that has not come to its end, as the process holds it. There may be hundreds of thousands, so it
 * is slim: the payload stays in the log's segment or in the delivery's object.
 */

/**
 * queued   may start when its lane lets it
 * waiting  its next attempt is due later, and a timer will queue it; or another replica drives it
 * sending  an attempt is under way, or its outcome is being stored
 * passed   those behind it go on, though it is pending: its end is recorded and its object follows, or it cannot be read
 * ended    nothing more will happen
 */
export type Stage = 'queued' | 'waiting' | 'sending' | 'passed' | 'ended'

/** Still an entry of the log: no object shows it yet. */
export type InLog = {
  kind: 'log'
  segment: OpenSegment
  entry: LogDelivery
  /** What attempts from the log have come to; absent before the first. */
  status?: WebhookDeliveryStatus
  /** The object is being made; settles when it is there or cannot be made now. */
  promotion?: Promise<void> | undefined
  /** Since when its object cannot be made (quota, policy), milliseconds since 1970. */
  refusedSince?: number
  /** Since when Davit has no right to make it, monotonic. */
  lacksRightSince?: number
  /**
   * Whoever had it before, or a call of this process whose answer was lost, may still be about to make its object. So
   * there has to be one that shows its end: nobody else's then takes its name.
   */
  objectMayExist?: boolean
  /** When such a call was last known not to be answered yet, monotonic. */
  unansweredAt?: number
}

/** A WebhookDelivery has it, and that object's status is the truth. */
export type InObject = { kind: 'object' }
/** One for all: there may be hundreds of thousands. */
export const IN_OBJECT: InObject = { kind: 'object' }

export type Delivery = {
  /** The 26 characters of the id. */
  readonly name: string
  readonly queue: EndpointQueue
  readonly version: number
  readonly index: number
  /** When the event was accepted, milliseconds since 1970. */
  readonly acceptedAt: number
  /** Its event was made as a WebhookEvent, or may have been: whether all of that have ended is looked at. */
  readonly ofWebhookEvent: boolean
  /** What an object of it holds of its payload. */
  readonly bytes: number
  attempts: number
  /** When the next attempt is due, milliseconds since 1970; 0 for at once. */
  dueAt: number
  stage: Stage
  /** It came to its end, or is no longer this process's business. */
  left: boolean
  storage: InLog | InObject
  /** The version in which its object shows its end, where this process wrote that. */
  endVersion?: string
}

/** One that the log alone knows of; unless told otherwise it is queued where this process drives its lane. */
export function deliveryFromEntry(
  lane: EndpointQueue,
  opened: OpenSegment,
  entry: LogDelivery,
  stage: Stage = lane.driver === 'us' ? 'queued' : 'waiting',
): Delivery {
  const { event, index } = entry
  return {
    // It may wait for hours, in which the text of the segment must not stay.
    name: copyString(event.id),
    queue: lane,
    version: opened.segment.version,
    index,
    acceptedAt: opened.segment.writtenAt,
    ofWebhookEvent: isFromWebhookEvent(event),
    bytes: Math.min(event.payload.length, INLINE_PAYLOAD_BYTES),
    attempts: 0,
    dueAt: 0,
    stage,
    left: false,
    storage: { kind: 'log', segment: opened, entry },
  }
}

/**
 * When its next attempt is due, milliseconds since 1970. The clock may have been set back since that was decided: storing it takes a
 * while, and another replica may have done it.
 */
export function dueTime(
  { dueAt, attempts }: Delivery,
  { clock, waitScale }: { clock: Pick<Clock, 'now'>; waitScale: number },
): number {
  return Math.min(dueAt, clock.now() + longestWaitMs(attempts, waitScale))
}

function compareDeliveries(a: Delivery, b: Delivery): number {
  return a.version - b.version || a.index - b.index
}

/**
 * The deliveries of one endpoint that have not come to their end, and which of them may start now.
 *
 * Unordered: queued deliveries in the order in which they became due, up to `concurrency` at a time. Ordered:
 * the head of the log's order alone; the next starts only when the head has ended (interface §6.5). An endpoint
 * may change between the two at any time: what is under way ends first.
 */

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

/**
 * The entries of a segment that no record has closed, by their index. Every replica closes those of all one by one, which an
 * array takes a fraction of the time for that a Map does.
 */
class OpenEntries {
  readonly #byIndex: (OpenEntry | undefined)[] = []
  #size = 0

  constructor(entries: readonly OpenEntry[]) {
    for (const open of entries) this.#byIndex[open.entry.index] = open
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

  /** Whether it was there. */
  delete(index: number): boolean {
    if (!this.has(index)) return false
    this.#byIndex[index] = undefined
    this.#size -= 1
    return true
  }

  /** In the order of their indexes. What is closed meanwhile is left out. */
  *values(): IterableIterator<OpenEntry> {
    for (const open of this.#byIndex) if (open) yield open
  }
}

/**
 * The segments of the log that still hold something open, and the low-water mark: every delivery in a segment
 * up to that version is closed, so nothing older needs to be read after a restart. Of all shards: what is closed is what
 * the log says, whoever wrote it.
 */

/** An entry that no record has closed. */
export type OpenEntry = {
  readonly entry: LogDelivery
  /** The delivery of it in its lane. */
  delivery: Delivery | undefined
  /** The lane that it will be in: until then it is counted, and no more. */
  counted: EndpointQueue | undefined
  /** What the log says of its attempts, in order. */
  records: readonly OutcomeRecord[]
  /** It is not to be sent. */
  refused: CancelReason | undefined
}

export type OpenSegment = {
  /** Without its entries: each is held for as long as it is needed. */
  readonly segment: Omit<LogSegment, 'deliveries' | 'unsent'>
  /** Those that are not closed. */
  readonly open: OpenEntries
  readonly bytes: number
}

/** An entry of the log that no record has closed, while it is looked for its object. */
export type UnresolvedEntry = { opened: OpenSegment; open: OpenEntry }

const NO_RECORDS: readonly OutcomeRecord[] = []

/** With all that it may have: to give it something later would move it to another place in memory, in each replica. */
function openEntry(entry: LogDelivery): OpenEntry {
  return { entry, delivery: undefined, counted: undefined, records: NO_RECORDS, refused: undefined }
}

export class OpenSegments {
  /** In the order of their versions. */
  #segments: OpenSegment[] = []
  readonly #byVersion = new Map<number, OpenSegment>()
  /** The one asked for last: most records speak of the segment that the one before speaks of. */
  #recent: OpenSegment | undefined
  #lowWater: number
  #bytes = 0

  constructor(lowWater = 0) {
    this.#lowWater = lowWater
  }

  get lowWater(): number {
    return this.#lowWater
  }

  get size(): number {
    return this.#segments.length
  }

  /** Bytes of payload held for entries of the log that have no object yet. */
  get bytes(): number {
    return this.#bytes
  }

  /** Undefined when the segment is known or behind the mark. All its deliveries are open. */
  add(segment: LogSegment): OpenSegment | undefined {
    if (segment.version <= this.#lowWater || this.#byVersion.has(segment.version)) return undefined
    const { deliveries, undelivered: _, ...place } = segment
    const bytes = deliveries.reduce((sum, { event }) => sum + event.payload.length, 0)
    const open = new OpenEntries(deliveries.map(openEntry))
    const opened: OpenSegment = { segment: place, open, bytes }
    let at = this.#segments.length
    while (at > 0 && (this.#segments[at - 1]?.segment.version ?? 0) > segment.version) at -= 1
    this.#segments.splice(at, 0, opened)
    this.#byVersion.set(segment.version, opened)
    this.#bytes += bytes
    this.#advance()
    return opened
  }

  /** Undefined when it is not known, or all of it is closed. */
  at(version: number): OpenSegment | undefined {
    if (this.#recent?.segment.version !== version) this.#recent = this.#byVersion.get(version)
    return this.#recent
  }

  /** One delivery of it is closed: its end, or that an object has it, is durable. */
  close(segment: OpenSegment, index: number): void {
    if (!segment.open.delete(index) || segment.open.size > 0) return
    this.#bytes -= segment.bytes
    this.#advance()
  }

  values(): readonly OpenSegment[] {
    return this.#segments
  }

  #advance(): void {
    let closed = 0
    while (this.#segments[closed]?.open.size === 0) closed += 1
    if (closed === 0) return
    this.#recent = undefined
    for (const { segment } of this.#segments.splice(0, closed)) {
      this.#byVersion.delete(segment.version)
      this.#lowWater = segment.version
    }
  }
}
