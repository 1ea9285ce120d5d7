/** Queries of the delivery index for the events of an organization: what the log still has, with the states of their deliveries. */

import { messageId, nameOfMessage, timeOfName } from '../../apis/ids.ts'
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { NO_ENDPOINT, type WantedLines } from './endpoint-logs.ts'
import { NONE, packedName, STATES } from './line-table.ts'
import type { Lines } from './lines.ts'
import { mergedLines, type Position } from './merged-lines.ts'
import { LINES_PER_PAGE, wantedLines, windowOf } from './queries.ts'

export type EventQuery = {
  /** Page size, at least 1. */
  limit: number
  /** `next` of the previous page. */
  after?: string | undefined
  type?: string | undefined
  /** Accepted at this time or later; milliseconds since 1970. */
  since?: number | undefined
  /** Accepted before this time. */
  until?: number | undefined
  /** Of a page whose bodies are to be read; it has one event at least. */
  bodies?: { maxBytes: number; maxSegments: number } | undefined
}

/** An event as the index has it. @property deliveries those that it had when it was accepted */
export type IndexedEvent = {
  eventId: string
  type: string
  deliveries: number
  statuses: Record<DeliveryState, number>
  redeliveryOf?: string
  createdAt: string
  /** The name of the DeliverySegment with its body. */
  segment: string
  bodyBytes: number
}

/** `next` is where the following page starts; absent on the last page. A page may be short, or empty, and not be the last. */
export type EventPage = { events: IndexedEvent[]; next?: string }

/** The events of an organization, newest first, whether or not they have receivers. */
export function eventPage(lines: Lines, organization: string, query: EventQuery): EventPage {
  const wanted = wantedLines(lines, { eventType: query.type })
  if (!wanted) return { events: [] }
  const { after, last } = windowOf(query)
  const events: IndexedEvent[] = []
  let seen = 0
  let next = ''
  for (const group of linesOfEvents(lines, organization, { after, wanted })) {
    const [first = NONE] = group
    if (last && lines.table.compare(first, last) > 0) break
    if (seen >= LINES_PER_PAGE) return { events, next }
    seen += group.length
    const isOfType = wanted.type === undefined || lines.table.type(first) === wanted.type
    const event = isOfType ? describeEvent(lines, group) : undefined
    if (event && !fits(event, events, query)) return { events, next }
    if (event) events.push(event)
    next = messageId(lines.table.name(first))
  }
  return { events }
}

function fits(event: IndexedEvent, page: readonly IndexedEvent[], { limit, bodies }: EventQuery): boolean {
  if (page.length === 0) return true
  if (page.length === limit || !bodies) return page.length < limit
  const all = [...page, event]
  const bytes = all.reduce((sum, { bodyBytes }) => sum + bodyBytes, 0)
  return bytes <= bodies.maxBytes && new Set(all.map(({ segment }) => segment)).size <= bodies.maxSegments
}

/** Undefined if the log has no such event of the organization, or no longer. */
export function findEvent(lines: Lines, organization: string, eventId: string): IndexedEvent | undefined {
  const id = packedName(nameOfMessage(eventId) ?? '')
  if (!id) return undefined
  const group = [...lines.logs.in(organization)].flatMap((log) => {
    const line = log.lines.find(id)
    return line === NONE ? [] : [line]
  })
  return describeEvent(lines, group)
}

/** The lines of each event, newest first. Yields events of other types as well, and not all lines of these. */
function* linesOfEvents(
  lines: Lines,
  organization: string,
  { after, wanted }: { after?: Position | undefined; wanted: WantedLines },
): IterableIterator<number[]> {
  let group: number[] = []
  for (const line of mergedLines(lines, [...lines.logs.in(organization)], after, wanted)) {
    const [first] = group
    if (first === undefined || lines.table.compareLines(first, line) === 0) group.push(line)
    else {
      yield group
      group = [line]
    }
  }
  if (group.length > 0) yield group
}

/** Undefined unless one of the lines is in the log: an object outlives its event. */
function describeEvent(lines: Lines, group: readonly number[]): IndexedEvent | undefined {
  const { table, logs, segments } = lines
  const line = group.find((one) => segments.at(table.segment(one)))
  const segment = line === undefined ? undefined : segments.at(table.segment(line))
  if (line === undefined || !segment) return undefined
  const statuses: Record<DeliveryState, number> = {
    pending: 0,
    retrying: 0,
    succeeded: 0,
    exhausted: 0,
    canceled: 0,
  }
  for (const one of group) {
    const state = STATES[table.stateNumber(one)]
    if (state && logs.of(one)?.uid !== NO_ENDPOINT) statuses[state] += 1
  }
  const name = table.name(line)
  const redeliveryOf = lines.redeliveryOf(line)
  return {
    eventId: messageId(name),
    type: lines.typeOf(line),
    deliveries: table.receivers(line),
    statuses,
    ...(redeliveryOf === undefined ? {} : { redeliveryOf }),
    createdAt: new Date(timeOfName(name)).toISOString(),
    segment: segment.name,
    bodyBytes: table.bodyBytes(line),
  }
}
