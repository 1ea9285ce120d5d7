import type { Delivery, EndpointQueue, Stage } from '../../src/webhooks/delivery/endpoint-queue.ts'

/** The endpoint of endpoint queues in tests. */
export const QUEUE_ENDPOINT = { namespace: 'acme', name: 'one', uid: 'uid' }

export function queueDelivery(queue: EndpointQueue, version: number, stage: Stage = 'queued'): Delivery {
  return {
    name: `event-${version}`,
    queue,
    version,
    index: 0,
    acceptedAt: 0,
    ofWebhookEvent: true,
    bodyBytes: 0,
    sharesBody: false,
    attempts: 0,
    dueAt: 0,
    stage,
    left: false,
    storage: { kind: 'object' },
  }
}
