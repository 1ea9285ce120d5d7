/** Deliveries that are found with an object that shows no end, though their end was decided on before. */
import { messageId } from '../../domain/message-id.ts'
import { begin } from './begin.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryPlane } from './delivery-plane.ts'
import { persist } from './persist.ts'
import { cancelObject, exhaustObject } from './settle-object.ts'

/** Counted as exhausted, but the process ended before the delivery's own end was written. */
export function wasCounted(plane: DeliveryPlane, { name, lane }: Delivery): boolean {
  return plane.ctx.directory.find(lane.endpoint)?.endpoint.status?.lastCounted === messageId(name)
}

/** Before another delivery of the endpoint is counted, after which nothing would tell that this one was. */
export function exhaustCounted(plane: DeliveryPlane, delivery: Delivery): void {
  const { ctx } = plane
  delivery.stage = 'sending'
  const exhaust = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await exhaustObject(ctx, delivery, object)
    else ctx.dropped(delivery)
  }
  const end = () => persist(ctx, 'the end of an exhausted delivery', exhaust)
  const { lane } = delivery
  begin(ctx, lane, () => ctx.streaks.exhausted(lane.endpoint, messageId(delivery.name), end))
}

export function cancelRestored(plane: DeliveryPlane, delivery: Delivery): void {
  const { ctx } = plane
  delivery.stage = 'sending'
  const cancel = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await cancelObject(ctx, delivery, object, 'Restored')
    else ctx.dropped(delivery)
  }
  begin(ctx, delivery.lane, () => persist(ctx, 'the end of a restored delivery', cancel))
}
