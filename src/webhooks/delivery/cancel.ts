import { isApiError } from '../../kube/client.ts'
import { inGroups } from '../../lib/semaphore.ts'
import { heldTooLong } from '../log/retention-plan.ts'
import { cancelObject } from './attempt.ts'
import { type EngineContext, retryUntilDurable, startOwnedWork } from './context.ts'
import { cancelEntry } from './promotion.ts'
import type { Delivery, EndpointQueue } from './queue.ts'

/** The endpoint is gone: what had not ended is canceled, and its objects go with it (settled: they are the endpoint's). */

/** Objects that are deleted. */
const OBJECTS_AT_A_TIME = 16
/** Entries of the log, which share a write: one of so many waits for no more. */
const ENTRIES_AT_A_TIME = 64

export async function cancelQueue(ctx: EngineContext, lane: EndpointQueue): Promise<void> {
  const members = [...lane.members()].filter((delivery) => !isUnderWay(delivery))
  const { log = [], object = [] } = Object.groupBy(members, ({ storage }) => storage.kind)
  await inGroups(log, ENTRIES_AT_A_TIME, (delivery) => cancelDelivery(ctx, delivery))
  await inGroups(object, OBJECTS_AT_A_TIME, (delivery) => cancelDelivery(ctx, delivery))
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

/** What a disabled endpoint has held for longer than the retention time ends as canceled (settled: events and deliveries). */

/** Started in one call: it is called again. */
const AT_MOST = 50

export type HeldOptions = {
  ctx: EngineContext
  /** Those that this process drives. */
  lanes: Iterable<EndpointQueue>
  /** How long a delivery may be held, milliseconds. */
  limits: { failedMs: number }
}

/** Ends some of those held too long, in the background of the plane. @param now milliseconds since 1970 @returns how many */
export function cancelHeld({ ctx, lanes, limits }: HeldOptions, now: number): number {
  let started = 0
  for (const lane of lanes) {
    const disabledAt = disabledSince(ctx, lane)
    if (disabledAt === undefined || !heldTooLong({ disabledAt, acceptedAt: 0 }, limits, now)) continue
    for (const delivery of lane.members()) {
      if (started >= AT_MOST) return started
      if (!isHeld(delivery) || !heldTooLong({ disabledAt, acceptedAt: delivery.acceptedAt }, limits, now))
        continue
      // Nobody else takes it up from here on.
      delivery.stage = 'sending'
      startOwnedWork(ctx, lane, () => cancel(ctx, delivery))
      started += 1
    }
  }
  return started
}

/** Entries of the log get an object within seconds; then it is their turn. */
function isHeld({ stage, storage }: Delivery): boolean {
  return storage.kind === 'object' && (stage === 'queued' || stage === 'waiting')
}

/** Undefined unless the endpoint is disabled. */
function disabledSince(ctx: EngineContext, lane: EndpointQueue): number | undefined {
  const view = ctx.directory.find(lane.endpoint)
  if (view?.decision.state !== 'disabled') return undefined
  const at = Date.parse(view.endpoint.status?.disabledAt ?? '')
  return Number.isNaN(at) ? undefined : at
}

async function cancel(ctx: EngineContext, delivery: Delivery): Promise<void> {
  try {
    const object = await ctx.objects.read(delivery)
    if (disabledSince(ctx, delivery.queue) === undefined) return goOn(ctx, delivery)
    await cancelObject(ctx, delivery, object, 'HeldTooLong')
  } catch (error) {
    if (isApiError(error, 'NotFound')) return ctx.dropped(delivery)
    goOn(ctx, delivery)
  }
}

function goOn(ctx: EngineContext, delivery: Delivery): void {
  delivery.stage = 'waiting'
  ctx.wait(delivery)
}
