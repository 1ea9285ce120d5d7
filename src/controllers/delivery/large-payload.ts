import { deliverySegment, deliverySegmentKind, deliverySegments } from '../../api/delivery-segment.ts'
import { decodeEvent } from '../../api/segment-event-line.ts'
import type { PayloadRef } from '../../api/webhook-delivery.ts'
import { isApiError, type ResourceReader } from '../../ports/kubernetes.ts'
import { UnreadableError } from '../unreadable-error.ts'

/**
 * A payload over 16 KiB, from the segment that holds it.
 * @returns undefined when the segment is gone (somebody deleted it: the log keeps what is referred to)
 * @throws UnreadableError
 */
export async function largePayload(
  resources: ResourceReader,
  namespace: string,
  ref: PayloadRef,
): Promise<string | undefined> {
  try {
    const raw = await resources.get(deliverySegments, { namespace, name: ref.segment })
    const { data } = deliverySegment.safeParse(raw)
    if (!data) throw new UnreadableError(deliverySegmentKind.kind, `${namespace}/${ref.segment}`)
    return decodeEvent(data.spec.events[ref.event] ?? '')?.payload
  } catch (error) {
    if (isApiError(error, 'NotFound')) return undefined
    throw error
  }
}
