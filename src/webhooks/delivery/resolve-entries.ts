/** Entries of the log whose end nobody has recorded, when their shard is taken over. */

import { messageId } from '../../apis/ids.ts'
import type { WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { endpointReference } from '../endpoints/about-endpoint.ts'
import type { ShardClaims } from '../log/claims.ts'
import { startOwnedWork } from './begin.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryEngine } from './engine.ts'
import type { OpenSegment, UnresolvedEntry } from './open-segments.ts'
import { statusFromRecords } from './outcome-records.ts'
import { promoteToObject } from './promotion.ts'
import { refuseEntry } from './refuse-entry.ts'
import { setAsideStatus } from './status.ts'

/** An entry that so many starts did not bring to an end is set aside. Those after a hand-over in order do not count. */
const MAX_STARTS = 2

/** How the shards of entries came to this replica. */
type Claims = Pick<ShardClaims, 'isInOrder'>

/**
 * All objects were seen: what has none is attempted (again), or gets the object that it is owed. What replicas
 * ended over again and again is set aside.
 * @returns how many; when it is durable that this one goes on with them
 */
export async function resumeEntries(
  plane: DeliveryEngine,
  left: readonly UnresolvedEntry[],
  claims: Claims,
): Promise<number> {
  const segments = new Set<OpenSegment>()
  const reopened: Promise<unknown>[] = []
  for (const unresolved of left) {
    segments.add(unresolved.opened)
    reopened.push(resumeEntry(plane, unresolved, claims))
  }
  for (const opened of segments) plane.promoteLater(opened)
  await Promise.all(reopened)
  return left.length
}

/** An entry of this replica's shards whose segment was shown only after they were taken over. */
export function resumeLateEntry(plane: DeliveryEngine, unresolved: UnresolvedEntry, claims: Claims): void {
  const { opened, open } = unresolved
  const { event, endpoint, index } = open.entry
  const lane = plane.queueFor({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
  const position = { version: opened.segment.version, index }
  // Its object was found when the shard was taken over.
  if (!open.refused && plane.objectBacked.findEntry(position.version, open.entry))
    startOwnedWork(plane.ctx, lane, () => plane.ctx.outcomes.record({ kind: 'moved', position }))
  else startOwnedWork(plane.ctx, lane, () => resumeEntries(plane, [unresolved], claims))
}

async function resumeEntry(
  plane: DeliveryEngine,
  { opened, open }: UnresolvedEntry,
  claims: Claims,
): Promise<void> {
  // It was closed while objects were read.
  if (opened.open.get(open.entry.index) !== open) return
  if (open.refused) return refuseEntry(plane, opened, open)
  const attempted = open.records.filter(({ kind }) => kind !== 'reopened')
  const starts = open.records.length - attempted.length
  const delivery = plane.resetEntry(opened, open)
  const isInOrder = claims.isInOrder(delivery.queue.shard)
  if (delivery.storage.kind === 'log') {
    delivery.storage.objectMayExist = open.records.length > 0 || !isInOrder
    delivery.storage.unansweredAt = plane.ctx.clock.monotonic()
  }
  if (attempted.length > 0) promoteOwed(plane, delivery, statusFromRecords(attempted))
  else if (starts >= MAX_STARTS && !isInOrder) setAside(plane, delivery)
  else {
    delivery.stage = 'queued'
    plane.resume(delivery)
    const { version, index } = delivery
    if (!isInOrder) await plane.ctx.outcomes.record({ kind: 'reopened', position: { version, index } })
  }
}

function setAside(plane: DeliveryEngine, delivery: Delivery): void {
  const { ctx } = plane
  const id = messageId(delivery.name)
  const { endpoint } = delivery.queue
  const { namespace, name } = endpoint
  ctx.log.warn('A delivery was set aside', { delivery: id, namespace, endpoint: name })
  const view = ctx.directory.find(endpoint)
  if (view) {
    const message = `Davit ended, or lost its way to the API server, ${MAX_STARTS + 1} times while ${id} was under way; it goes on apart from the others, and later.`
    ctx.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Warning',
      reason: 'SetAside',
      message,
    })
  }
  promoteOwed(plane, delivery, setAsideStatus(ctx.clock.now(), ctx.waitScale))
}

/** What its object will say is known, the object is not there. */
function promoteOwed({ ctx }: DeliveryEngine, delivery: Delivery, status: WebhookDeliveryStatus): void {
  const { storage } = delivery
  if (storage.kind !== 'log') return
  delivery.stage = 'sending'
  storage.status = status
  delivery.attempts = status.attemptCount ?? 0
  const move = async () => {
    await promoteToObject(ctx, delivery, storage)
    if (delivery.left) return
    delivery.stage = 'waiting'
    delivery.dueAt = Date.parse(storage.status?.nextAttemptAt ?? '') || 0
    ctx.wait(delivery)
  }
  startOwnedWork(ctx, delivery.queue, move)
}
