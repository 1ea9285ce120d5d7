import {
  type AcceptedEvent,
  type DeliverySegmentSpec,
  type DeliveryTarget,
  decodeEventLine,
  encodeEventLine,
  MAX_SEGMENT_BYTES,
  MAX_SEGMENT_DELIVERIES,
  type SegmentEvent,
} from '../../apis/delivery-segment.ts'
import { timeOfName } from '../../apis/ids.ts'
import { DNS_LABEL } from '../../apis/meta.ts'
import { memoize } from '../../lib/memoize.ts'
import { copyString } from '../../lib/text.ts'
import { isKeyLine } from './dedupe.ts'

/**
 * The body of a delivery: Standard Webhooks `{ type, timestamp, data }`, serialized once at acceptance. What is
 * stored, signed and sent are the same bytes, so `data` given as text reaches the receiver to the digit.
 */

/** Bodies up to this size are copied into the delivery's object; larger ones stay in their segment. */
export const INLINE_PAYLOAD_BYTES = 16 * 1024

/** @param dataText valid JSON @param acceptedAt milliseconds since 1970 */
export function webhookPayload(type: string, acceptedAt: number, dataText: string): string {
  const timestamp = new Date(acceptedAt).toISOString()
  return `{"type":${JSON.stringify(type)},"timestamp":"${timestamp}","data":${dataText}}`
}

export function byteLength(text: string): number {
  return Buffer.byteLength(text, 'utf8')
}

const TARGET = /^([a-z0-9-]{1,63}) ([A-Za-z0-9-]{1,64})$/

/** Endpoints whose names are kept; a few megabytes. */
const MAX_KNOWN = 20_000

/**
 * Name and UID of an endpoint, as a line of a segment has them. Undefined when no object can have such names.
 * Every replica reads the targets of all deliveries, and they repeat: one string per UID, whose hash is computed once, saves
 * more than parsing the line costs.
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

/** The delivery log's first sequence: accepted events and the deliveries that they make. */

/** A delivery as a segment holds it; `index` is its place in the segment. */
export type SegmentDelivery = {
  index: number
  eventIndex: number
  event: SegmentEvent
  endpoint: Readonly<DeliveryTarget>
}

/** Idempotency-Keys in a segment: time of the newest, in milliseconds since 1970, and bytes of those that make no delivery. */
export type SegmentKeys = { newestAt: number; bytes: number }

export function segmentSpec(
  events: readonly AcceptedEvent[],
  writer: string,
  now: number,
): DeliverySegmentSpec {
  const deliveries: string[] = []
  events.forEach(({ targets }, eventIndex) => {
    for (const target of targets) deliveries.push(`${eventIndex} ${target.name} ${target.uid}`)
  })
  return {
    writtenAt: now,
    writer,
    events: events.map(({ event }) => encodeEventLine(event)),
    deliveries: deliveries.join('\n'),
  }
}

const INDEX = /^\d{1,6}$/

/** The 26 characters of an id, and an organization as a DNS label: what a line of an event begins with. */
const NAMES = new RegExp(`^[0-9a-z]{26} ${DNS_LABEL.source.slice(1, -1)} `)

/**
 * An event with a key that nobody gets. `eventIndex` is its place in the segment. Its key makes later places repeats all
 * the same.
 */
export type UnsentEvent = { eventIndex: number; id: string; namespace: string; key: string }

/**
 * Deliveries that cannot be read (an index of no event, a line of another form, names that no object can have) are
 * left out; `unreadable` tells how many. `keys` is absent where no event came with an Idempotency-Key, `unsent` where
 * every event with a key makes a delivery.
 */
export function decodeDeliveries(spec: Pick<DeliverySegmentSpec, 'events' | 'deliveries'>): {
  deliveries: SegmentDelivery[]
  unreadable: number
  keys?: SegmentKeys
  unsent?: UnsentEvent[]
} {
  const events = spec.events.map(readEvent)
  const found: SegmentDelivery[] = []
  const lines = spec.deliveries === '' ? [] : spec.deliveries.split('\n')
  lines.forEach((line, index) => {
    const end = line.indexOf(' ')
    const word = line.slice(0, end)
    const eventIndex = Number(word)
    const event = INDEX.test(word) ? events[eventIndex] : undefined
    const endpoint = event && readTarget(line.slice(end + 1))
    if (event && endpoint) found.push({ index, eventIndex, event, endpoint })
  })
  const read = { deliveries: found, unreadable: lines.length - found.length }
  // As most segments have it, and each replica reads all of them.
  if (events.every((event) => event?.key === undefined && event?.fingerprint === undefined)) return read
  const keys = keysIn(events, found)
  const unsent = unsentIn(events, found)
  return { ...read, ...(keys ? { keys } : {}), ...(unsent.length > 0 ? { unsent } : {}) }
}

/** Lines that only say something of a key are no places of it. */
function unsentIn(
  events: readonly (SegmentEvent | undefined)[],
  deliveries: readonly SegmentDelivery[],
): UnsentEvent[] {
  const sent = new Set(deliveries.map(({ eventIndex }) => eventIndex))
  return events.flatMap((event, eventIndex) => {
    const { id = '', namespace = '', key, type = '' } = event ?? {}
    if (key === undefined || sent.has(eventIndex) || isKeyLine(type)) return []
    return { eventIndex, id, namespace, key }
  })
}

function keysIn(
  events: readonly (SegmentEvent | undefined)[],
  deliveries: readonly SegmentDelivery[],
): SegmentKeys | undefined {
  const keyed = events.filter((event) => event?.fingerprint !== undefined)
  if (keyed.length === 0) return undefined
  const delivered = new Set(deliveries.map(({ event }) => event))
  const keys: SegmentKeys = { newestAt: 0, bytes: 0 }
  for (const event of keyed) {
    if (!event) continue
    keys.newestAt = Math.max(keys.newestAt, timeOfName(event.id) || 0)
    if (!delivered.has(event)) keys.bytes += sizeOf([{ event, targets: [] }]).bytes
  }
  return keys
}

/** Ids and organizations become names of objects. */
function readEvent(line: string): SegmentEvent | undefined {
  return NAMES.test(line) ? decodeEventLine(line) : undefined
}

/** From this many events of one organization in a batch on, it gets a segment of its own. */
const OWN_SEGMENT_EVENTS = 16
/** JSON around the values of an event, around those of a delivery, and around all of them. */
const EVENT_OVERHEAD_BYTES = 100
const DELIVERY_OVERHEAD_BYTES = 10
const SEGMENT_OVERHEAD_BYTES = 1024

type Append = { events: readonly AcceptedEvent[] }
type Size = { bytes: number; deliveries: number }

/**
 * Splits waiting appends into segments: at most 256 KiB and 4,096 deliveries each (a larger one stands alone),
 * busy organizations apart, so that a refusal of the API server touches few. What one append holds stays
 * together and in order; appends of one organization keep their order. Segments come in the order of their
 * oldest append, so that nobody waits behind those who came later.
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
    if (batch && fits(batch.size, size)) {
      batch.appends.push(append)
      batch.size = add(batch.size, size)
    } else {
      const appends = [append]
      batches.push(appends)
      open.set(group, { appends, size: add({ bytes: SEGMENT_OVERHEAD_BYTES, deliveries: 0 }, size) })
    }
  }
  return batches
}

/** The group of all organizations that are not busy: no name of an organization. */
const SHARED = ''

/** An append is of one organization. */
export function organizationOf(append: Append): string {
  return append.events[0]?.event.namespace ?? SHARED
}

function add(a: Size, b: Size): Size {
  return { bytes: a.bytes + b.bytes, deliveries: a.deliveries + b.deliveries }
}

function fits(held: Size, more: Size): boolean {
  const { bytes, deliveries } = add(held, more)
  return bytes <= MAX_SEGMENT_BYTES && deliveries <= MAX_SEGMENT_DELIVERIES
}

/** What waits is planned again with every write; its size does not change. */
const sizes = new WeakMap<readonly AcceptedEvent[], Size>()

/** Bytes of JSON in a segment (never fewer than it takes), and deliveries, that these events make. */
export function sizeOf(events: readonly AcceptedEvent[]): Size {
  const known = sizes.get(events)
  if (known) return known
  const size = { bytes: 0, deliveries: 0 }
  for (const { event, targets } of events) {
    const { id, namespace, type, key = '', fingerprint = '', redeliveryOf = '', payload } = event
    const words = [id, namespace, type, key, fingerprint, redeliveryOf]
    const names = words.reduce((sum, word) => sum + word.length, 0)
    size.bytes += EVENT_OVERHEAD_BYTES + names + byteLength(payload) + escapesIn(payload)
    for (const { name, uid } of targets) size.bytes += DELIVERY_OVERHEAD_BYTES + name.length + uid.length
    size.deliveries += targets.length
  }
  sizes.set(events, size)
  return size
}

/** Bytes that a JSON text grows by as a string in JSON. */
function escapesIn(json: string): number {
  // Half a character takes six bytes instead of three.
  let more = json.isWellFormed() ? 0 : 3 * json.length
  for (let i = 0; i < json.length; i += 1) {
    const unit = json.charCodeAt(i)
    // A quote, a backslash and a line break get a backslash.
    if (unit === 0x22 || unit === 0x5c || unit < 0x20) more += 1
  }
  return more
}
