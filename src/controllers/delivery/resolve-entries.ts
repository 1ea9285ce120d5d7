/** Entries of the log whose end nobody has recorded, when their shard is taken over. */
import type { WebhookDeliveryStatus } from '../../api/webhook-delivery.ts'
import { setAsideStatus } from '../../domain/delivery.ts'
import { messageId } from '../../domain/message-id.ts'
import { statusOfRecords } from '../../domain/outcome-records.ts'
import type { ShardClaims } from '../delivery-log/shard-claims.ts'
import { aboutEndpoint } from '../endpoint/about-endpoint.ts'
import { begin } from './begin.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryPlane } from './delivery-plane.ts'
import { moveToObject } from './move-to-object.ts'
import type { OpenSegment, Unresolved } from './open-segments.ts'
import { refuseEntry } from './refuse-entry.ts'

/** An entry that so many starts did not bring to an end is set aside. Those after a hand-over in order do not count. */
const MAX_STARTS = 2

/** How the shards of entries came to this replica. */
type Claims = Pick<ShardClaims, 'isInOrder'>

/**
 * All objects were seen: what has none is attempted (again), or gets the object that it is owed. What replicas
 * ended over again and again is set aside.
 * @returns how many; when it is durable that this one goes on with them
 */
export async function resolveEntries(
  plane: DeliveryPlane,
  left: readonly Unresolved[],
  claims: Claims,
): Promise<number> {
  const segments = new Set<OpenSegment>()
  const reopened: Promise<unknown>[] = []
  for (const unresolved of left) {
    segments.add(unresolved.opened)
    reopened.push(resolve(plane, unresolved, claims))
  }
  for (const opened of segments) plane.showLater(opened)
  await Promise.all(reopened)
  return left.length
}

/** An entry of this replica's shards whose segment was shown only after they were taken over. */
export function resolveLate(plane: DeliveryPlane, unresolved: Unresolved, claims: Claims): void {
  const { opened, open } = unresolved
  const { event, endpoint, index } = open.entry
  const lane = plane.laneOf({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
  const position = { version: opened.segment.version, index }
  // Its object was found when the shard was taken over.
  if (!open.refused && plane.shown.of(position.version, open.entry))
    begin(plane.ctx, lane, () => plane.ctx.outcomes.record({ kind: 'moved', position }))
  else begin(plane.ctx, lane, () => resolveEntries(plane, [unresolved], claims))
}

async function resolve(plane: DeliveryPlane, { opened, open }: Unresolved, claims: Claims): Promise<void> {
  // It was closed while objects were read.
  if (opened.open.get(open.entry.index) !== open) return
  if (open.refused) return refuseEntry(plane, opened, open)
  const attempted = open.records.filter(({ kind }) => kind !== 'reopened')
  const starts = open.records.length - attempted.length
  const delivery = plane.retakeEntry(opened, open)
  const isInOrder = claims.isInOrder(delivery.lane.shard)
  if (delivery.home.kind === 'log') {
    delivery.home.mayBeShown = open.records.length > 0 || !isInOrder
    delivery.home.unansweredAt = plane.ctx.clock.monotonic()
  }
  if (attempted.length > 0) owe(plane, delivery, statusOfRecords(attempted))
  else if (starts >= MAX_STARTS && !isInOrder) setAside(plane, delivery)
  else {
    delivery.stage = 'queued'
    plane.goOn(delivery)
    const { version, index } = delivery
    if (!isInOrder) await plane.ctx.outcomes.record({ kind: 'reopened', position: { version, index } })
  }
}

function setAside(plane: DeliveryPlane, delivery: Delivery): void {
  const { ctx } = plane
  const id = messageId(delivery.name)
  const { endpoint } = delivery.lane
  const { namespace, name } = endpoint
  ctx.log.warn('A delivery was set aside', { delivery: id, namespace, endpoint: name })
  const view = ctx.directory.find(endpoint)
  if (view) {
    const message = `Davit ended, or lost its way to the API server, ${MAX_STARTS + 1} times while ${id} was under way; it goes on apart from the others, and later.`
    ctx.events.record(aboutEndpoint(view.endpoint.metadata), { type: 'Warning', reason: 'SetAside', message })
  }
  owe(plane, delivery, setAsideStatus(ctx.clock.now(), ctx.waitScale))
}

/** What its object will say is known, the object is not there. */
function owe({ ctx }: DeliveryPlane, delivery: Delivery, status: WebhookDeliveryStatus): void {
  const { home } = delivery
  if (home.kind !== 'log') return
  delivery.stage = 'sending'
  home.status = status
  delivery.attempts = status.attemptCount ?? 0
  const move = async () => {
    await moveToObject(ctx, delivery, home)
    if (delivery.left) return
    delivery.stage = 'waiting'
    delivery.dueAt = Date.parse(home.status?.nextAttemptAt ?? '') || 0
    ctx.wait(delivery)
  }
  begin(ctx, delivery.lane, move)
}
