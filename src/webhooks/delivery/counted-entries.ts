/**
 * Entries of lanes that another replica drives. Nearly all of them are closed within a moment, and until then nobody asks for
 * more than how many there are: a delivery in its lane for each would cost this replica more than all else that it does
 * about them. Those that stay get one, and so do all of a shard that is taken over.
 */
import type { DeliveryEngine } from './engine.ts'
import type { OpenEntry, OpenSegment } from './open-segments.ts'
import type { EndpointQueue } from './queue.ts'

type Of = { opened: OpenSegment; open: OpenEntry; lane: EndpointQueue | undefined }

/** Counts it, where that says all there is to say of it by now; or takes it into its lane at once. */
export function countEntry(plane: DeliveryEngine, { opened, open, lane }: Of): void {
  const { event } = open.entry
  const isShown = plane.objectBacked.findEntry(opened.segment.version, open.entry) !== undefined
  // What is held is counted by its bytes; and what its lane is not known to be, only that can tell.
  if (!lane || lane.held || isShown) plane.addEntry(opened, open)
  else {
    open.counted = lane
    plane.counters.addEntry(lane, event)
  }
}

/** It is pending no longer, or has a delivery that counts in its place. */
export function uncountEntry({ counters }: DeliveryEngine, { segment }: OpenSegment, open: OpenEntry): void {
  if (!open.counted) return
  counters.removeEntry(open.counted, open.entry.event, segment.version)
  open.counted = undefined
}

/** Those that were only counted are in their lanes from here on. */
export function addCounted(plane: DeliveryEngine, opened: OpenSegment): void {
  for (const open of opened.open.values()) if (open.counted) plane.addEntry(opened, open)
}
