import { messageId } from '../../apis/ids.ts'
import type { WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import type { ShardClaims } from '../log/claims.ts'
import { startOwnedWork, warnOnEndpoint } from './context.ts'
import type { DeliveryEngine } from './engine.ts'
import { waitForNext } from './outcome.ts'
import { promoteToObject } from './promotion.ts'
import type { Delivery, UnresolvedEntry } from './queue.ts'
import { setAsideStatus, statusFromRecords } from './status.ts'

/**
 * Resumes entries of the log that have no recorded end, when their shard is taken over: each is attempted again, gets the object
 * that it is owed, or is set aside.
 */

/** An entry that so many starts did not end is set aside. Starts after an orderly handoff do not count. */
const MAX_STARTS = 2

type Claims = Pick<ShardClaims, 'wasReleasedCleanly'>

/** Called when all objects were read. Resolves when it is durable that this replica goes on with them. @returns how many */
export async function resumeEntries(
  engine: DeliveryEngine,
  unresolved: readonly UnresolvedEntry[],
  claims: Claims,
): Promise<number> {
  const reopened = unresolved.map((one) => resumeEntry(engine, one, claims))
  for (const opened of new Set(unresolved.map((one) => one.opened))) engine.promoteLater(opened)
  await Promise.all(reopened)
  return unresolved.length
}

/** Resumes an entry whose segment arrived after its shard was taken over. */
export function resumeLateEntry(engine: DeliveryEngine, unresolved: UnresolvedEntry, claims: Claims): void {
  const { opened, open } = unresolved
  const queue = engine.queueOf(open.entry)
  const position = { version: opened.segment.version, index: open.entry.index }
  // The takeover has found its object.
  if (!open.refused && engine.objectBacked.findEntry(position.version, open.entry))
    startOwnedWork(engine.ctx, queue, () => engine.ctx.outcomes.record({ kind: 'moved', position }))
  else startOwnedWork(engine.ctx, queue, () => resumeEntries(engine, [unresolved], claims))
}

async function resumeEntry(
  engine: DeliveryEngine,
  { opened, open }: UnresolvedEntry,
  claims: Claims,
): Promise<void> {
  const { outcomes, clock } = engine.ctx
  const { entry, refused, records } = open
  const position = { version: opened.segment.version, index: entry.index }
  // It was closed while objects were read.
  if (opened.open.get(entry.index) !== open) return
  // A repeat, or restored from a backup.
  if (refused) {
    const queue = engine.queueOf(entry)
    return engine.runInBackground(outcomes.record({ kind: 'canceled', position, reason: refused }), queue)
  }
  const attempted = records.filter(({ kind }) => kind !== 'reopened')
  const starts = records.length - attempted.length
  const delivery = engine.resetEntry(opened, open)
  const wasReleasedCleanly = claims.wasReleasedCleanly(delivery.queue.shard)
  if (delivery.storage.kind === 'log') {
    delivery.storage.objectMayExist = records.length > 0 || !wasReleasedCleanly
    delivery.storage.unansweredAt = clock.monotonic()
  }
  if (attempted.length > 0) promoteOwed(engine, delivery, statusFromRecords(attempted))
  else if (starts >= MAX_STARTS && !wasReleasedCleanly) setAside(engine, delivery)
  else {
    delivery.stage = 'queued'
    engine.resume(delivery)
    if (!wasReleasedCleanly) await outcomes.record({ kind: 'reopened', position })
  }
}

function setAside(engine: DeliveryEngine, delivery: Delivery): void {
  const { ctx } = engine
  const id = messageId(delivery.name)
  const { namespace, name } = delivery.queue.endpoint
  ctx.log.warn('A delivery was set aside', { delivery: id, namespace, endpoint: name })
  const message = `Davit ended, or lost its way to the API server, ${MAX_STARTS + 1} times while ${id} was under way; it goes on apart from the others, and later.`
  warnOnEndpoint(ctx, delivery.queue.endpoint, 'SetAside', message)
  promoteOwed(engine, delivery, setAsideStatus(ctx.clock.now(), ctx.waitScale))
}

/** Creates the object of a delivery whose status is known already. */
function promoteOwed({ ctx }: DeliveryEngine, delivery: Delivery, status: WebhookDeliveryStatus): void {
  const { storage } = delivery
  if (storage.kind !== 'log') return
  delivery.stage = 'sending'
  storage.status = status
  delivery.attempts = status.attemptCount ?? 0
  startOwnedWork(ctx, delivery.queue, async () => {
    await promoteToObject(ctx, delivery, storage)
    if (!delivery.left) waitForNext(ctx, delivery, storage.status)
  })
}
