/**
 * The deliveries of all endpoints as lines, from three watches that may report in any order:
 *
 *   a segment contains it                              pending
 *   an outcome records an attempt or an end            retrying, succeeded, exhausted, canceled
 *   an object exists                                   the object's status, unless the log is ahead of it
 *   the log moved it to an object that was not seen    unchanged until the object is seen or must have been; then removed
 *   its object is gone                                 removed, unless it ended in the log: then it stays as long as its segment;
 *                                                      its event can be read as long as its segment in any case
 *   its segment is gone, and there is no object        removed
 *
 * The result depends only on what is stored, not on the order of events, so that all replicas and restarts agree.
 */

import type { AcceptedEvent, DeliveryTarget, Position } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, nameOfMessage, timeOfName } from '../../apis/ids.ts'
import {
  decodeLogRecords,
  isShardRecord,
  type LogRecord,
  type OutcomeRecord,
  readOutcomeSegment,
} from '../../apis/outcome-segment.ts'
import {
  type DeliveryAttempt,
  type DeliveryState,
  deliveryListItem,
  webhookDeliveryKind,
} from '../../apis/webhook-delivery.ts'
import { MAX_DATA_BYTES } from '../../apis/webhook-event.ts'
import { type RawObject, UnreadableError } from '../../kube/client.ts'
import { isFinal } from '../../webhooks/delivery/plan.ts'
import { MAX_ATTEMPTS } from '../../webhooks/delivery/retry-schedule.ts'
import { byteLength, isBodyShared } from '../../webhooks/log/codec.ts'
import { ShardClaims } from '../../webhooks/log/fencing.ts'
import { attemptsOf, fold, type LogEnd, type LogState, NO_RECORDS } from '../../webhooks/log/fold.ts'
import type { Appended, LoggedEvent, LogSegment } from '../../webhooks/log/store.ts'
import { type ChangeListener, NO_LISTENER, saysMore } from './changes.ts'
import { isBelowFloor, NO_ENDPOINT } from './endpoint-logs.ts'
import { type LineStatus, NONE, PACKED_WORDS, type PackedId, packedName } from './line-table.ts'
import { type IndexedSegment, type LineContent, Lines, UNKNOWN } from './lines.ts'

type EventOfLine = Pick<LoggedEvent, 'id' | 'namespace' | 'type' | 'bodyBytes'>
type Entry = { index: number; event: LoggedEvent; endpoint: DeliveryTarget }

export type ObjectDelivery = LineStatus &
  LineContent & {
    namespace: string
    endpointUid: string
    endpointName?: string | undefined
    id: PackedId
    /** As they are stored, not validated. */
    storedAttempts?: unknown
    /** Whether it is a view without a status. */
    isUnwritten?: boolean | undefined
  }

const STATE_OF_END: Record<Exclude<LogEnd, 'none'>, DeliveryState> = {
  sent: 'succeeded',
  canceled: 'canceled',
  exhausted: 'exhausted',
}

/** The records of an OutcomeSegment. `writtenAt` in milliseconds since 1970. */
export type OutcomeBatch = {
  name: string
  version: number
  writtenAt: number
  /** The start of the replica that wrote it. */
  writer: string
  records: readonly LogRecord[]
}

/** Claims that are kept for each shard: of a day in which shards change hands every quarter of an hour. */
const MAX_CLAIMS = 100

type OutcomeOfLine = Extract<OutcomeRecord, { kind: 'sent' | 'failed' | 'canceled' }>

/** A record, when its segment was written, and the number of that. */
type Written<R> = { record: R; version: number; writtenAt: number; number: number }

/** What is kept of an attempt: when it started, and the version of its record. */
type Started = { at: string; version: number }

/** A success needs neither: a delivery has one. */
const SENT: Started = { at: '', version: 0 }

/** Records that may wait for their segments: enough for minutes without that watch at full load. */
const MAX_HELD = 200_000

export class DeliveryLines {
  readonly lines: Lines
  readonly #onLost: () => void
  readonly #claims = new ShardClaims(MAX_CLAIMS)
  /** Claims before this version may have been deleted. */
  #claimsFrom = 0
  /** Claims up to this version are known. */
  #claimsUpTo = 0
  /** Every segment up to this version was added. */
  #seen = 0
  /** Outcomes that wait for their segments. */
  readonly #held = new Set<{ newest: number; outcomes: OutcomeBatch }>()
  #heldRecords = 0
  /** The failed attempts that the log has of a line. */
  readonly #failed = new Map<number, readonly Started[]>()
  /** Lines that the log moved to an object that was not seen yet, with the version of the record that says so. */
  readonly #awaited = new Map<number, number>()
  /** Lines of views without a status whose attempt is not known yet, neither from the log nor from the view. Nothing was reported of them. */
  readonly #unwritten = new Set<number>()
  readonly #changes: ChangeListener
  /** Every OutcomeSegment up to this version was added. */
  #outcomesSeen = 0
  /** Every object up to this version was added. */
  #objectsSeen = 0

  /**
   * @param capacity maximum of lines; beyond it the oldest ended ones are evicted
   * @param onLost too many records wait for their segments: everything must be read again
   * @param changes learns of every event and of every change of a delivery
   */
  constructor(capacity: number, onLost: () => void, changes = NO_LISTENER) {
    this.lines = new Lines(capacity, (line) => {
      this.#awaited.delete(line)
      this.#failed.delete(line)
      this.#unwritten.delete(line)
    })
    this.#onLost = onLost
    this.#changes = changes
  }

  get size(): number {
    return this.lines.table.size
  }

  /** Records that wait for their segments. */
  get held(): number {
    return this.#heldRecords
  }

  /** Adds what this process appended, before or after the watch reports it. */
  appended({ segment: name, version, firstDelivery }: Appended, events: readonly AcceptedEvent[]): void {
    const { segments } = this.lines
    const count = events.reduce((sum, { targets }) => sum + targets.length, firstDelivery)
    if (segments.find(name)?.complete) return
    const segment = segments.findOrAdd(name, version, count)
    let index = firstDelivery
    for (const { event: accepted, targets } of events) {
      const { payload, ...words } = accepted
      const event = { ...words, bodyBytes: byteLength(payload), receivers: targets.length }
      if (targets.length === 0) this.#addEvent(segment, event)
      for (const endpoint of targets) {
        this.#addEntry(segment, { index, event, endpoint })
        index += 1
      }
    }
  }

  /** Idempotent. */
  segment(logged: LogSegment): void {
    const { name, version, deliveries, undelivered = [] } = logged
    const count = (deliveries.at(-1)?.index ?? -1) + 1
    const segment = this.lines.segments.findOrAdd(name, version, count)
    if (segment.complete) return
    for (const entry of deliveries) this.#addEntry(segment, entry)
    for (const { event } of undelivered) this.#addEvent(segment, event)
    segment.complete = true
    if (this.#changes.wants('events', version, logged.writtenAt)) this.#reportEvents(segment, logged)
  }

  /** The events whose first position, as far as is known, is in this segment. */
  #reportEvents(segment: IndexedSegment, { version, deliveries, undelivered = [] }: LogSegment): void {
    let last = -1
    for (const { eventIndex, event, endpoint } of deliveries) {
      if (eventIndex !== last && this.#isFirstIn(segment, event, endpoint.uid))
        this.#changes.event({ version, index: eventIndex }, event)
      last = eventIndex
    }
    for (const { eventIndex, event } of undelivered)
      if (this.#isFirstIn(segment, event, NO_ENDPOINT))
        this.#changes.event({ version, index: eventIndex }, event)
  }

  #isFirstIn(segment: IndexedSegment, { id: name, namespace }: LoggedEvent, uid: string): boolean {
    const { logs, segments, table } = this.lines
    const id = packedName(name)
    if (!id) return false
    // The second is that of an event whose delivery is gone.
    return [uid, NO_ENDPOINT].every((one) => {
      const line = logs.find(namespace, one)?.lines.find(id) ?? NONE
      const first = line === NONE ? undefined : segments.at(table.segment(line))
      return !first || first === segment
    })
  }

  /** Undefined unless the whole segment was added. */
  segmentVersion(name: string): number | undefined {
    const segment = this.lines.segments.find(name)
    return segment?.complete ? segment.version : undefined
  }

  /** Lines that have an object stay. */
  segmentGone(name: string): void {
    const { lines } = this
    const segment = lines.segments.find(name)
    if (!segment) return
    for (const line of [...segment.events]) lines.remove(line)
    for (const line of segment.lines) {
      if (line === NONE || line === UNKNOWN) continue
      if (lines.table.hasObject(line)) this.#forgetLog(line)
      else lines.remove(line)
    }
    lines.segments.remove(segment)
  }

  /** To be called when all segments up to this version were added. Applies in steps the records that waited for that. */
  *segmentsSeenUpTo(version: number): IterableIterator<void> {
    this.#seen = Math.max(this.#seen, version)
    this.#changes.seenUpTo('events', this.#seen)
    if (this.#held.size === 0) return
    for (const held of this.#held) {
      if (held.newest > this.#seen) continue
      this.#held.delete(held)
      this.#heldRecords -= held.outcomes.records.length
      yield this.#apply(held.outcomes)
    }
    this.#reportOutcomesSeen()
  }

  /** To be called when all OutcomeSegments up to this version were added. */
  outcomesSeenUpTo(version: number): void {
    this.#outcomesSeen = Math.max(this.#outcomesSeen, version)
    this.#reportOutcomesSeen()
  }

  /**
   * Those that wait for their segments are still going to change something. Before the objects are known, a change would be reported as
   * the log has it, although an object may say more.
   */
  #reportOutcomesSeen(): void {
    if (this.#objectsSeen === 0) return
    let version = this.#outcomesSeen
    for (const { outcomes } of this.#held) version = Math.min(version, outcomes.version - 1)
    this.#changes.seenUpTo('outcomes', version)
  }

  /** The version up to which all claims are known: later OutcomeSegments have to come in log order. */
  get claimsUpTo(): number {
    return this.#claimsUpTo
  }

  /** Adds the claims of OutcomeSegments that a list of that version has. Call it before these segments are added. */
  claimsRead(segments: readonly OutcomeBatch[], version: number): void {
    const inOrder = segments.toSorted((a, b) => a.version - b.version)
    if (this.#claimsUpTo === 0) this.#claimsFrom = (inOrder[0]?.version ?? version + 1) - 1
    for (const segment of inOrder) this.#addClaims(segment)
    this.#claimsUpTo = Math.max(this.#claimsUpTo, version)
  }

  #addClaims(segment: OutcomeBatch): void {
    if (segment.version <= this.#claimsUpTo) return
    this.#claimsUpTo = segment.version
    for (const record of segment.records)
      if (isShardRecord(record)) this.#claims.apply(record, segment, this.#claimsFrom)
  }

  /** Each OutcomeSegment once; in any order up to `claimsUpTo`, then in log order. Records wait until their segments were seen. */
  outcomes(outcomes: OutcomeBatch): void {
    this.#addClaims(outcomes)
    const newest = newestPosition(outcomes)
    if (newest <= this.#seen) {
      this.#apply(outcomes)
      return
    }
    this.#heldRecords += outcomes.records.length
    if (this.#heldRecords > MAX_HELD) this.#onLost()
    else this.#held.add({ newest, outcomes })
  }

  /** Whether another replica had claimed the shard before: the word of this one does not count. */
  isFenced(shard: number, { version, writer }: Pick<OutcomeBatch, 'version' | 'writer'>): boolean {
    return this.#claims.isFenced(shard, version, writer)
  }

  /** @returns its line, or NONE */
  object(delivery: ObjectDelivery, version: number): number {
    const { lines } = this
    const { table, logs } = lines
    const log = logs.findOrAdd(delivery.namespace, delivery.endpointUid, delivery.endpointName)
    let line = log.lines.find(delivery.id)
    const before = line === NONE ? undefined : table.status(line)
    if (line === NONE) {
      if (isFinal(delivery.state) && isBelowFloor(log, delivery.id)) {
        logs.dropIfEmpty(log)
        return NONE
      }
      line = lines.add(log, delivery.id, delivery)
      if (line === NONE) return NONE
    }
    table.setObject(line, version, isFinal(delivery.state))
    this.#applyObjectStatus(line, delivery, { version, before })
    this.#awaited.delete(line)
    return line
  }

  #applyObjectStatus(
    line: number,
    delivery: ObjectDelivery,
    { version, before }: { version: number; before: LineStatus | undefined },
  ): void {
    const { table } = this.lines
    // A new object gets its status only with a second write.
    if (!isFinal(delivery.state) && table.logAttempts(line) > delivery.attempts) return
    this.lines.setStatus(line, delivery)
    if (delivery.isUnwritten) {
      if (table.logEnd(line) === 'none') this.#unwritten.add(line)
      return
    }
    const isFirst = this.#unwritten.delete(line)
    if (isFirst || saysMore(delivery, before)) this.#reportObject(line, delivery, version)
  }

  #reportObject(line: number, { state, at, storedAttempts }: ObjectDelivery, version: number): void {
    const writtenAt = isFinal(state) && !Number.isNaN(at) ? at : Number.POSITIVE_INFINITY
    if (this.#changes.wants('objects', version, writtenAt))
      this.#reportDelivery(line, 'objects', { version, index: 0 }, storedAttempts)
  }

  #reportDelivery(line: number, source: 'outcomes' | 'objects', position: Position, attempts: unknown): void {
    const { logs, table } = this.lines
    const log = logs.of(line)
    if (!log) return
    const id = new Uint32Array(PACKED_WORDS)
    table.copyId(line, id)
    this.#changes.delivery({ source, position, organization: log.namespace, attempts }, () => {
      // The line may be gone by then, and its number reused.
      const now = log.lines.find(id)
      if (now === NONE || logs.of(now) !== log) return undefined
      return {
        endpointName: log.name,
        name: table.name(now),
        type: this.lines.typeOf(now),
        redeliveryOf: this.lines.redeliveryOf(now),
        status: table.status(now),
        attempts,
      }
    })
  }

  /** The line of an object, or NONE. @param key `<namespace>/<26 characters of the id>-<tag>` */
  lineOfObject(key: string): number {
    const slash = key.indexOf('/')
    const id = packedName(key.slice(slash + 1, -9))
    return (id && this.lines.logs.ofObject(key)?.lines.find(id)) ?? NONE
  }

  /** Removes the line unless it still lives in the log: it ended there, or was not moved to an object. */
  objectGone(line: number): void {
    const { lines } = this
    const { table } = lines
    if (line === NONE || !table.hasObject(line)) return
    const end = table.logEnd(line)
    if (table.segment(line) === NONE || (end === 'none' && table.isMoved(line))) {
      this.#removeDelivery(line)
      return
    }
    table.setObject(line, 0, false)
    const attempts = table.logAttempts(line)
    if (end === 'none')
      lines.setStatus(line, { state: attempts > 0 ? 'retrying' : 'pending', attempts, at: Number.NaN })
    else lines.setStatus(line, { state: STATE_OF_END[end], attempts, at: table.status(line).at })
  }

  /** To be called when all objects up to this version were added. An object that was awaited by then is gone again. */
  objectsSeenUpTo(version: number): void {
    this.#objectsSeen = Math.max(this.#objectsSeen, version)
    // A client that has read what an object says, and continues on another server, must not read there what the log said before.
    this.#reportOutcomesSeen()
    this.#changes.seenUpTo('objects', version)
    for (const [line, movedAt] of this.#awaited) {
      if (movedAt > version) return
      this.#awaited.delete(line)
      this.#removeDelivery(line)
    }
  }

  /** The delivery is gone, but the log may still have its event. */
  #removeDelivery(line: number): void {
    const { lines } = this
    const { table } = lines
    const { namespace } = lines.logs.of(line) ?? {}
    const segment = lines.segments.at(table.segment(line))
    const event = { id: table.name(line), type: lines.typeOf(line), bodyBytes: table.bodyBytes(line) }
    lines.remove(line)
    if (segment && namespace !== undefined) this.#addEvent(segment, { ...event, namespace })
  }

  #addEntry(segment: IndexedSegment, { index, event, endpoint }: Entry): void {
    if (segment.lines[index] !== UNKNOWN) return
    segment.lines[index] = NONE
    const id = packedName(event.id)
    if (!id) return
    const log = this.lines.logs.findOrAdd(event.namespace, endpoint.uid, endpoint.name)
    const held = log.lines.find(id)
    const sharesBody = isBodyShared(event)
    const line = held === NONE ? this.lines.add(log, id, { ...event, sharesBody }) : held
    if (line === NONE || !this.#isFirstOffset(line, segment, index)) return
    this.lines.setOffset(line, segment, index)
    this.lines.table.setReceivers(line, event.receivers)
  }

  /** An event by itself has ended, so that such lines are evicted like those of deliveries. */
  #addEvent(segment: IndexedSegment, event: EventOfLine): void {
    const id = packedName(event.id)
    if (!id) return
    const log = this.lines.logs.findOrAdd(event.namespace, NO_ENDPOINT)
    if (log.lines.find(id) !== NONE) return
    const line = this.lines.add(log, id, { ...event, sharesBody: false })
    if (line === NONE) return
    this.lines.setStatus(line, { state: 'succeeded', attempts: 0, at: timeOfName(event.id) })
    this.lines.setEvent(line, segment)
  }

  /** If a delivery is in the log several times, only the first one is delivered. */
  #isFirstOffset(line: number, segment: IndexedSegment, index: number): boolean {
    const { segments, table } = this.lines
    const other = segments.at(table.segment(line))
    if (!other) return true
    const otherIndex = table.indexInSegment(line)
    if (other.version < segment.version || (other === segment && otherIndex < index)) return false
    other.lines[otherIndex] = NONE
    return true
  }

  #apply(outcomes: OutcomeBatch): void {
    const { name, version, writtenAt, records } = outcomes
    const number = this.lines.outcomes.add(name)
    this.lines.outcomes.hold(number)
    const isWanted = this.#changes.wants('outcomes', version, writtenAt)
    for (const [index, record] of records.entries()) {
      if (isShardRecord(record)) continue
      const line = this.lines.segments.lineAt(record.position)
      const log = this.lines.logs.of(line)
      if (line === NONE || !log || this.isFenced(log.shard, outcomes)) continue
      const isNews = this.#applyRecord(line, { record, version, writtenAt, number })
      if (isNews && isWanted) this.#reportDelivery(line, 'outcomes', { version, index }, attemptsIn(record))
    }
    this.lines.outcomes.release(number)
  }

  /** @returns whether clients of event streams may need to hear of it */
  #applyRecord(line: number, { record, ...written }: Written<OutcomeRecord>): boolean {
    const before = this.#logState(line)
    const { version } = written
    const state = fold(before, { record, version }, ({ at }) => ({ at, version }))
    if (state === before) return record.kind === 'failed' && this.#isEarlier(line, record.attempt, version)
    if (record.kind === 'moved') this.#applyMove(line, version)
    else if (record.kind === 'canceled' && record.reason === 'Duplicate') this.#applyDuplicate(line)
    else if (isOutcome(record)) return this.#applyOutcome(line, state, { record, ...written })
    return false
  }

  /** A failed attempt may be in the log twice, and a list may have the later place first: clients look for it at the first one. */
  #isEarlier(line: number, { at }: DeliveryAttempt, version: number): boolean {
    const failed = this.#failed.get(line) ?? []
    const isEarlier = failed.some((known) => known.at === at && version < known.version)
    if (isEarlier)
      this.#failed.set(
        line,
        failed.map((known) => (known.at === at ? { at, version } : known)),
      )
    return isEarlier
  }

  #logState(line: number): LogState<Started> {
    const { table } = this.lines
    const [end, moved] = [table.logEnd(line), table.isMoved(line)]
    const failed = this.#failed.get(line)
    if (end === 'none' && !moved && !failed) return NO_RECORDS
    const endVersion = table.endVersion(line)
    const state = { ...NO_RECORDS, failed: failed ?? [], end, endVersion, moved }
    return end === 'sent' ? { ...state, sent: SENT } : state
  }

  #applyMove(line: number, version: number): void {
    const { table } = this.lines
    table.setMoved(line, true)
    if (!table.hasObject(line) && table.logEnd(line) === 'none') this.#awaited.set(line, version)
  }

  /** The first event with the idempotency key is the delivery; this entry is unknown to clients. */
  #applyDuplicate(line: number): void {
    if (this.lines.table.hasObject(line)) this.#forgetLog(line)
    else this.lines.remove(line)
  }

  /** @returns whether it says more of the delivery than its object does */
  #applyOutcome(
    line: number,
    state: LogState<Started>,
    { record, version, writtenAt, number }: Written<OutcomeOfLine>,
  ): boolean {
    const { table } = this.lines
    const { end, failed } = state
    const isAttempt = record.kind !== 'canceled'
    if (isAttempt) this.lines.addOutcomes(line, number)
    const attempts = Math.min(MAX_ATTEMPTS, attemptsOf(state).length)
    table.setLogOutcome(line, { end, attempts, endVersion: state.endVersion })
    if (failed.length > 0) this.#failed.set(line, failed)
    if (end !== 'none') this.#awaited.delete(line)
    const before = table.status(line)
    const isFirst = isAttempt && this.#unwritten.delete(line)
    // An object that is as far, or has ended, takes precedence.
    const isBehind = !isAttempt || table.objectEnded(line) || before.attempts >= attempts
    if (table.hasObject(line) && isBehind && !isFirst) return false
    const next = record.kind === 'failed' ? record.nextAttemptAt : Number.NaN
    if (end === 'none') {
      const at = Number.isNaN(before.at) || next > before.at ? next : before.at
      this.lines.setStatus(line, { state: 'retrying', attempts, at })
    } else {
      const at = state.endVersion === version ? endTime(record, writtenAt) : before.at
      this.lines.setStatus(line, { state: STATE_OF_END[end], attempts, at })
    }
    return true
  }

  #forgetLog(line: number): void {
    this.lines.forgetLog(line)
    this.#failed.delete(line)
  }
}

function isOutcome(record: OutcomeRecord): record is OutcomeOfLine {
  return record.kind === 'sent' || record.kind === 'failed' || record.kind === 'canceled'
}

function attemptsIn(record: OutcomeRecord): readonly DeliveryAttempt[] {
  return 'attempt' in record ? [record.attempt] : []
}

/** A canceled delivery ended when that was written. */
function endTime(record: OutcomeOfLine, writtenAt: number): number {
  return record.kind === 'canceled' ? writtenAt : Date.parse(record.attempt.at) + record.attempt.latencyMs
}

/** Ignores positions above the batch's own version, which are invalid: the batch would wait for ever. */
function newestPosition({ version, records }: OutcomeBatch): number {
  let newest = 0
  for (const record of records)
    if (!isShardRecord(record) && record.position.version < version)
      newest = Math.max(newest, record.position.version)
  return newest
}

/** @throws ZodError, UnreadableError if Davit did not make it */
export function readObjectDelivery(raw: RawObject): ObjectDelivery {
  const { metadata, spec, status = {}, isUnwritten } = deliveryListItem.parse(raw)
  const name = nameOfMessage(spec.deliveryId)
  const id = name === undefined ? undefined : packedName(name)
  // The name must follow from the spec, or the object would be found for one delivery and listed for another.
  if (name === undefined || !id || metadata.name !== deliveryObjectName(name, spec.endpointUid))
    throw new UnreadableError(webhookDeliveryKind.kind, `${metadata.namespace}/${metadata.name}`)
  const state = status.state ?? 'pending'
  return {
    namespace: metadata.namespace,
    endpointUid: spec.endpointUid,
    endpointName: spec.endpoint,
    id,
    type: spec.eventType,
    redeliveryOf: spec.redeliveryOf,
    bodyBytes: spec.payload ?? spec.payloadRef?.bytes ?? MAX_DATA_BYTES,
    // An object has its own copy of a small body.
    sharesBody: spec.payload === undefined,
    state,
    attempts: status.attemptCount ?? 0,
    storedAttempts: status.attempts,
    isUnwritten,
    at: Date.parse((isFinal(state) ? status.completedAt : status.nextAttemptAt) ?? ''),
  }
}

/** What is kept of an OutcomeSegment until all claims are read. */
export function withClaimsOnly(segment: OutcomeBatch): OutcomeBatch {
  return { ...segment, records: segment.records.filter(isShardRecord) }
}

/** Skips unreadable records. @throws ZodError */
export function readOutcomeBatch(raw: RawObject): OutcomeBatch {
  const { metadata, spec } = readOutcomeSegment(raw)
  return {
    name: metadata.name,
    version: Number(metadata.resourceVersion),
    writtenAt: spec.writtenAt,
    writer: spec.writer,
    records: decodeLogRecords(spec).records,
  }
}
