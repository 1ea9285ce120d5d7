/**
 * OutcomeSegment: one replica's group commit of what became of deliveries. Append-only, in the operator's
 * namespace. Documented for people who debug; not an API to build on.
 */
import { z } from 'zod'
import { DNS_LABEL_NAME, type KindDefinition, logObjectMeta, resourceType, text } from './meta.ts'

export const outcomeSegmentSpec = z
  .object({
    writtenAt: z
      .int()
      .min(0)
      .meta({ description: 'When it was written, in milliseconds since 1970.', format: 'int64' }),
    writer: text({ min: 1, max: 128, describe: 'The replica that wrote it.' }),
    lowWater: text({
      min: 1,
      max: 20,
      pattern: /^[0-9]+$/,
      describe: 'Every delivery in a segment up to this resourceVersion was closed when this was written.',
    }),
    records: text({
      min: 5,
      max: 1_400_000,
      describe:
        'The records (sent, failed, moved, reopened, canceled, ended), one a line: position, kind, and facts as JSON; or claim or release and numbers of shards.',
    }),
  })
  .meta({
    description: 'Records of outcomes; immutable.',
    'x-kubernetes-map-type': 'atomic',
    'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'a segment is never updated' }],
  })

export const outcomeSegment = z.object({ metadata: logObjectMeta, spec: outcomeSegmentSpec })

export const outcomeSegmentKind: KindDefinition = {
  kind: 'OutcomeSegment',
  plural: 'outcomesegments',
  singular: 'outcomesegment',
  shortNames: ['wos'],
  scope: 'Namespaced',
  description: "Davit's own: a group of outcomes of deliveries in the delivery log.",
  spec: outcomeSegmentSpec,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Writer', type: 'string', jsonPath: '.spec.writer' },
    { name: 'LowWater', type: 'string', jsonPath: '.spec.lowWater' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const outcomeSegments = resourceType(outcomeSegmentKind)
