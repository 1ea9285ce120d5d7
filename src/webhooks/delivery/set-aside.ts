import { messageId } from '../../apis/ids.ts'
import type { WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import type { Begun, FoundBegun } from '../log/crash-series.ts'
import { type EngineContext, warnOnEndpoint } from './context.ts'
import type { Delivery } from './endpoint-queue.ts'
import { setAsideStatus } from './plan.ts'

/** What a takeover finds of attempts that may have ended the owner before. README.md explains what follows. */

/** The attempt that an earlier owner had begun when it ended, and whose outcome is not known. */
export function attemptBegunBefore(
  { begun, claims, writer }: Pick<EngineContext, 'begun' | 'claims' | 'writer'>,
  { version, index, attempts, queue: { shard } }: Delivery,
): FoundBegun | undefined {
  const found = begun.at({ version, index }, attempts)
  if (!found || found.writer === writer || claims.wasReleasedCleanly(shard)) return undefined
  return claims.isFenced(shard, found.version, found.writer) ? undefined : found
}

/**
 * Tells the endpoint's owners that an attempt crashed its controller.
 * @returns what follows for the status, however often it has to be decided
 */
export function setAside(
  ctx: EngineContext,
  { name, queue: { endpoint } }: Delivery,
  begun: Begun,
): (before: WebhookDeliveryStatus) => WebhookDeliveryStatus {
  const delivery = messageId(name)
  const fields = { delivery, namespace: endpoint.namespace, endpoint: endpoint.name }
  ctx.log.warn(
    'delivery_set_aside',
    'a controller stopped during this attempt, which will be repeated later',
    fields,
  )
  const message = `The Davit controller crashed at least twice while it was sending the delivery ${delivery}, so this delivery is the likely cause. Davit counts the attempt as failed and will retry the delivery in five minutes.`
  warnOnEndpoint(ctx, endpoint, 'DeliverySetAside', message)
  return (before) => setAsideStatus(before, begun, { now: ctx.clock.now(), scale: ctx.waitScale })
}
