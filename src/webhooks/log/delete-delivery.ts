import { deliveryOutline } from '../../apis/delivery-outline.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { isFinal } from '../delivery/status.ts'

/** What became of it: it is gone, or it has not finished and stays. */
export type Deletion = 'gone' | 'unfinished'

type Resources = ResourceReader & ResourceWriter
type Ref = { namespace: string; name: string }

/**
 * Deletes the object of a finished delivery in exactly the version that was seen to be finished; where it has
 * another one, or none is known, it is looked at first.
 * @param version resourceVersion, 0 where none is known @throws ApiError `Conflict` and the rest, but not `NotFound`
 */
export async function deleteDelivery(resources: Resources, ref: Ref, version: number): Promise<Deletion> {
  try {
    if (version > 0 && (await deleteVersion(resources, ref, version))) return 'gone'
    return await lookAndDelete(resources, ref)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return 'gone'
    throw error
  }
}

/** @returns false when it has another version */
async function deleteVersion(resources: Resources, ref: Ref, version: number): Promise<boolean> {
  try {
    await resources.delete(webhookDeliveries, ref, { resourceVersion: String(version) })
    return true
  } catch (error) {
    if (isApiError(error, 'Conflict')) return false
    throw error
  }
}

async function lookAndDelete(resources: Resources, ref: Ref): Promise<Deletion> {
  const raw = await resources.get(webhookDeliveries, ref)
  const { uid, resourceVersion } = raw.metadata
  const state = deliveryOutline.safeParse(raw).data?.status?.state
  if (!isFinal(state) || uid === undefined || resourceVersion === undefined) return 'unfinished'
  await resources.delete(webhookDeliveries, ref, { uid, resourceVersion })
  return 'gone'
}
