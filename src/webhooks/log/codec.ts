import {
  type AcceptedEvent,
  type DeliverySegmentSpec,
  type DeliveryTarget,
  decodeEventLine,
  encodeEventLine,
  MAX_SEGMENT_BYTES,
  MAX_SEGMENT_DELIVERIES,
  newDeliverySegment,
  type SegmentEvent,
  type SegmentLines,
} from '../../apis/delivery-segment.ts'
import { DNS_LABEL } from '../../apis/meta.ts'
import { memoize } from '../../lib/memoize.ts'
import { copyString } from '../../lib/text.ts'
import { isKeyLine, keyRecordOf, usedAt } from './idempotency-keys.ts'
import type { LogDelivery, LoggedEvent, SegmentContent, SegmentKeys, UndeliveredEvent } from './store.ts'

/**
 * Events and deliveries as the text of a DeliverySegment, and the split of waiting appends into segments. A body is Standard Webhooks `{
 * type, timestamp, data }`, serialized once at acceptance: the bytes that are stored are signed and sent, so receivers get `data` to the
 * digit. README.md describes the lines.
 */

/** Bodies up to this size are copied into the delivery's object; larger ones stay in their segment. */
export const INLINE_PAYLOAD_BYTES = 16 * 1024

/** Whether the deliveries of the event share its body in the store, at most. Each may get a copy of a small one, with its object. */
export function isBodyShared({
  receivers,
  bodyBytes,
}: Pick<LoggedEvent, 'receivers' | 'bodyBytes'>): boolean {
  return receivers > 1 && bodyBytes > INLINE_PAYLOAD_BYTES
}

/** What the body takes of the limit of unfinished deliveries. */
export function openBytes(event: Pick<LoggedEvent, 'receivers' | 'bodyBytes'>): number {
  return isBodyShared(event) ? event.bodyBytes : event.bodyBytes * event.receivers
}

/** @param dataText valid JSON @param happenedAt milliseconds since 1970 */
export function webhookPayload(type: string, happenedAt: number, dataText: string): string {
  const timestamp = new Date(happenedAt).toISOString()
  return `{"type":${JSON.stringify(type)},"timestamp":"${timestamp}","data":${dataText}}`
}

export function byteLength(text: string): number {
  return Buffer.byteLength(text, 'utf8')
}

const TARGET = /^([a-z0-9-]{1,63}) ([A-Za-z0-9-]{1,64})$/

/** Endpoints whose names are kept; a few megabytes. */
const MAX_KNOWN = 20_000

/**
 * Name and UID of an endpoint, as a line of a segment has them. Undefined when no object can have such names. Every replica reads the
 * targets of all deliveries, and they repeat: one string per UID, whose hash is computed once, saves more than parsing the line costs.
 */
export const readTarget = memoize<Readonly<DeliveryTarget> | undefined>(
  MAX_KNOWN,
  (text) => {
    if (!TARGET.test(text)) return undefined
    const [name = '', uid = ''] = text.split(' ')
    return { name, uid }
  },
  copyString,
)

export function segmentLines(events: readonly AcceptedEvent[]): SegmentLines {
  const deliveries = events.flatMap(({ targets }, eventIndex) =>
    targets.map(({ name, uid }) => `${eventIndex} ${name} ${uid}`),
  )
  return { events: events.map(({ event }) => encodeEventLine(event)), deliveries: deliveries.join('\n') }
}

export function segmentSpec(
  events: readonly AcceptedEvent[],
  writer: string,
  now: number,
): DeliverySegmentSpec {
  return newDeliverySegment({ writtenAt: now, writer }, segmentLines(events))
}

const INDEX = /^\d{1,6}$/

/** An event line starts with the 26 characters of an id and an organization: both become names of objects. */
const NAMES = new RegExp(`^[0-9a-z]{26} ${DNS_LABEL.source.slice(1, -1)} `)

/** Organizations, event types and endpoints are few, and repeat in every segment. */
const internWord = memoize(MAX_KNOWN, (word) => word, copyString)

function toLogged({
  id,
  namespace,
  type,
  key,
  fingerprint,
  redeliveryOf,
  payload,
}: SegmentEvent): LoggedEvent {
  const event: LoggedEvent = {
    id: copyString(id),
    namespace: internWord(namespace),
    type: internWord(type),
    bodyBytes: byteLength(payload),
    receivers: 0,
  }
  if (key !== undefined) event.key = copyString(key)
  if (fingerprint !== undefined) event.fingerprint = copyString(fingerprint)
  if (redeliveryOf !== undefined) event.redeliveryOf = copyString(redeliveryOf)
  return event
}

/** Leaves out deliveries that cannot be decoded: no such event, malformed, or names that no object can have. */
export function decodeDeliveries(spec: SegmentLines): SegmentContent {
  const decoded = spec.events.map((line) => (NAMES.test(line) ? decodeEventLine(line) : undefined))
  const events = decoded.map((event) => event && toLogged(event))
  const bodies = decoded.map((event) => event?.payload)
  const deliveries: LogDelivery[] = []
  const lines = spec.deliveries === '' ? [] : spec.deliveries.split('\n')
  lines.forEach((line, index) => {
    const end = line.indexOf(' ')
    const word = line.slice(0, end)
    const eventIndex = Number(word)
    const event = INDEX.test(word) ? events[eventIndex] : undefined
    const endpoint = event && readTarget(line.slice(end + 1))
    if (!event || !endpoint) return
    event.receivers += 1
    deliveries.push({ index, eventIndex, event, endpoint })
  })
  const keys = keysIn(decoded)
  const undelivered = undeliveredIn(events)
  return {
    deliveries,
    bodies,
    unreadable: lines.length - deliveries.length,
    ...(keys ? { keys } : {}),
    ...(undelivered.length > 0 ? { undelivered } : {}),
  }
}

function undeliveredIn(events: readonly (LoggedEvent | undefined)[]): UndeliveredEvent[] {
  const found: UndeliveredEvent[] = []
  for (const [eventIndex, event] of events.entries())
    if (event?.receivers === 0 && !isKeyLine(event.type)) found.push({ eventIndex, event })
  return found
}

/** Where a key is does not matter to when it was used. */
const NOWHERE = { position: { version: 0, index: 0 }, deliveries: 0, firstDelivery: 0 }

function keysIn(events: readonly (SegmentEvent | undefined)[]): SegmentKeys | undefined {
  let keys: SegmentKeys | undefined
  for (const event of events) {
    if (event?.fingerprint === undefined) continue
    const record = keyRecordOf(event, NOWHERE)
    keys ??= { newestAt: 0 }
    keys.newestAt = Math.max(keys.newestAt, record ? usedAt(record) : 0)
  }
  return keys
}

/** An organization with this many events in a batch gets its own segment. */
const OWN_SEGMENT_EVENTS = 16
/** JSON around the values of an event, of a delivery, and of the segment. */
const EVENT_OVERHEAD_BYTES = 100
const DELIVERY_OVERHEAD_BYTES = 10

type Append = { events: readonly AcceptedEvent[] }
type Size = { bytes: number; deliveries: number }

const EMPTY_SEGMENT: Size = { bytes: 1024, deliveries: 0 }

/** The group of all organizations that are not busy; no organization has this name. */
const SHARED = ''

/**
 * Splits waiting appends into segments of at most 256 KiB and 4,096 deliveries (a larger append stands alone). Busy organizations get
 * their own, so that a rejected write affects few. An append is never split, and appends of one organization keep their order. Segments
 * are in the order of their oldest append, so that none waits behind later ones.
 */
export function planSegments<A extends Append>(waiting: readonly A[]): A[][] {
  const counts = new Map<string, number>()
  for (const append of waiting) {
    const name = organizationOf(append)
    counts.set(name, (counts.get(name) ?? 0) + append.events.length)
  }
  const batches: A[][] = []
  const open = new Map<string, { appends: A[]; size: Size }>()
  for (const append of waiting) {
    const name = organizationOf(append)
    const group = (counts.get(name) ?? 0) < OWN_SEGMENT_EVENTS ? SHARED : name
    const size = sizeOf(append.events)
    const batch = open.get(group)
    const sum = add(batch?.size ?? EMPTY_SEGMENT, size)
    if (batch && sum.bytes <= MAX_SEGMENT_BYTES && sum.deliveries <= MAX_SEGMENT_DELIVERIES) {
      batch.appends.push(append)
      batch.size = sum
    } else {
      const appends = [append]
      batches.push(appends)
      open.set(group, { appends, size: add(EMPTY_SEGMENT, size) })
    }
  }
  return batches
}

/** All events of an append are of one organization. */
export function organizationOf(append: Append): string {
  return append.events[0]?.event.namespace ?? SHARED
}

function add(a: Size, b: Size): Size {
  return { bytes: a.bytes + b.bytes, deliveries: a.deliveries + b.deliveries }
}

/** Waiting appends are planned again before every write; their size does not change. */
const sizes = new WeakMap<readonly AcceptedEvent[], Size>()

/** Upper bound of the bytes of JSON, and the number of deliveries, that these events take in a segment. */
export function sizeOf(events: readonly AcceptedEvent[]): Size {
  const known = sizes.get(events)
  if (known) return known
  const size = { bytes: 0, deliveries: 0 }
  for (const { event, targets } of events) {
    const { id, namespace, type, key = '', fingerprint = '', redeliveryOf = '', payload } = event
    const names = [id, namespace, type, key, fingerprint, redeliveryOf].join('').length
    size.bytes += EVENT_OVERHEAD_BYTES + names + byteLength(payload) + escapesIn(payload)
    for (const { name, uid } of targets) size.bytes += DELIVERY_OVERHEAD_BYTES + name.length + uid.length
    size.deliveries += targets.length
  }
  sizes.set(events, size)
  return size
}

/** Bytes that a JSON text grows by as a string in JSON. */
function escapesIn(json: string): number {
  // A lone surrogate takes six bytes instead of three.
  let more = json.isWellFormed() ? 0 : 3 * json.length
  for (let i = 0; i < json.length; i += 1) {
    const unit = json.charCodeAt(i)
    // Quote, backslash and control characters get a backslash.
    if (unit === 0x22 || unit === 0x5c || unit < 0x20) more += 1
  }
  return more
}
