/** The endpoint is gone: what had not ended is canceled, and its objects go with it (settled: they are the endpoint's). */
import { isApiError } from '../../kube/client.ts'
import type { EngineContext } from './context.ts'
import type { Delivery } from './delivery.ts'
import { retryUntilDurable } from './persist.ts'
import { cancelEntry } from './promotion.ts'
import type { EndpointQueue } from './queue.ts'

/** Objects that are deleted. */
const OBJECTS_AT_A_TIME = 16
/** Entries of the log, which share a write: one of so many waits for no more. */
const ENTRIES_AT_A_TIME = 64

export async function cancelQueue(ctx: EngineContext, lane: EndpointQueue): Promise<void> {
  const members = [...lane.members()].filter((delivery) => !isUnderWay(delivery))
  const { log = [], object = [] } = Object.groupBy(members, ({ storage }) => storage.kind)
  await cancelEach(ctx, log, ENTRIES_AT_A_TIME)
  await cancelEach(ctx, object, OBJECTS_AT_A_TIME)
}

async function cancelEach(
  ctx: EngineContext,
  deliveries: readonly Delivery[],
  atATime: number,
): Promise<void> {
  for (let at = 0; at < deliveries.length; at += atATime) {
    await Promise.all(deliveries.slice(at, at + atATime).map((delivery) => cancelDelivery(ctx, delivery)))
  }
}

/** What has been sent well, and only its object is to come, is no more canceled than what is being sent. */
function isUnderWay({ stage, storage }: Delivery): boolean {
  return stage === 'sending' || (stage === 'passed' && storage.kind === 'log')
}

export async function cancelDelivery(ctx: EngineContext, delivery: Delivery): Promise<void> {
  const { storage } = delivery
  if (storage.kind === 'log') {
    if (storage.promotion) await storage.promotion
    if (delivery.storage.kind === 'log') return await cancelEntry(ctx, delivery, storage, 'EndpointDeleted')
  }
  await retryUntilDurable(ctx, 'the end of a delivery', () => removeObject(ctx, delivery))
  ctx.dropped(delivery)
}

async function removeObject(ctx: EngineContext, delivery: Delivery): Promise<void> {
  try {
    await ctx.objects.remove(delivery)
  } catch (error) {
    if (!isApiError(error, 'NotFound')) throw error
  }
}
