/** Queries of the delivery index: pages of an endpoint's deliveries, and one delivery with its attempts (interface §2.5, §4.2). */

import type { Position } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, nameOfMessage } from '../../apis/ids.ts'
import { unlessUnreadable } from '../../apis/log-format.ts'
import { decodeOutcomeRecords, type OutcomeRecord, readOutcomeSegment } from '../../apis/outcome-segment.ts'
import {
  type DeliveryAttempt,
  type DeliveryState,
  webhookDeliveries,
  webhookDelivery,
} from '../../apis/webhook-delivery.ts'
import { findObject, type RawObject, type ResourceReader } from '../../kube/client.ts'
import { type Clock, yieldToEventLoop } from '../../lib/time.ts'
import type { EndpointIdentity } from '../../webhooks/endpoints/directory.ts'
import type { LogStore } from '../../webhooks/log/log-store.ts'
import { type DeliveryDetail, type DeliveryLine, describeLine } from '../delivery-resource.ts'
import type { EndpointLog } from './endpoint-logs.ts'
import { NONE, PACKED_WORDS, type PackedId, packedName, STATES } from './line-table.ts'
import { readObjectDelivery } from './line-updates.ts'
import type { Lines } from './lines.ts'

export type LogQuery = {
  /** Page size, at least 1. */
  limit: number
  /** The last id of the previous page, even if that delivery was deleted since. */
  after?: string | undefined
  status?: DeliveryState | undefined
  eventType?: string | undefined
}

/** `next` is the last id of the page; absent on the last page. */
export type LogPage = { deliveries: DeliveryLine[]; next?: string }

/** A long walk yields to the event loop after so much time, which is checked after so many lines. */
const SLICE_MS = 10
const SLICE_LINES = 4096

type Wanted = { state: number | undefined; type: number | undefined; most: number }
type Progress = { found: DeliveryLine[]; after: PackedId | undefined; done: boolean }

/** Newest first. Pages are stable: a delivery that exists throughout appears on exactly one page. */
export async function logPage(
  lines: Lines,
  endpoint: EndpointIdentity,
  query: LogQuery,
  clock: Pick<Clock, 'monotonic'>,
): Promise<LogPage> {
  const type = query.eventType === undefined ? undefined : lines.typeNumber(query.eventType)
  if (query.eventType !== undefined && type === undefined) return { deliveries: [] }
  const state = query.status === undefined ? undefined : STATES.indexOf(query.status)
  // One more than the page shows whether there is a next page.
  const wanted: Wanted = { state, type, most: query.limit + 1 }
  const after = query.after === undefined ? undefined : packedName(nameOfMessage(query.after) ?? '')
  const progress: Progress = { found: [], after, done: false }
  while (!progress.done) {
    // Looked up after every yield, since the log may have been dropped and added again.
    const log = lines.logs.find(endpoint.namespace, endpoint.uid)
    if (!log || (state !== undefined && log.counts[state] === 0)) break
    walkSlice(lines, log, wanted, progress, clock)
    if (!progress.done) await yieldToEventLoop()
  }
  const deliveries = progress.found.slice(0, query.limit)
  const next = progress.found.length > query.limit ? deliveries.at(-1)?.deliveryId : undefined
  return { deliveries, ...(next === undefined ? {} : { next }) }
}

function walkSlice(
  lines: Lines,
  log: EndpointLog,
  wanted: Wanted,
  progress: Progress,
  clock: Pick<Clock, 'monotonic'>,
): void {
  const { table } = lines
  const until = clock.monotonic() + SLICE_MS
  let seen = 0
  progress.done = true
  const visit = (line: number) => {
    if (matches(lines, line, wanted)) progress.found.push(lineOf(lines, line))
    if (progress.found.length === wanted.most) return false
    seen += 1
    if (seen % SLICE_LINES !== 0 || clock.monotonic() < until) return true
    progress.after = new Uint32Array(PACKED_WORDS)
    table.copyId(line, progress.after)
    progress.done = false
    return false
  }
  log.lines.walk(progress.after, visit, wanted)
}

function matches({ table }: Lines, line: number, { state, type }: Wanted): boolean {
  if (state !== undefined && table.stateNumber(line) !== state) return false
  return type === undefined || table.type(line) === type
}

function lineOf(lines: Lines, line: number): DeliveryLine {
  return describeLine(lines.table.name(line), lines.table.status(line), {
    type: lines.typeOf(line),
    redeliveryOf: lines.redeliveryOf(line),
  })
}

/** Where deliveries are read: their objects, and the log. */
export type DetailSources = { api: ResourceReader; store: Pick<LogStore, 'read'> }

/** OutcomeSegments that are read for one delivery. More than one only if the move to an object keeps failing. */
const MAX_READS = 8

/**
 * One delivery with every attempt, read live from its object or, without one, from the log; undefined if there is none. A delivery
 * that was evicted from the lines is still found by its object.
 * @throws ApiError
 */
export async function readDetail(
  lines: Lines,
  { api, store }: DetailSources,
  endpoint: EndpointIdentity,
  deliveryId: string,
): Promise<DeliveryDetail | undefined> {
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
  return line === NONE ? undefined : await readFromLog(lines, store, line)
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
  { namespace, uid }: EndpointIdentity,
  name: string,
): Promise<DeliveryDetail | undefined> {
  const raw = await findObject(api, webhookDeliveries, { namespace, name: deliveryObjectName(name, uid) })
  const { data } = webhookDelivery.safeParse(raw)
  // An object of another endpoint may have the name.
  if (!raw || data?.spec.endpointUid !== uid) return undefined
  const delivery = readObjectDelivery(raw)
  return { ...describeLine(name, delivery, delivery), attempts: data.status?.attempts ?? [] }
}

async function readFromLog(
  lines: Lines,
  store: DetailSources['store'],
  line: number,
): Promise<DeliveryDetail> {
  const described = lineOf(lines, line)
  const version = lines.segments.at(lines.table.segment(line))?.version
  const index = lines.table.indexInSegment(line)
  const names = version === undefined ? [] : lines.outcomesOf(line).slice(0, MAX_READS)
  const read = names.map((name) => store.read('outcomes', name))
  const segments = await Promise.all(read)
  const attempts = segments.flatMap((raw) => attemptsIn(raw, { version: version ?? 0, index }))
  return { ...described, attempts: attempts.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)) }
}

function attemptsIn(raw: RawObject | undefined, { version, index }: Position): DeliveryAttempt[] {
  return recordsIn(raw).flatMap((record) => {
    const isSame = record.position.version === version && record.position.index === index
    return isSame && (record.kind === 'sent' || record.kind === 'failed') ? [record.attempt] : []
  })
}

/** None of a segment that was deleted, or that nobody can read. */
function recordsIn(raw: RawObject | undefined): OutcomeRecord[] {
  const segment = raw && unlessUnreadable(() => readOutcomeSegment(raw))
  return segment ? decodeOutcomeRecords(segment.spec) : []
}
