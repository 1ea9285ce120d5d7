import { deliverySegment, deliverySegments } from '../../api/delivery-segment.ts'
import { decodeEvent } from '../../api/segment-event-line.ts'
import type { PayloadRef } from '../../api/webhook-delivery.ts'
import { isApiError, type ResourceReader } from '../../ports/kubernetes.ts'

/**
 * A payload over 16 KiB, from the segment that holds it.
 * @returns undefined when the segment is gone (somebody deleted it: the log keeps what is referred to)
 */
export async function largePayload(
  resources: ResourceReader,
  namespace: string,
  ref: PayloadRef,
): Promise<string | undefined> {
  try {
    const segment = deliverySegment.parse(
      await resources.get(deliverySegments, { namespace, name: ref.segment }),
    )
    return decodeEvent(segment.spec.events[ref.event] ?? '')?.payload
  } catch (error) {
    if (isApiError(error, 'NotFound')) return undefined
    throw error
  }
}
