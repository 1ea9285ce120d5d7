import type { AcceptedEvent, Position } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId, nameOfMessage, timeOfName } from '../../apis/ids.ts'
import { decodeOutcomeRecords, outcomeSegment, outcomeSegments } from '../../apis/outcome-segment.ts'
import {
  type DeliveryAttempt,
  type DeliveryState,
  type WebhookDelivery,
  webhookDeliveries,
  webhookDelivery,
} from '../../apis/webhook-delivery.ts'
import { findObject, type RawObject, type ResourceReader } from '../../kube/client.ts'
import type { Clock } from '../../lib/clock.ts'
import { sleep, yieldToEventLoop } from '../../lib/sleep.ts'
import { isFinal } from '../../webhooks/delivery/status.ts'
import type { Appended } from '../../webhooks/log/store.ts'
import { readObjectDelivery } from './delivery-lines.ts'
import type { EndpointLog } from './endpoint-logs.ts'
import { NONE, PACKED_WORDS, type PackedId, packedName, STATES, type Standing } from './line-table.ts'
import type { Lines } from './lines.ts'

/** The log of an endpoint as one list: what lies in segments and what has an object look alike (interface §2.5, §4.2). */

/** Whose log: one recreated under the same name has another UID, and a log of its own. */
export type LoggedEndpoint = { namespace: string; name: string; uid: string }

/** A delivery as its owner sees it. Times are ISO 8601, UTC, with milliseconds. */
export type DeliveryLine = {
  /** `msg_...` */
  deliveryId: string
  eventType: string
  status: DeliveryState
  attemptCount: number
  /** Only while it is pending or retrying, and known. */
  nextAttemptAt?: string
  /** Only when it has come to its end. */
  completedAt?: string
  /** The `msg_` id of the delivery that this one repeats. */
  redeliveryOf?: string
  /** The time in its id. */
  createdAt: string
}

/** Every attempt, oldest first. */
export type DeliveryDetail = DeliveryLine & { attempts: readonly DeliveryAttempt[] }

export type LogQuery = {
  /** Lines of a page, at least 1. */
  limit: number
  /** The last id that the reader has, `msg_...`; also of one that was deleted since. */
  after?: string | undefined
  status?: DeliveryState | undefined
  eventType?: string | undefined
}

/** `next` is the last id of the page; absent where nothing is left behind it. */
export type LogPage = { deliveries: DeliveryLine[]; next?: string }

export interface DeliveryIndex {
  /** Newest first. @throws RefusedError overloaded while the log is being read */
  list(endpoint: LoggedEndpoint, query: LogQuery): Promise<LogPage>
  /**
   * Undefined when the endpoint has no such delivery (any more).
   * @throws RefusedError overloaded, unavailable
   */
  read(endpoint: LoggedEndpoint, deliveryId: string): Promise<DeliveryDetail | undefined>
}

/** Lets readers see at once what this process has appended. */
export interface OwnAppends {
  /** @param events those of one append, in their order, and where they landed */
  appended(place: Appended, events: readonly AcceptedEvent[]): void
}

/** Where a delivery's event lies in the log, so that nobody has to search for it. */
export interface DeliveryPlaces {
  /** Name of its DeliverySegment; undefined where that is gone, or the delivery is not known. */
  segmentOf(endpoint: LoggedEndpoint, deliveryId: string): string | undefined
  /**
   * Waits a moment for a delivery that is not known and whose id says that it was accepted just now, by another process.
   * @returns whether it has come
   * @throws RefusedError `overloaded` where the log cannot be watched: it may be there all the same
   */
  appears(endpoint: LoggedEndpoint, deliveryId: string): Promise<boolean>
}

/** Clocks of processes may differ by so much, and watches be so late. */
const YOUNG_MS = 5000
const WAITED_MS = 1000
const LOOKED_EVERY_MS = 25
/** Whoever invents ids of this moment keeps no more requests waiting than these. */
const MAX_WAITING = 100

export type DeliveryWaiterOptions = {
  clock: Clock
  /** Whether the log has been seen to hold the delivery. */
  isKnown(endpoint: LoggedEndpoint, deliveryId: string): boolean
}

/**
 * Waits for deliveries that another process may have accepted a moment ago, as their ids tell: whoever was told the id
 * there may ask here before the log was seen.
 */
export class DeliveryWaiter {
  readonly #options: DeliveryWaiterOptions
  #waiting = 0

  constructor(options: DeliveryWaiterOptions) {
    this.#options = options
  }

  /** @returns whether it has come; at once where that is not to be expected */
  async appears(endpoint: LoggedEndpoint, deliveryId: string): Promise<boolean> {
    const { clock, isKnown } = this.#options
    const age = clock.now() - timeOfName(nameOfMessage(deliveryId) ?? '')
    const isYoung = age > -YOUNG_MS && age < YOUNG_MS
    if (!isYoung || this.#waiting === MAX_WAITING) return false
    this.#waiting += 1
    try {
      const until = clock.monotonic() + WAITED_MS
      while (clock.monotonic() < until) {
        await sleep(clock, LOOKED_EVERY_MS)
        if (isKnown(endpoint, deliveryId)) return true
      }
      return false
    } finally {
      this.#waiting -= 1
    }
  }
}

/** A page of an endpoint's log. */

/** Looking through a long log for the few lines that are asked for, the event loop gets a turn so often. */
const SLICE_MS = 10
const SLICE_LINES = 4096

type Wanted = { state: number | undefined; type: number | undefined; most: number }
type Progress = { found: DeliveryLine[]; after: PackedId | undefined; done: boolean }

/**
 * Newest first, by id: what is there all along is on one page of a walk through all of them, whatever comes and goes
 * meanwhile.
 */
export async function logPage(
  lines: Lines,
  endpoint: LoggedEndpoint,
  query: LogQuery,
  clock: Pick<Clock, 'monotonic'>,
): Promise<LogPage> {
  const type = query.eventType === undefined ? undefined : lines.typeNumber(query.eventType)
  if (query.eventType !== undefined && type === undefined) return { deliveries: [] }
  const state = query.status === undefined ? undefined : STATES.indexOf(query.status)
  // One more tells whether there is a next page.
  const wanted: Wanted = { state, type, most: query.limit + 1 }
  const progress: Progress = { found: [], after: startOf(query.after), done: false }
  while (!progress.done) {
    // Looked up again after each turn: it may have gone, and come again.
    const log = lines.logs.find(endpoint.namespace, endpoint.uid)
    if (!log || (state !== undefined && log.counts[state] === 0)) break
    walkSlice(lines, log, wanted, { progress, clock })
    if (!progress.done) await yieldToEventLoop()
  }
  const deliveries = progress.found.slice(0, query.limit)
  const next = progress.found.length > query.limit ? deliveries.at(-1)?.deliveryId : undefined
  return { deliveries, ...(next === undefined ? {} : { next }) }
}

/** Undefined from the newest on. */
function startOf(after: string | undefined): PackedId | undefined {
  return after === undefined ? undefined : packedName(nameOfMessage(after) ?? '')
}

function walkSlice(
  lines: Lines,
  log: EndpointLog,
  wanted: Wanted,
  { progress, clock }: { progress: Progress; clock: Pick<Clock, 'monotonic'> },
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
  const standing = lines.table.standing(line)
  return describeLine(lines.table.name(line), standing, {
    type: lines.typeOf(line),
    redeliveryOf: lines.redeliveryOf(line),
  })
}

/** @param name the 26 characters of its id */
function describeLine(
  name: string,
  { state, attempts, at }: Standing,
  about: { type: string; redeliveryOf?: string | undefined },
): DeliveryLine {
  const time = timeText(at)
  return {
    deliveryId: messageId(name),
    eventType: about.type,
    status: state,
    attemptCount: attempts,
    ...(time === undefined ? {} : isFinal(state) ? { completedAt: time } : { nextAttemptAt: time }),
    ...(about.redeliveryOf === undefined ? {} : { redeliveryOf: about.redeliveryOf }),
    createdAt: new Date(timeOfName(name)).toISOString(),
  }
}

/** Undefined where the time is not known. */
function timeText(at: number): string | undefined {
  const time = new Date(at)
  return at > 0 && !Number.isNaN(time.getTime()) ? time.toISOString() : undefined
}

/** One delivery with every attempt, as it is stored now: from its object or, where it has none, from the log. */

export type DetailSources = {
  lines: Lines
  api: ResourceReader
  /** The operator's namespace. */
  namespace: string
}

/** Segments of outcomes that are read for one answer: one but for what nobody could make an object of. */
const MAX_READS = 8

/**
 * Undefined when there is no such delivery of that endpoint. A line that was left out for want of room is still found by
 * its object. @throws ApiError
 */
export async function readDetail(
  sources: DetailSources,
  endpoint: LoggedEndpoint,
  deliveryId: string,
): Promise<DeliveryDetail | undefined> {
  const name = nameOfMessage(deliveryId)
  const id = name === undefined ? undefined : packedName(name)
  if (name === undefined || !id) return undefined
  const { lines } = sources
  const find = () => lines.logs.find(endpoint.namespace, endpoint.uid)?.lines.find(id) ?? NONE
  const told = find()
  if (told === NONE || lines.table.hasObject(told)) {
    const shown = await readObject(sources.api, endpoint, name)
    if (shown && !isBehindLog(lines, find(), shown)) return shown
    if (!shown && isOfObjectAlone(lines, find())) return undefined
  }
  // As it is by now: the line may have gone, and its number may be another's.
  const line = find()
  return line === NONE ? undefined : await readFromLog(sources, line)
}

/** The object was made, and its status is not written yet. */
function isBehindLog({ table }: Lines, line: number, shown: DeliveryDetail): boolean {
  return line !== NONE && shown.completedAt === undefined && shown.attemptCount < table.logAttempts(line)
}

/** The line goes as soon as the watch tells that its object is gone. */
function isOfObjectAlone({ table }: Lines, line: number): boolean {
  return line !== NONE && table.hasObject(line) && table.logEnd(line) === 'none'
}

async function readObject(
  api: ResourceReader,
  { namespace, uid }: LoggedEndpoint,
  name: string,
): Promise<DeliveryDetail | undefined> {
  const raw = await findObject(api, webhookDeliveries, { namespace, name: deliveryObjectName(name, uid) })
  const { data } = webhookDelivery.safeParse(raw)
  // Somebody else's may have the name.
  return raw && data?.spec.endpointUid === uid ? describeObject(raw, name, data) : undefined
}

function describeObject(raw: RawObject, name: string, { status }: WebhookDelivery): DeliveryDetail {
  const shown = readObjectDelivery(raw)
  return { ...describeLine(name, shown, shown), attempts: status?.attempts ?? [] }
}

async function readFromLog(sources: DetailSources, line: number): Promise<DeliveryDetail> {
  const { lines, api, namespace } = sources
  const described = lineOf(lines, line)
  const version = lines.segments.at(lines.table.segment(line))?.version
  const index = lines.table.indexInSegment(line)
  const names = version === undefined ? [] : lines.outcomesOf(line).slice(0, MAX_READS)
  const read = names.map((name) => findObject(api, outcomeSegments, { namespace, name }))
  const segments = await Promise.all(read)
  const attempts = segments.flatMap((raw) => attemptsIn(raw, { version: version ?? 0, index }))
  return { ...described, attempts: attempts.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)) }
}

function attemptsIn(raw: RawObject | undefined, { version, index }: Position): DeliveryAttempt[] {
  const { data } = outcomeSegment.safeParse(raw)
  if (!data) return []
  return decodeOutcomeRecords(data.spec).flatMap((record) => {
    const isIts = record.position.version === version && record.position.index === index
    return isIts && (record.kind === 'sent' || record.kind === 'failed') ? [record.attempt] : []
  })
}
