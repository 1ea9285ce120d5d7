import { deliverySegments } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId, nameOfMessage } from '../../apis/ids.ts'
import { webhookDeliveries, webhookDelivery } from '../../apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import {
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  UnreadableError,
} from '../../kube/client.ts'
import { listObjects } from '../../kube/list.ts'
import { LOG_PAGE, readLargePayload, readSegment } from '../log/reader.ts'
import type { LogDelivery } from '../log/store.ts'

/** Finds the event of a delivery that is to be redelivered: in its object, or in the log. */

/** `deliveryId` is the `msg_` id of the original delivery. */
export type Original = { deliveryId: string; type: string; payload: string }

export type OriginalSources = {
  resources: ResourceReader
  namespace: string
  /** Name of the segment with the delivery's event, if there is one; absent: search the log. @param deliveryId `msg_...` */
  segmentOf?: (
    endpoint: { namespace: string; name: string; uid: string },
    deliveryId: string,
  ) => string | undefined
}

/** Undefined if this endpoint has no such delivery, or no longer. */
export async function findOriginal(
  sources: OriginalSources,
  endpoint: WebhookEndpoint,
  deliveryId: string,
): Promise<Original | undefined> {
  const event = nameOfMessage(deliveryId)
  if (event === undefined) return undefined
  const { namespace = '', name, uid } = endpoint.metadata
  const original = await readObject(sources, { namespace, name: deliveryObjectName(event, uid) }, uid)
  if (original) return original
  const { resources, segmentOf } = sources
  if (!segmentOf) return await searchLog(sources, event, uid)
  const segment = segmentOf({ namespace, name, uid }, deliveryId)
  if (segment === undefined) return undefined
  const raw = await findObject(resources, deliverySegments, { namespace: sources.namespace, name: segment })
  return raw && originalIn(raw, event, uid)
}

async function readObject(
  { resources, namespace }: OriginalSources,
  ref: { namespace: string; name: string },
  uid: string,
): Promise<Original | undefined> {
  try {
    const { data } = webhookDelivery.safeParse(await resources.get(webhookDeliveries, ref))
    // Another endpoint's object may have the name.
    if (data?.spec.endpointUid !== uid) return undefined
    const { deliveryId, eventType, payload, payloadRef } = data.spec
    const text =
      payload ?? (payloadRef && (await readLargePayload(resources, namespace, payloadRef, ref.namespace)))
    return text === undefined ? undefined : { deliveryId, type: eventType, payload: text }
  } catch (error) {
    if (isApiError(error, 'NotFound') || error instanceof UnreadableError) return undefined
    throw error
  }
}

/** Rare, and bounded by retention: a delivery that succeeded from the log has no object. */
async function searchLog(
  { resources, namespace }: OriginalSources,
  event: string,
  uid: string,
): Promise<Original | undefined> {
  for await (const raw of listObjects(resources, deliverySegments, { namespace, limit: LOG_PAGE })) {
    const found = originalIn(raw, event, uid)
    if (found) return found
  }
  return undefined
}

/** @param id the 26 characters of the event's id @param uid of the endpoint */
function originalIn(raw: RawObject, id: string, uid: string): Original | undefined {
  let deliveries: readonly LogDelivery[]
  try {
    deliveries = readSegment(raw).deliveries
  } catch {
    // The watch of the log reports it.
    return undefined
  }
  const found = deliveries.find(({ event, endpoint }) => event.id === id && endpoint.uid === uid)
  return found && { deliveryId: messageId(id), type: found.event.type, payload: found.event.payload }
}
