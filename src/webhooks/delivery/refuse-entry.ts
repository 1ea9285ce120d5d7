import type { DeliveryEngine } from './engine.ts'
import type { OpenEntry, OpenSegment } from './open-segments.ts'

/** Ends an entry of the log that is not to be sent: a repeat, or one that came from a backup. */
export function refuseEntry(
  plane: DeliveryEngine,
  { segment }: OpenSegment,
  { entry, refused }: OpenEntry,
): void {
  if (!refused) return
  const { event, endpoint, index } = entry
  const lane = plane.queueFor({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
  const position = { version: segment.version, index }
  plane.ctx.background(plane.ctx.outcomes.record({ kind: 'canceled', position, reason: refused }), lane)
}
