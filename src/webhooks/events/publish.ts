/** The event behind a delivery that is to be delivered again: from its object, or from the log. */

import { deliverySegments } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId, nameOfMessage } from '../../apis/ids.ts'
import { webhookDeliveries, webhookDelivery } from '../../apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { isApiError, type RawObject, type ResourceReader } from '../../kube/client.ts'
import { listObjects } from '../../kube/every-object.ts'
import { findObject } from '../../kube/find-object.ts'
import { UnreadableError } from '../../kube/unreadable-error.ts'
import { largePayload } from '../log/large-payload.ts'
import { LOG_PAGE } from '../log/log-pages.ts'
import { readSegment } from '../log/reader.ts'
import type { LogDelivery } from '../log/store.ts'

/** `deliveryId` is the `msg_` id of the delivery that is repeated. */
export type Original = { deliveryId: string; type: string; payload: string }

export type OriginalSources = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  /**
   * Name of the segment that holds the delivery's event, undefined where none does; absent: the log is searched.
   * @param deliveryId `msg_...`
   */
  segmentOf?: (
    endpoint: { namespace: string; name: string; uid: string },
    deliveryId: string,
  ) => string | undefined
}

/** Undefined when this endpoint has no such delivery (any more). */
export async function findOriginal(
  sources: OriginalSources,
  endpoint: WebhookEndpoint,
  deliveryId: string,
): Promise<Original | undefined> {
  const event = nameOfMessage(deliveryId)
  if (event === undefined) return undefined
  const { namespace = '', name, uid } = endpoint.metadata
  const shown = await readObject(sources, { namespace, name: deliveryObjectName(event, uid) }, uid)
  if (shown) return shown
  if (!sources.segmentOf) return await searchLog(sources, event, uid)
  const segment = sources.segmentOf({ namespace, name, uid }, deliveryId)
  return segment === undefined ? undefined : await readLine(sources, segment, { event, uid })
}

async function readObject(
  { resources, namespace }: OriginalSources,
  ref: { namespace: string; name: string },
  uid: string,
): Promise<Original | undefined> {
  try {
    const { data } = webhookDelivery.safeParse(await resources.get(webhookDeliveries, ref))
    // Somebody else's may have the name.
    if (data?.spec.endpointUid !== uid) return undefined
    const { deliveryId, eventType, payload, payloadRef } = data.spec
    const text =
      payload ?? (payloadRef && (await largePayload(resources, namespace, payloadRef, ref.namespace)))
    return text === undefined ? undefined : { deliveryId, type: eventType, payload: text }
  } catch (error) {
    if (isApiError(error, 'NotFound') || error instanceof UnreadableError) return undefined
    throw error
  }
}

/** The event of a delivery, by the 26 characters of its id and the UID of the endpoint. */
type Wanted = { event: string; uid: string }

async function readLine(
  { resources, namespace }: OriginalSources,
  name: string,
  wanted: Wanted,
): Promise<Original | undefined> {
  const raw = await findObject(resources, deliverySegments, { namespace, name })
  return raw && originalIn(raw, wanted)
}

function originalIn(raw: RawObject, { event: id, uid }: Wanted): Original | undefined {
  const found = deliveriesIn(raw).find(({ event, endpoint }) => event.id === id && endpoint.uid === uid)
  return found && { deliveryId: messageId(id), type: found.event.type, payload: found.event.payload }
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
  { resources, namespace }: OriginalSources,
  event: string,
  uid: string,
): Promise<Original | undefined> {
  for await (const raw of listObjects(resources, deliverySegments, { namespace, limit: LOG_PAGE })) {
    const found = originalIn(raw, { event, uid })
    if (found) return found
  }
  return undefined
}
