/**
 * The deliveries of all endpoints as lines, from three watches that may report in any order:
 *
 *   a segment contains it                              pending
 *   an outcome records an attempt or an end            retrying, succeeded, exhausted, canceled
 *   an object exists                                   the object's status, unless the log is ahead of it
 *   the log moved it to an object that was not seen    unchanged until the object is seen or must have been; then removed
 *   its object is gone                                 removed, unless it ended in the log: then it stays as long as its segment
 *   its segment is gone, and there is no object        removed
 *
 * The result depends only on what is stored, not on the order of events, so that all replicas and restarts agree.
 */

import type { AcceptedEvent, DeliveryTarget } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, nameOfMessage, timeOfName } from '../../apis/ids.ts'
import {
  decodeLogRecords,
  isShardRecord,
  type LogRecord,
  type OutcomeRecord,
  readOutcomeSegment,
} from '../../apis/outcome-segment.ts'
import { type DeliveryState, deliveryListItem, webhookDeliveryKind } from '../../apis/webhook-delivery.ts'
import { MAX_DATA_BYTES } from '../../apis/webhook-event.ts'
import { type RawObject, UnreadableError } from '../../kube/client.ts'
import { isFinal } from '../../webhooks/delivery/plan.ts'
import { MAX_ATTEMPTS } from '../../webhooks/delivery/retry-schedule.ts'
import { byteLength } from '../../webhooks/log/codec.ts'
import { ShardClaims } from '../../webhooks/log/fencing.ts'
import { attemptsOf, fold, type LogEnd, type LogState, NO_RECORDS } from '../../webhooks/log/fold.ts'
import type { Appended, LoggedEvent, LogSegment } from '../../webhooks/log/store.ts'
import { isBelowFloor, NOBODY } from './endpoint-logs.ts'
import { type LineStatus, NONE, type PackedId, packedName } from './line-table.ts'
import { type IndexedSegment, type LineContent, Lines, UNKNOWN } from './lines.ts'

type Entry = { index: number; event: LoggedEvent; endpoint: DeliveryTarget }

export type ObjectDelivery = LineStatus &
  LineContent & {
    namespace: string
    endpointUid: string
    id: PackedId
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

/** An outcome, when its segment was written, and the number of that. */
type Outcome = { record: OutcomeOfLine; version: number; writtenAt: number; number: number }

/** What is kept of an attempt. */
type Started = { at: string }

/** A success needs no time: a delivery has one. */
const SENT: Started = { at: '' }

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
  #held: { newest: number; outcomes: OutcomeBatch }[] = []
  #heldRecords = 0
  /** The failed attempts that the log has of a line. */
  readonly #failed = new Map<number, readonly Started[]>()
  /** Lines that the log moved to an object that was not seen yet, with the version of the record that says so. */
  readonly #awaited = new Map<number, number>()

  /**
   * @param capacity maximum of lines; beyond it the oldest ended ones are evicted
   * @param onLost too many records wait for their segments: everything must be read again
   */
  constructor(capacity: number, onLost: () => void) {
    this.lines = new Lines(capacity, (line) => {
      this.#awaited.delete(line)
      this.#failed.delete(line)
    })
    this.#onLost = onLost
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
      if (targets.length === 0) this.#addUndelivered(segment, event)
      for (const endpoint of targets) {
        this.#addEntry(segment, { index, event, endpoint })
        index += 1
      }
    }
  }

  /** Idempotent. */
  segment({ name, version, deliveries, undelivered = [] }: LogSegment): void {
    const count = (deliveries.at(-1)?.index ?? -1) + 1
    const segment = this.lines.segments.findOrAdd(name, version, count)
    if (segment.complete) return
    for (const entry of deliveries) this.#addEntry(segment, entry)
    for (const { event } of undelivered) this.#addUndelivered(segment, event)
    segment.complete = true
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
    for (const line of [...segment.undelivered]) lines.remove(line)
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
    if (this.#held.length === 0) return
    const held = this.#held
    this.#held = []
    for (const { newest, outcomes } of held) {
      if (newest > this.#seen) this.#held.push({ newest, outcomes })
      else {
        this.#heldRecords -= outcomes.records.length
        yield this.#apply(outcomes)
      }
    }
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
    else this.#held.push({ newest, outcomes })
  }

  /** @returns its line, or NONE */
  object(delivery: ObjectDelivery, version: number): number {
    const { lines } = this
    const { table, logs } = lines
    const log = logs.findOrAdd(delivery.namespace, delivery.endpointUid)
    let line = log.lines.find(delivery.id)
    if (line === NONE) {
      if (isFinal(delivery.state) && isBelowFloor(log, delivery.id)) {
        logs.dropIfEmpty(log)
        return NONE
      }
      line = lines.add(log, delivery.id, delivery)
      if (line === NONE) return NONE
    }
    table.setObject(line, version, isFinal(delivery.state))
    // A new object gets its status only with a second write.
    const isBehind = !isFinal(delivery.state) && table.logAttempts(line) > delivery.attempts
    if (!isBehind) lines.setStatus(line, delivery)
    this.#awaited.delete(line)
    return line
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
      lines.remove(line)
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
    for (const [line, movedAt] of this.#awaited) {
      if (movedAt > version) return
      this.#awaited.delete(line)
      this.lines.remove(line)
    }
  }

  #addEntry(segment: IndexedSegment, { index, event, endpoint }: Entry): void {
    if (segment.lines[index] !== UNKNOWN) return
    segment.lines[index] = NONE
    const id = packedName(event.id)
    if (!id) return
    const log = this.lines.logs.findOrAdd(event.namespace, endpoint.uid)
    const held = log.lines.find(id)
    const sharesBody = event.receivers > 1
    const line = held === NONE ? this.lines.add(log, id, { ...event, sharesBody }) : held
    if (line !== NONE && this.#isFirstOffset(line, segment, index)) this.lines.setOffset(line, segment, index)
  }

  /** An event that nobody gets has ended, so that such lines are evicted like those of other endpoints. */
  #addUndelivered(segment: IndexedSegment, event: LoggedEvent): void {
    const id = packedName(event.id)
    if (!id) return
    const log = this.lines.logs.findOrAdd(event.namespace, NOBODY)
    if (log.lines.find(id) !== NONE) return
    const line = this.lines.add(log, id, { ...event, sharesBody: false })
    if (line === NONE) return
    this.lines.setStatus(line, { state: 'succeeded', attempts: 0, at: timeOfName(event.id) })
    this.lines.setUndelivered(line, segment)
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

  #apply({ name, version, writtenAt, writer, records }: OutcomeBatch): void {
    const number = this.lines.outcomes.add(name)
    this.lines.outcomes.hold(number)
    for (const record of records) {
      if (isShardRecord(record)) continue
      const line = this.lines.segments.lineAt(record.position)
      if (line === NONE || this.#isFenced(line, version, writer)) continue
      const before = this.#logState(line)
      const state = fold(before, { record, version }, ({ at }) => ({ at }))
      if (state === before) continue
      if (record.kind === 'moved') this.#applyMove(line, version)
      else if (record.kind === 'canceled' && record.reason === 'Duplicate') this.#applyDuplicate(line)
      else if (isOutcome(record)) this.#applyOutcome(line, state, { record, version, writtenAt, number })
    }
    this.lines.outcomes.release(number)
  }

  /** Whether another replica had claimed the shard before: the word of this one does not count. */
  #isFenced(line: number, version: number, writer: string): boolean {
    const log = this.lines.logs.of(line)
    return log !== undefined && this.#claims.isFenced(log.shard, version, writer)
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

  #applyOutcome(
    line: number,
    state: LogState<Started>,
    { record, version, writtenAt, number }: Outcome,
  ): void {
    const { table } = this.lines
    const { end, failed } = state
    const isAttempt = record.kind !== 'canceled'
    if (isAttempt) this.lines.addOutcomes(line, number)
    const attempts = Math.min(MAX_ATTEMPTS, attemptsOf(state).length)
    table.setLogOutcome(line, { end, attempts, endVersion: state.endVersion })
    if (failed.length > 0) this.#failed.set(line, failed)
    if (end !== 'none') this.#awaited.delete(line)
    const before = table.status(line)
    // An object that is as far, or has ended, takes precedence.
    const isBehind = !isAttempt || table.objectEnded(line) || before.attempts >= attempts
    if (table.hasObject(line) && isBehind) return
    const next = record.kind === 'failed' ? record.nextAttemptAt : Number.NaN
    if (end === 'none') {
      const at = Number.isNaN(before.at) || next > before.at ? next : before.at
      this.lines.setStatus(line, { state: 'retrying', attempts, at })
    } else {
      const at = state.endVersion === version ? endTime(record, writtenAt) : before.at
      this.lines.setStatus(line, { state: STATE_OF_END[end], attempts, at })
    }
  }

  #forgetLog(line: number): void {
    this.lines.forgetLog(line)
    this.#failed.delete(line)
  }
}

function isOutcome(record: OutcomeRecord): record is OutcomeOfLine {
  return record.kind === 'sent' || record.kind === 'failed' || record.kind === 'canceled'
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
  const { metadata, spec, status = {} } = deliveryListItem.parse(raw)
  const name = nameOfMessage(spec.deliveryId)
  const id = name === undefined ? undefined : packedName(name)
  // The name must follow from the spec, or the object would be found for one delivery and listed for another.
  if (name === undefined || !id || metadata.name !== deliveryObjectName(name, spec.endpointUid))
    throw new UnreadableError(webhookDeliveryKind.kind, `${metadata.namespace}/${metadata.name}`)
  const state = status.state ?? 'pending'
  return {
    namespace: metadata.namespace,
    endpointUid: spec.endpointUid,
    id,
    type: spec.eventType,
    redeliveryOf: spec.redeliveryOf,
    bodyBytes: spec.payload ?? spec.payloadRef?.bytes ?? MAX_DATA_BYTES,
    // An object has its own copy of a small body.
    sharesBody: spec.payload === undefined,
    state,
    attempts: status.attemptCount ?? 0,
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
