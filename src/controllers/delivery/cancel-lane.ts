/** The endpoint is gone: what had not ended is canceled, and its objects go with it (settled: they are the endpoint's). */
import { isApiError } from '../../ports/kubernetes.ts'
import type { Delivery } from './delivery.ts'
import type { Lane } from './lane.ts'
import { cancelEntry } from './move-to-object.ts'
import { persist } from './persist.ts'
import type { PlaneContext } from './plane-context.ts'

/** Objects that are deleted. */
const OBJECTS_AT_A_TIME = 16
/** Entries of the log, which share a write: one of so many waits for no more. */
const ENTRIES_AT_A_TIME = 64

export async function cancelLane(ctx: PlaneContext, lane: Lane): Promise<void> {
  const members = [...lane.members()].filter((delivery) => !isUnderWay(delivery))
  const { log = [], object = [] } = Object.groupBy(members, ({ home }) => home.kind)
  await cancelEach(ctx, log, ENTRIES_AT_A_TIME)
  await cancelEach(ctx, object, OBJECTS_AT_A_TIME)
}

async function cancelEach(
  ctx: PlaneContext,
  deliveries: readonly Delivery[],
  atATime: number,
): Promise<void> {
  for (let at = 0; at < deliveries.length; at += atATime) {
    await Promise.all(deliveries.slice(at, at + atATime).map((delivery) => cancelDelivery(ctx, delivery)))
  }
}

/** What has been sent well, and only its object is to come, is no more canceled than what is being sent. */
function isUnderWay({ stage, home }: Delivery): boolean {
  return stage === 'sending' || (stage === 'passed' && home.kind === 'log')
}

export async function cancelDelivery(ctx: PlaneContext, delivery: Delivery): Promise<void> {
  const { home } = delivery
  if (home.kind === 'log') {
    if (home.moving) await home.moving
    if (delivery.home.kind === 'log') return await cancelEntry(ctx, delivery, home, 'EndpointDeleted')
  }
  await persist(ctx, 'the end of a delivery', () => removeObject(ctx, delivery))
  ctx.dropped(delivery)
}

async function removeObject(ctx: PlaneContext, delivery: Delivery): Promise<void> {
  try {
    await ctx.objects.remove(delivery)
  } catch (error) {
    if (!isApiError(error, 'NotFound')) throw error
  }
}
