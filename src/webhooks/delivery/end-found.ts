/** Deliveries that are found with an object that shows no end, though their end was decided on before. */
import { messageId } from '../../apis/ids.ts'
import { startOwnedWork } from './begin.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryEngine } from './engine.ts'
import { retryUntilDurable } from './persist.ts'
import { cancelObject, exhaustObject } from './settle-object.ts'

/** Counted as exhausted, but the process ended before the delivery's own end was written. */
export function wasCounted(plane: DeliveryEngine, { name, queue }: Delivery): boolean {
  return plane.ctx.directory.find(queue.endpoint)?.endpoint.status?.lastCounted === messageId(name)
}

/** Before another delivery of the endpoint is counted, after which nothing would tell that this one was. */
export function exhaustCounted(plane: DeliveryEngine, delivery: Delivery): void {
  const { ctx } = plane
  delivery.stage = 'sending'
  const exhaust = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await exhaustObject(ctx, delivery, object)
    else ctx.dropped(delivery)
  }
  const end = () => retryUntilDurable(ctx, 'the end of an exhausted delivery', exhaust)
  const { queue } = delivery
  startOwnedWork(ctx, queue, () => ctx.streaks.exhausted(queue.endpoint, messageId(delivery.name), end))
}

export function cancelRestored(plane: DeliveryEngine, delivery: Delivery): void {
  const { ctx } = plane
  delivery.stage = 'sending'
  const cancel = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await cancelObject(ctx, delivery, object, 'Restored')
    else ctx.dropped(delivery)
  }
  startOwnedWork(ctx, delivery.queue, () => retryUntilDurable(ctx, 'the end of a restored delivery', cancel))
}
