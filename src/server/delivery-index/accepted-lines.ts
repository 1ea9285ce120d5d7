/** What was accepted into the log becomes lines: from segments as they are read, and from what this process appends. */
import type { AcceptedEvent, DeliveryTarget, SegmentEvent } from '../../apis/delivery-segment.ts'
import type { Appended, LogSegment } from '../../webhooks/log/store.ts'
import { NONE } from './line-table.ts'
import type { Lines } from './lines.ts'
import { packedName } from './packed-id.ts'
import { type IndexedSegment, UNKNOWN } from './segment-places.ts'

type Entry = { index: number; event: SegmentEvent; endpoint: DeliveryTarget }

/** The same segment a second time changes nothing. */
export function addSegment(lines: Lines, { name, version, deliveries }: LogSegment): void {
  const count = (deliveries.at(-1)?.index ?? -1) + 1
  const segment = lines.segments.findOrAdd(name, version, count)
  if (segment.complete) return
  for (const entry of deliveries) takeEntry(lines, segment, entry)
  segment.complete = true
}

/** Before the watch shows it, or after. */
export function addAppended(lines: Lines, place: Appended, events: readonly AcceptedEvent[]): void {
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
export function dropSegment(lines: Lines, name: string): void {
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
