/** A page of an endpoint's log. */

import { messageId, nameOfMessage, timeOfName } from '../../apis/ids.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import { yieldToEventLoop } from '../../lib/sleep.ts'
import { isFinal } from '../../webhooks/delivery/status.ts'
import type { EndpointLog } from './delivery-index-endpoint-logs.ts'
import { STATES, type Standing } from './line-table.ts'
import type { Lines } from './lines.ts'
import { PACKED_WORDS, type PackedId, packedName } from './packed-id.ts'
import type { DeliveryLine, LoggedEndpoint, LogPage, LogQuery } from './ports-delivery-index.ts'

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

export function lineOf(lines: Lines, line: number): DeliveryLine {
  const standing = lines.table.standing(line)
  return describeLine(lines.table.name(line), standing, {
    type: lines.typeOf(line),
    redeliveryOf: lines.redeliveryOf(line),
  })
}

/** @param name the 26 characters of its id */
export function describeLine(
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
