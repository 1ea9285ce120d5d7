import type { AcceptedEvent, DeliveryTarget, SegmentEvent } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, nameOfMessage } from '../../apis/ids.ts'
import { decodeOutcomeRecords, type OutcomeRecord, readOutcomeSegment } from '../../apis/outcome-segment.ts'
import { type DeliveryState, deliveryListItem, webhookDeliveryKind } from '../../apis/webhook-delivery.ts'
import { type RawObject, UnreadableError } from '../../kube/client.ts'
import { MAX_ATTEMPTS } from '../../webhooks/delivery/retry-schedule.ts'
import { isFinal } from '../../webhooks/delivery/status.ts'
import type { Appended, LogSegment } from '../../webhooks/log/store.ts'
import { isBelowFloor } from './endpoint-logs.ts'
import { type LogEnd, NONE, type PackedId, packedName, type Standing } from './line-table.ts'
import { type IndexedSegment, Lines, UNKNOWN } from './lines.ts'

/** What was accepted into the log becomes lines: from segments as they are read, and from what this process appends. */

type Entry = { index: number; event: SegmentEvent; endpoint: DeliveryTarget }

/** The same segment a second time changes nothing. */
function addSegment(lines: Lines, { name, version, deliveries }: LogSegment): void {
  const count = (deliveries.at(-1)?.index ?? -1) + 1
  const segment = lines.segments.findOrAdd(name, version, count)
  if (segment.complete) return
  for (const entry of deliveries) takeEntry(lines, segment, entry)
  segment.complete = true
}

/** Before the watch shows it, or after. */
function addAppended(lines: Lines, place: Appended, events: readonly AcceptedEvent[]): void {
  const count = events.reduce((sum, { targets }) => sum + targets.length, place.firstDelivery)
  if (count === place.firstDelivery || lines.segments.find(place.segment)?.complete) return
  const segment = lines.segments.findOrAdd(place.segment, place.version, count)
  let index = place.firstDelivery
  for (const { event, targets } of events) {
    for (const endpoint of targets) {
      takeEntry(lines, segment, { index, event, endpoint })
      index += 1
    }
  }
}

/** What has an object stays; the log knows nothing of it any more. */
function dropSegment(lines: Lines, name: string): void {
  const segment = lines.segments.find(name)
  if (!segment) return
  for (const line of segment.lines) {
    if (line === NONE || line === UNKNOWN) continue
    if (lines.table.hasObject(line)) lines.forgetLog(line)
    else lines.remove(line)
  }
  lines.segments.remove(segment)
}

function takeEntry(lines: Lines, segment: IndexedSegment, { index, event, endpoint }: Entry): void {
  if (segment.lines[index] !== UNKNOWN) return
  segment.lines[index] = NONE
  const id = packedName(event.id)
  if (!id) return
  const log = lines.logs.findOrAdd(event.namespace, endpoint.uid)
  const held = log.lines.find(id)
  const line = held === NONE ? lines.add(log, id, event) : held
  if (line !== NONE && isFirstPlace(lines, line, segment, index)) lines.setPlace(line, segment, index)
}

/** Of several places of one delivery the first counts: the others are never delivered. */
function isFirstPlace(lines: Lines, line: number, segment: IndexedSegment, index: number): boolean {
  const other = lines.segments.at(lines.table.segment(line))
  if (!other) return true
  const otherIndex = lines.table.indexInSegment(line)
  if (other.version < segment.version || (other === segment && otherIndex < index)) return false
  other.lines[otherIndex] = NONE
  return true
}

/** What WebhookDelivery objects say of lines. Their status is the truth, except where the log is ahead of it. */

/** The few fields of a WebhookDelivery that a line needs. */
export type ObjectDelivery = Standing & {
  namespace: string
  endpointUid: string
  id: PackedId
  type: string
  redeliveryOf?: string | undefined
}

const STATE_OF_END: Record<Exclude<LogEnd, 'none'>, DeliveryState> = {
  sent: 'succeeded',
  canceled: 'canceled',
  exhausted: 'exhausted',
}

/** @returns the line that shows it; NONE when there is no room for it */
function addObject(lines: Lines, shown: ObjectDelivery, version: number): number {
  const { table, logs } = lines
  const log = logs.findOrAdd(shown.namespace, shown.endpointUid)
  let line = log.lines.find(shown.id)
  if (line === NONE) {
    if (isFinal(shown.state) && isBelowFloor(log, shown.id)) {
      logs.dropIfEmpty(log)
      return NONE
    }
    line = lines.add(log, shown.id, shown)
    if (line === NONE) return NONE
  }
  table.setObject(line, version, isFinal(shown.state))
  // It is made first, and gets its status with a second write.
  const isBehind = !isFinal(shown.state) && table.logAttempts(line) > shown.attempts
  if (!isBehind) lines.setStanding(line, shown)
  return line
}

/**
 * The object is gone, and the line with it, but for what the log itself tells: a delivery that ended there stays for
 * as long as its segment, and one that the log has not moved yet is still the log's.
 */
function dropObject(lines: Lines, line: number): void {
  const { table } = lines
  if (!table.hasObject(line)) return
  const end = table.logEnd(line)
  if (table.segment(line) === NONE || (end === 'none' && table.isMoved(line))) {
    lines.remove(line)
    return
  }
  table.setObject(line, 0, false)
  const attempts = table.logAttempts(line)
  if (end === 'none')
    lines.setStanding(line, { state: attempts > 0 ? 'retrying' : 'pending', attempts, at: Number.NaN })
  else lines.setStanding(line, { state: stateOf(end), attempts, at: table.standing(line).at })
}

function stateOf(end: Exclude<LogEnd, 'none'>): DeliveryState {
  return STATE_OF_END[end]
}

/** The line of an object by its key, `<namespace>/<26 characters of the id>-<tag>`; NONE when there is none. */
export function lineOfObject(lines: Lines, key: string): number {
  const slash = key.indexOf('/')
  const id = packedName(key.slice(slash + 1, -9))
  return (id && lines.logs.ofObject(key)?.lines.find(id)) ?? NONE
}

/**
 * What records of outcomes say of lines. They may come in any order, each once: the watches of segments, outcomes and
 * objects have no mutual order, and a list is in the order of names.
 */

/** The records of an OutcomeSegment. `writtenAt` in milliseconds since 1970. */
export type OutcomeBatch = {
  name: string
  version: number
  writtenAt: number
  records: readonly OutcomeRecord[]
}

type AttemptRecord = Extract<OutcomeRecord, { kind: 'sent' | 'failed' }>

/** Records that may wait for the segments that they speak of: a watch that is cut off for minutes at full load. */
const MAX_HELD = 200_000

class OutcomeApplier {
  readonly #lines: Lines
  readonly #onLost: () => void
  /** Every segment up to this version was seen. */
  #seen = 0
  #held: { newest: number; outcomes: OutcomeBatch }[] = []
  #heldRecords = 0
  /** Lines that an object has, by the log's word, and that has not been seen: with the version of that word. */
  readonly #awaited = new Map<number, number>()

  /** @param onLost more records wait than can be held: everything has to be read again */
  constructor(lines: Lines, onLost: () => void) {
    this.#lines = lines
    this.#onLost = onLost
  }

  /** Records that wait for their segments. */
  get held(): number {
    return this.#heldRecords
  }

  /** Each OutcomeSegment once. */
  take(outcomes: OutcomeBatch): void {
    const newest = newestPosition(outcomes)
    if (newest <= this.#seen) {
      this.#tell(outcomes)
      return
    }
    this.#heldRecords += outcomes.records.length
    if (this.#heldRecords > MAX_HELD) this.#onLost()
    else this.#held.push({ newest, outcomes })
  }

  /** Every segment up to this version was taken in. Tells in steps what waited for that. */
  *segmentsSeenUpTo(version: number): IterableIterator<void> {
    this.#seen = Math.max(this.#seen, version)
    if (this.#held.length === 0) return
    const held = this.#held
    this.#held = []
    for (const { newest, outcomes } of held) {
      if (newest > this.#seen) this.#held.push({ newest, outcomes })
      else {
        this.#heldRecords -= outcomes.records.length
        yield this.#tell(outcomes)
      }
    }
  }

  /** Every object up to this version was taken in, so that one that was awaited by then is gone again. */
  objectsSeenUpTo(version: number): void {
    for (const [line, told] of this.#awaited) {
      if (told > version) return
      this.#awaited.delete(line)
      this.#lines.remove(line)
    }
  }

  /** The line's object was seen, or the line is gone. */
  forget(line: number): void {
    this.#awaited.delete(line)
  }

  #tell({ name, version, writtenAt, records }: OutcomeBatch): void {
    const number = this.#lines.outcomes.add(name)
    this.#lines.outcomes.hold(number)
    for (const record of records) {
      const line = this.#lines.segments.lineAt(record.position)
      if (line === NONE) continue
      if (record.kind === 'moved') this.#moved(line, version)
      else if (record.kind === 'canceled') this.#canceled(line, record.reason === 'Duplicate', writtenAt)
      else if (record.kind === 'sent' || record.kind === 'failed') this.#attempted(line, record, number)
    }
    this.#lines.outcomes.release(number)
  }

  #moved(line: number, version: number): void {
    const { table } = this.#lines
    table.setMoved(line, true)
    if (!table.hasObject(line) && table.logEnd(line) === 'none') this.#awaited.set(line, version)
  }

  #canceled(line: number, isDuplicate: boolean, writtenAt: number): void {
    const { table } = this.#lines
    const hasObject = table.hasObject(line)
    if (isDuplicate) {
      // Nobody was told of this place: the key's first one is the delivery.
      if (hasObject) this.#lines.forgetLog(line)
      else this.#lines.remove(line)
      return
    }
    const attempts = table.logAttempts(line)
    this.#awaited.delete(line)
    table.setLogKnowledge(line, 'canceled', attempts)
    if (!hasObject) this.#lines.setStanding(line, { state: 'canceled', attempts, at: writtenAt })
  }

  #attempted(line: number, record: AttemptRecord, outcomes: number): void {
    const { table } = this.#lines
    this.#lines.addOutcomes(line, outcomes)
    const attempts = Math.min(MAX_ATTEMPTS, table.logAttempts(line) + 1)
    const end = endOf(record)
    const known = end === 'none' ? table.logEnd(line) : end
    table.setLogKnowledge(line, known, attempts)
    if (known !== 'none') this.#awaited.delete(line)
    const before = table.standing(line)
    // An object that has got as far, or ended, says it better.
    if (table.hasObject(line) && (table.objectEnded(line) || before.attempts >= attempts)) return
    if (known === 'none') {
      const at = latest(before.at, nextOf(record))
      this.#lines.setStanding(line, { state: 'retrying', attempts, at })
    } else {
      const at = end === 'none' ? before.at : endedAt(record)
      this.#lines.setStanding(line, { state: stateOf(known), attempts, at })
    }
  }
}

/** Not one that the segment of outcomes cannot know of yet: it would wait for ever. */
function newestPosition({ version, records }: OutcomeBatch): number {
  let newest = 0
  for (const { position } of records)
    if (position.version < version) newest = Math.max(newest, position.version)
  return newest
}

/** After the last attempt there is no next one. */
function endOf(record: AttemptRecord): 'sent' | 'exhausted' | 'none' {
  if (record.kind === 'sent') return 'sent'
  return record.nextAttemptAt === 0 ? 'exhausted' : 'none'
}

function endedAt({ attempt }: AttemptRecord): number {
  return Date.parse(attempt.at) + attempt.latencyMs
}

function nextOf(record: AttemptRecord): number {
  return record.kind === 'failed' ? record.nextAttemptAt : Number.NaN
}

/** NaN is no time. */
function latest(a: number, b: number): number {
  return Number.isNaN(a) || b > a ? b : a
}

/** What is kept of objects of the API server as they are read. */

/** @throws ZodError, UnreadableError when it is none of Davit's */
export function readObjectDelivery(raw: RawObject): ObjectDelivery {
  const { metadata, spec, status = {} } = deliveryListItem.parse(raw)
  const name = nameOfMessage(spec.deliveryId)
  const id = name === undefined ? undefined : packedName(name)
  // A name that does not follow from what it holds would be found for one delivery, and shown for another.
  if (name === undefined || !id || metadata.name !== deliveryObjectName(name, spec.endpointUid))
    throw new UnreadableError(webhookDeliveryKind.kind, `${metadata.namespace}/${metadata.name}`)
  const state = status.state ?? 'pending'
  return {
    namespace: metadata.namespace,
    endpointUid: spec.endpointUid,
    id,
    type: spec.eventType,
    redeliveryOf: spec.redeliveryOf,
    state,
    attempts: status.attemptCount ?? 0,
    at: Date.parse((isFinal(state) ? status.completedAt : status.nextAttemptAt) ?? ''),
  }
}

/** Without the lines that cannot be read. @throws ZodError when it is none */
export function readOutcomeBatch(raw: RawObject): OutcomeBatch {
  const { metadata, spec } = readOutcomeSegment(raw)
  return {
    name: metadata.name,
    version: Number(metadata.resourceVersion),
    writtenAt: spec.writtenAt,
    records: decodeOutcomeRecords(spec),
  }
}

/**
 * The log of all endpoints as lines, from what three watches tell in any mutual order:
 *
 *   a segment accepted it                       pending
 *   an outcome tells of an attempt or an end    retrying, succeeded, exhausted, canceled
 *   an object shows it                          what its status says, unless the log is ahead of that
 *   the log moved it, its object is not there   as before until the object is seen, or must have been: then no line
 *   its object is gone                          no line, unless it ended in the log: that stays as long as its segment
 *   its segment is gone, it has no object       no line
 *
 * What is shown depends on what is stored, not on the way there: another replica, or this one after a restart, shows
 * the same.
 */

export type DeliveryLinesOptions = {
  /** Lines that there may be; beyond it the oldest that have ended go. */
  capacity: number
  /** More waits than can be held: everything has to be read again. */
  onLost: () => void
}

export class DeliveryLines {
  readonly lines: Lines
  readonly #told: OutcomeApplier

  constructor({ capacity, onLost }: DeliveryLinesOptions) {
    this.lines = new Lines(capacity, (line) => this.#told.forget(line))
    this.#told = new OutcomeApplier(this.lines, onLost)
  }

  get size(): number {
    return this.lines.table.size
  }

  /** Records of outcomes that wait for their segments. */
  get held(): number {
    return this.#told.held
  }

  appended(place: Appended, events: readonly AcceptedEvent[]): void {
    addAppended(this.lines, place, events)
  }

  segment(segment: LogSegment): void {
    addSegment(this.lines, segment)
  }

  /** Undefined when the segment itself was not taken in, but at most what this process appended to it. */
  segmentVersion(name: string): number | undefined {
    const segment = this.lines.segments.find(name)
    return segment?.complete ? segment.version : undefined
  }

  segmentGone(name: string): void {
    dropSegment(this.lines, name)
  }

  /** Does its work in steps. */
  segmentsSeenUpTo(version: number): IterableIterator<void> {
    return this.#told.segmentsSeenUpTo(version)
  }

  /** Each OutcomeSegment once. */
  outcomes(outcomes: OutcomeBatch): void {
    this.#told.take(outcomes)
  }

  object(shown: ObjectDelivery, version: number): void {
    const line = addObject(this.lines, shown, version)
    if (line !== NONE) this.#told.forget(line)
  }

  /** @param key `<namespace>/<name of the object>` */
  objectGone(key: string): void {
    const line = lineOfObject(this.lines, key)
    if (line !== NONE) this.objectOfLineGone(line)
  }

  /** The object of that line is gone. */
  objectOfLineGone(line: number): void {
    dropObject(this.lines, line)
  }

  objectsSeenUpTo(version: number): void {
    this.#told.objectsSeenUpTo(version)
  }
}
