import { messageId } from '../../apis/ids.ts'
import type { UnreadableError } from '../../kube/unreadable-error.ts'
import { endpointReference } from '../endpoints/about-endpoint.ts'
import type { EngineContext } from './context.ts'
import type { Delivery } from './delivery.ts'

/**
 * A delivery that cannot be read leaves its lane, so that those behind it go on. It has not ended: it counts as
 * pending, its object stays as it is, and the next start looks at it again.
 */
export function leaveUnread(ctx: EngineContext, delivery: Delivery, error: UnreadableError): void {
  const id = messageId(delivery.name)
  const { endpoint } = delivery.queue
  ctx.log.error('A delivery cannot be read and waits for the next start', { delivery: id, error })
  const view = ctx.directory.find(endpoint)
  if (view) {
    const message = `${id} is not sent: ${error.message}. It is looked at again when Davit starts.`
    const event = { type: 'Warning', reason: 'UnreadableDelivery', message } as const
    ctx.events.record(endpointReference(view.endpoint.metadata), event)
  }
  delivery.queue.pass(delivery)
}
