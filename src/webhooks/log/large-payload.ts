import { deliverySegment, deliverySegmentKind, deliverySegments } from '../../apis/delivery-segment.ts'
import { decodeEventLine } from '../../apis/segment-event-line.ts'
import type { PayloadRef } from '../../apis/webhook-delivery.ts'
import type { ResourceReader } from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import { UnreadableError } from '../../kube/unreadable-error.ts'

/**
 * A payload over 16 KiB, from the segment that holds it.
 * @param namespace the operator's
 * @param organization of the delivery: events of another one are in the same log, and whoever could make a delivery by hand must not
 * have them sent
 * @returns undefined when the segment is gone (somebody deleted it: the log keeps what is referred to), or has no such event of it
 * @throws UnreadableError
 */
export async function largePayload(
  resources: ResourceReader,
  namespace: string,
  ref: PayloadRef,
  organization: string,
): Promise<string | undefined> {
  const raw = await findObject(resources, deliverySegments, { namespace, name: ref.segment })
  if (!raw) return undefined
  const { data } = deliverySegment.safeParse(raw)
  if (!data) throw new UnreadableError(deliverySegmentKind.kind, `${namespace}/${ref.segment}`)
  const event = decodeEventLine(data.spec.events[ref.event] ?? '')
  return event?.namespace === organization ? event.payload : undefined
}
