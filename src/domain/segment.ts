/** The delivery log's first sequence: accepted events and the deliveries that they make. */
import {
  type AcceptedEvent,
  type DeliverySegmentSpec,
  MAX_SEGMENT_BYTES,
  MAX_SEGMENT_DELIVERIES,
  type SegmentEvent,
  type Target,
} from '../api/delivery-segment.ts'
import { byteLength } from './payload.ts'

/** A delivery as a segment holds it; `index` is its place in the segment. */
export type SegmentDelivery = { index: number; eventIndex: number; event: SegmentEvent; endpoint: Target }

export function segmentSpec(
  events: readonly AcceptedEvent[],
  writer: string,
  now: number,
): DeliverySegmentSpec {
  const deliveries: string[] = []
  events.forEach(({ targets }, eventIndex) => {
    for (const target of targets) deliveries.push(`${eventIndex} ${target.name} ${target.uid}`)
  })
  return { writtenAt: now, writer, events: events.map(({ event }) => event), deliveries }
}

/** Deliveries that cannot be read (an index of no event) are left out. */
export function deliveriesOf(spec: DeliverySegmentSpec): SegmentDelivery[] {
  const found: SegmentDelivery[] = []
  spec.deliveries.forEach((line, index) => {
    const [eventIndex = '', name = '', uid = ''] = line.split(' ')
    const event = spec.events[Number(eventIndex)]
    if (event && name && uid)
      found.push({ index, eventIndex: Number(eventIndex), event, endpoint: { name, uid } })
  })
  return found
}

/** From this many events of one organization in a batch on, it gets a segment of its own. */
const OWN_SEGMENT_EVENTS = 16
/** JSON around a payload: id, names, type. */
const EVENT_OVERHEAD_BYTES = 400
const DELIVERY_BYTES = 112

/**
 * Splits waiting appends into segments: at most 256 KiB and 4,096 deliveries each (a larger one stands alone),
 * busy organizations apart, so that a refusal of the API server touches few. What one append holds stays
 * together and in order; appends of one organization keep their order within a segment.
 */
export function planSegments<A extends { events: readonly AcceptedEvent[] }>(waiting: readonly A[]): A[][] {
  const groups = groupByOrganization(waiting)
  const batches: A[][] = []
  for (const group of groups) batches.push(...splitBySize(group))
  return batches
}

function groupByOrganization<A extends { events: readonly AcceptedEvent[] }>(waiting: readonly A[]): A[][] {
  const counts = new Map<string, number>()
  const organization = (append: A) => append.events[0]?.event.namespace ?? ''
  for (const append of waiting) {
    counts.set(organization(append), (counts.get(organization(append)) ?? 0) + append.events.length)
  }
  const shared: A[] = []
  const own = new Map<string, A[]>()
  for (const append of waiting) {
    const name = organization(append)
    if ((counts.get(name) ?? 0) < OWN_SEGMENT_EVENTS) shared.push(append)
    else own.set(name, [...(own.get(name) ?? []), append])
  }
  return [...own.values(), ...(shared.length > 0 ? [shared] : [])]
}

function splitBySize<A extends { events: readonly AcceptedEvent[] }>(group: readonly A[]): A[][] {
  const batches: A[][] = []
  let batch: A[] = []
  let bytes = 0
  let deliveries = 0
  for (const append of group) {
    const size = sizeOf(append.events)
    if (
      batch.length > 0 &&
      (bytes + size.bytes > MAX_SEGMENT_BYTES || deliveries + size.deliveries > MAX_SEGMENT_DELIVERIES)
    ) {
      batches.push(batch)
      batch = []
      bytes = 0
      deliveries = 0
    }
    batch.push(append)
    bytes += size.bytes
    deliveries += size.deliveries
  }
  if (batch.length > 0) batches.push(batch)
  return batches
}

/** Estimated bytes of the segment's JSON, and deliveries, that these events make. */
export function sizeOf(events: readonly AcceptedEvent[]): { bytes: number; deliveries: number } {
  let bytes = 0
  let deliveries = 0
  for (const { event, targets } of events) {
    // Quotes inside the payload are escaped once more in the segment.
    bytes += byteLength(event.payload) * 1.2 + EVENT_OVERHEAD_BYTES + targets.length * DELIVERY_BYTES
    deliveries += targets.length
  }
  return { bytes, deliveries }
}
