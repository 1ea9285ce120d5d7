import { deliveryOutline } from '../../api/delivery-outline.ts'
import { webhookDeliveries } from '../../api/webhook-delivery.ts'
import { isFinal } from '../../domain/delivery.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../ports/kubernetes.ts'

/** What became of it: it is gone, or it has not finished and stays. */
export type Deletion = 'gone' | 'unfinished'

/**
 * Deletes the object of a finished delivery, as it was looked at just before: a change in between is a conflict.
 * @throws ApiError `Conflict` and the rest, but not `NotFound`
 */
export async function deleteDelivery(
  resources: ResourceReader & ResourceWriter,
  ref: { namespace: string; name: string },
): Promise<Deletion> {
  try {
    const raw = await resources.get(webhookDeliveries, ref)
    const { uid, resourceVersion } = raw.metadata
    const state = deliveryOutline.safeParse(raw).data?.status?.state
    if (!isFinal(state) || uid === undefined || resourceVersion === undefined) return 'unfinished'
    await resources.delete(webhookDeliveries, ref, { uid, resourceVersion })
    return 'gone'
  } catch (error) {
    if (isApiError(error, 'NotFound')) return 'gone'
    throw error
  }
}
