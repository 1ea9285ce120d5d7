/** Queries of the delivery index: pages of an endpoint's deliveries, and one delivery with its attempts (interface §2.5, §4.2). */

import type { Position as LogPosition } from '../../apis/delivery-segment.ts'
import {
  deliveryObjectName,
  NAME_ENTROPY_BYTES,
  nameOfMessage,
  sortableName,
  timeOfName,
} from '../../apis/ids.ts'
import { unlessUnreadable } from '../../apis/log-format.ts'
import { isShardRecord } from '../../apis/outcome-segment.ts'
import { type DeliveryState, webhookDeliveries, webhookDelivery } from '../../apis/webhook-delivery.ts'
import { findObject, type ResourceReader } from '../../kube/client.ts'
import { MAX_ATTEMPTS } from '../../webhooks/delivery/retry-schedule.ts'
import type { EndpointIdentity } from '../../webhooks/endpoints/directory.ts'
import { attemptsOf, fold, type LogState, NO_RECORDS } from '../../webhooks/log/fold.ts'
import type { LogStore } from '../../webhooks/log/log-store.ts'
import { type DeliveryDetail, type DeliveryLine, describeLine } from '../delivery-resource.ts'
import { NO_ENDPOINT, type WantedLines } from './endpoint-logs.ts'
import { NONE, type PackedId, packedName, precedingId, STATES } from './line-table.ts'
import {
  type DeliveryLines,
  type OutcomeBatch,
  readObjectDelivery,
  readOutcomeBatch,
} from './line-updates.ts'
import type { Lines } from './lines.ts'
import { mergedLines, type Position, positionOf, readPosition } from './merged-lines.ts'

export type LogQuery = {
  /** Page size, at least 1. */
  limit: number
  /** `next` of the previous page, even if that delivery was deleted since. */
  after?: string | undefined
  status?: DeliveryState | undefined
  eventType?: string | undefined
  /** Accepted at this time or later; milliseconds since 1970. */
  since?: number | undefined
  /** Accepted before this time. */
  until?: number | undefined
  /** `msg_...` */
  eventId?: string | undefined
}

/** `next` is where the following page starts; absent on the last page. A page may be short, or empty, and not be the last. */
export type LogPage = { deliveries: DeliveryLine[]; next?: string }

/** Lines that a page looks at, at most: 10 ms of the processor with 500 endpoints, 2 ms with one. A rare type takes several pages. */
export const LINES_PER_PAGE = 20_000

/**
 * The deliveries of one or several endpoints of an organization, newest first, and those of one event in any fixed order. Pages are
 * stable: a delivery that exists throughout appears on exactly one page.
 */
export function logPage(lines: Lines, endpoints: readonly EndpointIdentity[], query: LogQuery): LogPage {
  const wanted = wantedLines(lines, query)
  const window = query.eventId === undefined ? windowOf(query) : windowOfEvent(query.eventId, query)
  if (!wanted || !window) return { deliveries: [] }
  const { after, last } = window
  const logs = endpoints.flatMap((endpoint) => {
    const log = lines.logs.find(endpoint.namespace, endpoint.uid)
    const has = log && (wanted.state === undefined || log.counts[wanted.state] !== 0)
    return has ? [{ log, endpoint }] : []
  })
  const named = new Map(logs.map(({ log, endpoint }) => [log.number, endpoint]))
  const deliveries: DeliveryLine[] = []
  let seen = 0
  let [before, lastFound] = [NONE, NONE]
  for (const line of mergedLines(
    lines,
    logs.map(({ log }) => log),
    after,
    wanted,
  )) {
    if (last && lines.table.compare(line, last) > 0) break
    if (seen === LINES_PER_PAGE) return { deliveries, next: positionOf(lines, before) }
    seen += 1
    before = line
    const endpoint = named.get(lines.table.log(line))
    if (!endpoint || !matches(lines, line, wanted)) continue
    // One more than the page shows that there is a next page.
    if (deliveries.length === query.limit) return { deliveries, next: positionOf(lines, lastFound) }
    deliveries.push(lineOf(lines, endpoint, line))
    lastFound = line
  }
  return { deliveries }
}

/** Undefined if there is no line of the type. */
export function wantedLines(
  lines: Lines,
  { eventType, status }: Pick<LogQuery, 'eventType' | 'status'>,
): WantedLines | undefined {
  const type = eventType === undefined ? undefined : lines.typeNumber(eventType)
  if (eventType !== undefined && type === undefined) return undefined
  return { state: status === undefined ? undefined : STATES.indexOf(status), type }
}

type Window = { after?: Position; last?: PackedId }

/** Lines behind `after` that are not older than `last`. */
export function windowOf({ after, since, until }: Pick<LogQuery, 'after' | 'since' | 'until'>): Window {
  const bound = oldestIdOf(until)
  const from = after === undefined ? bound && { id: bound } : readPosition(after)
  const last = oldestIdOf(since)
  return { ...(from ? { after: from } : {}), ...(last ? { last } : {}) }
}

/** Undefined if the event is not in the window of the query. */
function windowOfEvent(eventId: string, { after, since, until }: LogQuery): Window | undefined {
  const name = nameOfMessage(eventId) ?? ''
  const [id, time] = [packedName(name), timeOfName(name)]
  if (!id || time < (since ?? 0) || time >= (until ?? Number.POSITIVE_INFINITY)) return undefined
  return { after: readPosition(after ?? '') ?? { id: precedingId(id) }, last: id }
}

const GREATEST_ENTROPY = new Uint8Array(NAME_ENTROPY_BYTES).fill(0xff)

/** The last id of that millisecond in the order of ids. */
function oldestIdOf(time: number | undefined): PackedId | undefined {
  return time === undefined ? undefined : packedName(sortableName(Math.max(0, time), GREATEST_ENTROPY))
}

function matches({ table }: Lines, line: number, { state, type }: WantedLines): boolean {
  if (state !== undefined && table.stateNumber(line) !== state) return false
  return type === undefined || table.type(line) === type
}

function lineOf(lines: Lines, endpoint: EndpointIdentity, line: number): DeliveryLine {
  return describeLine({ name: lines.table.name(line), endpoint }, lines.table.status(line), {
    type: lines.typeOf(line),
    redeliveryOf: lines.redeliveryOf(line),
  })
}

/** The name of the segment with the delivery's event, even if only the event is left; undefined if that is gone, or unknown. */
export function segmentOfDelivery(
  { logs, segments, table }: Lines,
  { namespace, uid }: EndpointIdentity,
  deliveryId: string,
): string | undefined {
  const id = packedName(nameOfMessage(deliveryId) ?? '')
  if (!id) return undefined
  for (const one of [uid, NO_ENDPOINT]) {
    const line = logs.find(namespace, one)?.lines.find(id) ?? NONE
    const segment = line === NONE ? undefined : segments.at(table.segment(line))
    if (segment) return segment.name
  }
  return undefined
}

/** Where deliveries are read: their objects, and the log. */
export type DetailSources = { api: ResourceReader; store: Pick<LogStore, 'read'> }

/** OutcomeSegments that are read at a time for one delivery: more than one only if the move to an object keeps failing. */
const READS_AT_A_TIME = MAX_ATTEMPTS + 1
/** A write whose answer is lost is repeated, so that attempts may be in the log several times. */
const MAX_READS = 8 * READS_AT_A_TIME

/**
 * One delivery with every attempt, read live from its object or, without one, from the log; undefined if there is none. A delivery
 * that was evicted from the lines is still found by its object.
 * @throws ApiError
 */
export async function readDetail(
  index: DeliveryLines,
  { api, store }: DetailSources,
  endpoint: EndpointIdentity,
  deliveryId: string,
): Promise<DeliveryDetail | undefined> {
  const { lines } = index
  const name = nameOfMessage(deliveryId)
  const id = name === undefined ? undefined : packedName(name)
  if (name === undefined || !id) return undefined
  const find = () => lines.logs.find(endpoint.namespace, endpoint.uid)?.lines.find(id) ?? NONE
  const before = find()
  if (before === NONE || lines.table.hasObject(before)) {
    const detail = await readObject(api, endpoint, name)
    if (detail && !isBehindLog(lines, find(), detail)) return detail
    if (!detail && isObjectOnly(lines, find())) return undefined
  }
  // Look the line up again: it may be gone, and its number reused.
  const line = find()
  return line === NONE ? undefined : await readFromLog(index, store, { endpoint, line })
}

/** Whether the object exists and its status is not written yet. That of a view is known to be a success before. */
function isBehindLog({ table }: Lines, line: number, detail: DeliveryDetail): boolean {
  if (line === NONE) return false
  const { completedAt, attemptCount, attempts } = detail
  const logged = table.logAttempts(line)
  const isUnwritten = attempts.length === 0 && logged > 0
  return isUnwritten || (completedAt === undefined && attemptCount < logged)
}

/** Whether the line is going to be removed when the watch reports that its object is gone. */
function isObjectOnly({ table }: Lines, line: number): boolean {
  return line !== NONE && table.hasObject(line) && table.logEnd(line) === 'none'
}

async function readObject(
  api: ResourceReader,
  endpoint: EndpointIdentity,
  name: string,
): Promise<DeliveryDetail | undefined> {
  const { namespace, uid } = endpoint
  const raw = await findObject(api, webhookDeliveries, { namespace, name: deliveryObjectName(name, uid) })
  const { data } = webhookDelivery.safeParse(raw)
  // An object of another endpoint may have the name.
  if (!raw || data?.spec.endpointUid !== uid) return undefined
  const delivery = readObjectDelivery(raw)
  return { ...describeLine({ name, endpoint }, delivery, delivery), attempts: data.status?.attempts ?? [] }
}

async function readFromLog(
  index: DeliveryLines,
  store: DetailSources['store'],
  { endpoint, line }: { endpoint: EndpointIdentity; line: number },
): Promise<DeliveryDetail> {
  const { lines } = index
  const described = lineOf(lines, endpoint, line)
  const segment = lines.segments.at(lines.table.segment(line))
  const log = lines.logs.of(line)
  if (!segment || !log) return { ...described, attempts: [] }
  const position = { version: segment.version, index: lines.table.indexInSegment(line) }
  const names = lines.outcomesOf(line).slice(0, MAX_READS)
  const wanted = lines.table.logAttempts(line)
  const { shard } = log
  let state: LogState = NO_RECORDS
  for (let at = 0; at < names.length && attemptsOf(state).length < wanted; at += READS_AT_A_TIME) {
    const read = await Promise.all(names.slice(at, at + READS_AT_A_TIME).map(readOutcomes(store)))
    const counting = read.filter((one) => one !== undefined).filter((one) => !index.isFenced(shard, one))
    state = stateAt(state, position, counting)
  }
  return { ...described, attempts: [...attemptsOf(state)] }
}

/** Undefined for a segment that was deleted or cannot be read. */
function readOutcomes(store: DetailSources['store']) {
  return async (name: string): Promise<OutcomeBatch | undefined> => {
    const raw = await store.read('outcomes', name)
    return raw && unlessUnreadable(() => readOutcomeBatch(raw))
  }
}

/** What the log says of the delivery at the position, with more of its outcomes. */
function stateAt(
  before: LogState,
  { version, index }: LogPosition,
  outcomes: readonly OutcomeBatch[],
): LogState {
  let state = before
  for (const batch of outcomes) {
    for (const record of batch.records) {
      if (isShardRecord(record)) continue
      const { position } = record
      if (position.version !== version || position.index !== index) continue
      state = fold(state, { record, version: batch.version }, (attempt) => attempt)
    }
  }
  return state
}
