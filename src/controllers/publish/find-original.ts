/** The event behind a delivery that is to be delivered again: from its object, or from the log. */
import { deliverySegments } from '../../api/delivery-segment.ts'
import { webhookDeliveries, webhookDelivery } from '../../api/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../api/webhook-endpoint.ts'
import { deliveryObjectName, nameOfMessage } from '../../domain/message-id.ts'
import type { LogDelivery } from '../../ports/delivery-log.ts'
import { isApiError, type RawObject, type ResourceReader } from '../../ports/kubernetes.ts'
import { largePayload } from '../delivery/large-payload.ts'
import { readSegment } from '../delivery-log/read-back.ts'
import { UnreadableError } from '../unreadable-error.ts'

/** `deliveryId` is the `msg_` id of the delivery that is repeated. */
export type Original = { deliveryId: string; type: string; payload: string }

const PAGE = 50

/** Undefined when this endpoint has no such delivery (any more). */
export async function findOriginal(
  resources: ResourceReader,
  operatorNamespace: string,
  endpoint: WebhookEndpoint,
  deliveryId: string,
): Promise<Original | undefined> {
  const name = nameOfMessage(deliveryId)
  if (name === undefined) return undefined
  const { namespace = '', uid } = endpoint.metadata
  const shown = await readObject(resources, operatorNamespace, {
    namespace,
    name: deliveryObjectName(name, uid),
  })
  return shown ?? (await searchLog(resources, operatorNamespace, name, uid))
}

async function readObject(
  resources: ResourceReader,
  operatorNamespace: string,
  ref: { namespace: string; name: string },
): Promise<Original | undefined> {
  try {
    const { data } = webhookDelivery.safeParse(await resources.get(webhookDeliveries, ref))
    if (!data) return undefined
    const { deliveryId, eventType, payload, payloadRef } = data.spec
    const text = payload ?? (payloadRef && (await largePayload(resources, operatorNamespace, payloadRef)))
    return text === undefined ? undefined : { deliveryId, type: eventType, payload: text }
  } catch (error) {
    if (isApiError(error, 'NotFound') || error instanceof UnreadableError) return undefined
    throw error
  }
}

/** None in a segment that cannot be read: the watch of the log tells of it. */
function deliveriesIn(raw: RawObject): readonly LogDelivery[] {
  try {
    return readSegment(raw).deliveries
  } catch {
    return []
  }
}

/** A success of an endpoint that keeps its log in segments has no object. Rare, and bounded by retention. */
async function searchLog(
  resources: ResourceReader,
  operatorNamespace: string,
  name: string,
  endpointUid: string,
): Promise<Original | undefined> {
  let from: string | undefined
  do {
    const page = await resources.list(deliverySegments, { namespace: operatorNamespace, limit: PAGE }, from)
    for (const raw of page.items) {
      const found = deliveriesIn(raw).find(
        ({ event, endpoint }) => event.id === name && endpoint.uid === endpointUid,
      )
      if (found) return { deliveryId: `msg_${name}`, type: found.event.type, payload: found.event.payload }
    }
    from = page.continue
  } while (from)
  return undefined
}
