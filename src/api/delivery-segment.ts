/**
 * DeliverySegment: the group commit of accepted events and of the deliveries that they make. Append-only,
 * in the operator's namespace; the resourceVersion of the object is its place in the log for good.
 * Documented for people who debug; not an API to build on.
 */
import { z } from 'zod'
import { DNS_LABEL_NAME, type KindDefinition, objectMeta, resourceType, text } from './meta.ts'

/** Bounds of one segment (one larger event gets a segment of its own). */
export const MAX_SEGMENT_BYTES = 256 * 1024
export const MAX_SEGMENT_DELIVERIES = 4096

export const segmentEvent = z
  .object({
    id: text({ min: 26, max: 26, pattern: /^[0-9a-z]{26}$/, describe: 'The event id without its prefix.' }),
    namespace: text({ min: 1, max: 63, describe: 'The organization.' }),
    type: text({ min: 1, max: 128, describe: 'The event type.' }),
    payload: text({ min: 2, max: 300_000, describe: 'The exact bytes of the body.' }),
    key: text({
      max: 64,
      describe: 'What makes a repeat harmless: of several positions with one key the first counts.',
    }).optional(),
    redeliveryOf: text({ max: 64, describe: 'The delivery that this one repeats.' }).optional(),
  })
  .meta({ description: 'An accepted event.' })
export type SegmentEvent = z.infer<typeof segmentEvent>

/** An endpoint that gets an event; the UID tells it from one recreated under the same name. */
export type Target = { name: string; uid: string }

/** An event that was accepted, with the endpoints that get it: what is appended to the delivery log. */
export type AcceptedEvent = { event: SegmentEvent; targets: readonly Target[] }

export const deliverySegmentSpec = z
  .object({
    writtenAt: z
      .int()
      .min(0)
      .meta({ description: 'When it was written, in milliseconds since 1970.', format: 'int64' }),
    writer: text({ min: 1, max: 128, describe: 'The process that wrote it.' }),
    events: z
      .array(segmentEvent)
      .min(1)
      .max(MAX_SEGMENT_DELIVERIES)
      .meta({ description: 'The events.', 'x-kubernetes-list-type': 'atomic' }),
    deliveries: z
      .array(
        text({
          min: 5,
          max: 160,
          pattern: /^[0-9]+ [a-z0-9-]{1,63} [A-Za-z0-9-]{1,64}$/,
          describe: 'Index of the event, name and UID of the endpoint.',
        }),
      )
      .max(MAX_SEGMENT_DELIVERIES)
      .meta({ description: 'The deliveries, in the order of the log.', 'x-kubernetes-list-type': 'atomic' }),
  })
  .meta({
    description: 'Accepted events and their deliveries; immutable.',
    'x-kubernetes-map-type': 'atomic',
    'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'a segment is never updated' }],
  })

export const deliverySegment = z.object({ metadata: objectMeta, spec: deliverySegmentSpec })
export type DeliverySegment = z.infer<typeof deliverySegment>
export type DeliverySegmentSpec = z.infer<typeof deliverySegmentSpec>

export const deliverySegmentKind: KindDefinition = {
  kind: 'DeliverySegment',
  plural: 'deliverysegments',
  singular: 'deliverysegment',
  shortNames: ['wds'],
  scope: 'Namespaced',
  description: "Davit's own: a group of accepted events in the delivery log.",
  spec: deliverySegmentSpec,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Writer', type: 'string', jsonPath: '.spec.writer' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const deliverySegments = resourceType(deliverySegmentKind)
