/**
 * Takes segments of the log in, in their order: new ones as they come, and at the start those read back. Entries of
 * shards that another replica owns are left alone: here they stay open, so that the low-water mark never passes them.
 */
import type { OutcomeRecord } from '../../api/outcome-record.ts'
import { formatPosition } from '../../api/position.ts'
import type { WebhookDeliveryStatus } from '../../api/webhook-delivery.ts'
import { afterAttempt, setAsideStatus } from '../../domain/delivery.ts'
import { deliveryObjectName, messageId } from '../../domain/message-id.ts'
import { isRestored } from '../../domain/restored.ts'
import type { LogDelivery, LogSegment } from '../../ports/delivery-log.ts'
import type { KeyIndex } from '../delivery-log/key-index.ts'
import { aboutEndpoint } from '../endpoint/about-endpoint.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryPlane } from './delivery-plane.ts'
import { moveToObject } from './move-to-object.ts'
import type { OpenSegment } from './open-segments.ts'

/** An entry that was open when the process before ended. */
type Unresolved = {
  opened: OpenSegment
  entry: LogDelivery
  /** What is known of its attempts. */
  records: readonly OutcomeRecord[]
  /** Starts that went on with it, whose processes ended before anything came of it. */
  starts: number
}

/** What the object of an unresolved entry says of it, where there is one. */
export type FoundObject = { namespace: string; name: string; attemptCount: number; final: boolean }

/** An entry that so many starts did not bring to an end is set aside. */
const MAX_STARTS = 2

export class LogIntake {
  readonly #plane: DeliveryPlane
  readonly #keys: KeyIndex
  /** By `<namespace>/<name of the object>`. */
  #unresolved = new Map<string, Unresolved>()

  constructor(plane: DeliveryPlane, keys: KeyIndex) {
    this.#plane = plane
    this.#keys = keys
  }

  /** A segment that was appended while this process watches. */
  take(segment: LogSegment): void {
    const opened = this.#open(segment)
    if (!opened) return
    for (const entry of segment.deliveries)
      if (this.#isWanted(opened, entry)) this.#plane.takeEntry(opened, entry)
    this.#plane.showLater(opened)
  }

  /** Segments that were there at the start, with the records of their deliveries. */
  readBack(segments: readonly LogSegment[], records: ReadonlyMap<string, readonly OutcomeRecord[]>): void {
    for (const segment of [...segments].sort((a, b) => a.version - b.version)) {
      const opened = this.#open(segment)
      if (!opened) continue
      for (const entry of segment.deliveries) {
        const known = records.get(formatPosition({ version: segment.version, index: entry.index })) ?? []
        if (known.some(isClosing)) {
          // Its key goes on making later places repeats.
          this.#isRepeat(segment, entry)
          this.#plane.ctx.segments.close(opened)
        } else if (this.#isWanted(opened, entry)) {
          const records = known.filter(({ kind }) => kind !== 'reopened')
          this.#unresolved.set(keyOf(entry), {
            opened,
            entry,
            records,
            starts: known.length - records.length,
          })
        }
      }
    }
  }

  /**
   * An object was found. Its entry is closed, if that was not recorded.
   * @returns true when the log knows more than the object's status: then the log goes on with the delivery
   */
  found(object: FoundObject): boolean {
    const key = `${object.namespace}/${object.name}`
    const unresolved = this.#unresolved.get(key)
    if (!unresolved) return false
    const behind = !object.final && unresolved.records.length > object.attemptCount
    if (behind) return true
    this.#unresolved.delete(key)
    const { opened, entry } = unresolved
    const position = { version: opened.segment.version, index: entry.index }
    const { ctx } = this.#plane
    ctx.background(ctx.outcomes.record({ kind: 'moved', position }).then(() => ctx.segments.close(opened)))
    return false
  }

  /**
   * All objects were seen: what has none is attempted (again), or gets the object that it is owed. What processes
   * ended over again and again is set aside.
   * @returns how many; when it is durable that this start goes on with them
   */
  async resolve(): Promise<number> {
    const left = [...this.#unresolved.values()]
    this.#unresolved = new Map()
    const segments = new Set<OpenSegment>()
    const reopened: Promise<void>[] = []
    for (const { opened, entry, records, starts } of left) {
      segments.add(opened)
      if (records.length > 0) this.#owe(this.#plane.takeEntry(opened, entry, 'sending'), statusOf(records))
      else if (starts >= MAX_STARTS) this.#setAside(this.#plane.takeEntry(opened, entry, 'sending'))
      else {
        const { version, index } = this.#plane.takeEntry(opened, entry)
        reopened.push(this.#plane.ctx.outcomes.record({ kind: 'reopened', position: { version, index } }))
      }
    }
    for (const opened of segments) this.#plane.showLater(opened)
    await Promise.all(reopened)
    return left.length
  }

  #open(segment: LogSegment): OpenSegment | undefined {
    const { ctx } = this.#plane
    this.#noteUnsent(segment)
    const opened = ctx.segments.add(segment)
    if (opened) {
      const { name, unreadable: lines } = segment
      if (lines > 0)
        ctx.log.error('Deliveries of the log cannot be read and are left out', { segment: name, lines })
      return opened
    }
    // Behind the mark: only its keys still matter.
    for (const entry of segment.deliveries) this.#isRepeat(segment, entry)
    return undefined
  }

  /** Who was told that nobody gets an event must not see another place of its key delivered. */
  #noteUnsent(segment: LogSegment): void {
    const { unsent = [], deliveries, version } = segment
    if (unsent.length === 0 || isRestored(segment.writtenAt, segment.createdAt)) return
    const now = this.#plane.ctx.clock.now()
    const places = [
      ...unsent.map(({ eventIndex, ...event }) => ({ eventIndex, event })),
      ...deliveries.map(({ eventIndex, event }) => ({ eventIndex, event })),
    ]
    places.sort((a, b) => a.eventIndex - b.eventIndex)
    for (const { eventIndex, event } of places) this.#keys.isRepeat(event, version, eventIndex, now)
  }

  #isWanted(opened: OpenSegment, entry: LogDelivery): boolean {
    const { segment } = opened
    const { ctx } = this.#plane
    const restored = isRestored(segment.writtenAt, segment.createdAt)
    const repeat = !restored && this.#isRepeat(segment, entry)
    // Only after its key was looked at: later places of it may be ours.
    if (!this.#plane.owns(entry.endpoint.uid)) return false
    if (!restored && !repeat) return true
    const position = { version: segment.version, index: entry.index }
    const reason = restored ? 'Restored' : 'Duplicate'
    ctx.background(
      ctx.outcomes.record({ kind: 'canceled', position, reason }).then(() => ctx.segments.close(opened)),
    )
    return false
  }

  #isRepeat(segment: Pick<LogSegment, 'version'>, entry: LogDelivery): boolean {
    return this.#keys.isRepeat(entry.event, segment.version, entry.eventIndex, this.#plane.ctx.clock.now())
  }

  #setAside(delivery: Delivery): void {
    const { ctx } = this.#plane
    const id = messageId(delivery.name)
    const { endpoint } = delivery.lane
    ctx.log.warn('A delivery was set aside', {
      delivery: id,
      namespace: endpoint.namespace,
      endpoint: endpoint.name,
    })
    const view = ctx.directory.find(endpoint)
    if (view) {
      const message = `Davit ended ${MAX_STARTS + 1} times while ${id} was under way; it goes on apart from the others, and later.`
      const event = { type: 'Warning', reason: 'SetAside', message } as const
      ctx.events.record(aboutEndpoint(view.endpoint.metadata), event)
    }
    this.#owe(delivery, setAsideStatus(ctx.clock.now(), ctx.waitScale))
  }

  /** What its object will say is known, the object is not there. */
  #owe(delivery: Delivery, status: WebhookDeliveryStatus): void {
    const { home } = delivery
    if (home.kind !== 'log') return
    home.status = status
    delivery.attempts = home.status.attemptCount ?? 0
    const { ctx } = this.#plane
    ctx.background(
      moveToObject(ctx, delivery, home).then(() => {
        if (delivery.left) return
        delivery.stage = 'waiting'
        delivery.dueAt = Date.parse(home.status?.nextAttemptAt ?? '') || 0
        ctx.wait(delivery)
      }),
    )
  }
}

function isClosing(record: OutcomeRecord): boolean {
  return record.kind === 'moved' || record.kind === 'canceled' || (record.kind === 'sent' && !record.object)
}

function statusOf(records: readonly OutcomeRecord[]): WebhookDeliveryStatus {
  let status: WebhookDeliveryStatus = {}
  for (const record of records) {
    if (record.kind !== 'sent' && record.kind !== 'failed') continue
    const endedAt = Date.parse(record.attempt.at) + record.attempt.latencyMs
    const result = { succeeded: record.kind === 'sent', attempt: record.attempt }
    status = afterAttempt(status, result, { endedAt, policy: { ordered: false, scale: 1 }, fraction: 0 })
    if (record.kind === 'failed' && status.state === 'retrying') {
      status = { ...status, nextAttemptAt: new Date(record.nextAttemptAt).toISOString() }
    }
  }
  return status
}

function keyOf(entry: LogDelivery): string {
  return `${entry.event.namespace}/${deliveryObjectName(entry.event.id, entry.endpoint.uid)}`
}
