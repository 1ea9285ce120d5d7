import { isApiError } from '../../kube/client.ts'
import { inGroups } from '../../lib/semaphore.ts'
import { heldTooLong } from '../log/retention-plan.ts'
import { cancelObject } from './attempt.ts'
import { type EngineContext, retryUntilDurable, startOwnedWork } from './context.ts'
import { type Delivery, type EndpointQueue, stateOf } from './endpoint-queue.ts'
import { cancelEntry } from './promotion.ts'

/**
 * Ends deliveries without another attempt: those of a deleted endpoint, whose objects go with it, and those that a
 * disabled endpoint has held for longer than the retention time.
 */

const OBJECTS_AT_A_TIME = 16
/** Entries of the log share a write; one of so many is sent at once. */
const ENTRIES_AT_A_TIME = 64
const MAX_PER_CALL = 50

export async function cancelQueue(ctx: EngineContext, queue: EndpointQueue): Promise<void> {
  // A delivery that was sent and only awaits its object is not canceled, nor is one that is being sent.
  const members = [...queue.members()].filter(
    ({ stage, storage }) => stage !== 'sending' && !(stage === 'passed' && storage.kind === 'log'),
  )
  const { log = [], object = [] } = Object.groupBy(members, ({ storage }) => storage.kind)
  await inGroups(log, ENTRIES_AT_A_TIME, (delivery) => cancelDelivery(ctx, delivery))
  await inGroups(object, OBJECTS_AT_A_TIME, (delivery) => cancelDelivery(ctx, delivery))
}

export async function cancelDelivery(ctx: EngineContext, delivery: Delivery): Promise<void> {
  const { storage } = delivery
  if (storage.kind === 'log') {
    if (storage.promotion) await storage.promotion
    if (delivery.storage.kind === 'log') return await cancelEntry(ctx, delivery, storage, 'EndpointDeleted')
  }
  await retryUntilDurable(ctx, 'delete WebhookDelivery', async () => {
    try {
      await ctx.objects.remove(delivery)
    } catch (error) {
      if (!isApiError(error, 'NotFound')) throw error
    }
  })
  ctx.engine.drop(delivery)
}

/** Starts canceling some of the deliveries held too long. @param queues those of this replica @returns how many */
export function cancelHeld(
  ctx: EngineContext,
  queues: Iterable<EndpointQueue>,
  limits: { failedMs: number },
  now: number,
): number {
  let started = 0
  for (const queue of queues) {
    const disabledAt = disabledSince(ctx, queue)
    if (disabledAt === undefined || !heldTooLong({ disabledAt, acceptedAt: 0 }, limits, now)) continue
    for (const delivery of queue.members()) {
      if (started >= MAX_PER_CALL) return started
      if (!isHeld(delivery) || !heldTooLong({ disabledAt, acceptedAt: delivery.acceptedAt }, limits, now))
        continue
      delivery.stage = 'sending'
      startOwnedWork(ctx, queue, () => cancelIfHeld(ctx, delivery))
      started += 1
    }
  }
  return started
}

/** Entries of the log get an object within seconds; then it is their turn. */
function isHeld({ stage, storage }: Delivery): boolean {
  return storage.kind === 'object' && (stage === 'queued' || stage === 'waiting')
}

function disabledSince(ctx: EngineContext, queue: EndpointQueue): number | undefined {
  const view = ctx.directory.find(queue.endpoint)
  if (view?.decision.state !== 'disabled') return undefined
  const at = Date.parse(view.endpoint.status?.disabledAt ?? '')
  return Number.isNaN(at) ? undefined : at
}

async function cancelIfHeld(ctx: EngineContext, delivery: Delivery): Promise<void> {
  try {
    const object = await ctx.objects.read(delivery)
    if (disabledSince(ctx, delivery.queue) !== undefined)
      return await cancelObject(ctx, delivery, stateOf(object), 'HeldTooLong')
  } catch (error) {
    if (isApiError(error, 'NotFound')) return ctx.engine.drop(delivery)
  }
  delivery.stage = 'waiting'
  ctx.engine.wait(delivery)
}
