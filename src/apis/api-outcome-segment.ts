/**
 * OutcomeSegment: one replica's group commit of what became of deliveries. Append-only, in the operator's
 * namespace. Documented for people who debug; not an API to build on.
 */
import { z } from 'zod'
import {
  DNS_LABEL_NAME,
  isEpochMs,
  isTextOfLength,
  type KindDefinition,
  logObjectMeta,
  type RawLogObject,
  readLogMeta,
  resourceType,
  text,
} from './meta.ts'

/** Characters. */
const WRITER = { min: 1, max: 128 }
const MARK = { min: 1, max: 20 }
const RECORDS = { min: 5, max: 1_400_000 }
const DIGITS = /^[0-9]+$/

export const outcomeSegmentSpec = z
  .object({
    writtenAt: z
      .int()
      .min(0)
      .meta({ description: 'When it was written, in milliseconds since 1970.', format: 'int64' }),
    writer: text({ ...WRITER, describe: 'The replica that wrote it.' }),
    lowWater: text({
      ...MARK,
      pattern: DIGITS,
      describe: 'Every delivery in a segment up to this resourceVersion was closed when this was written.',
    }),
    records: text({
      ...RECORDS,
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
export type OutcomeSegment = z.infer<typeof outcomeSegment>

/** As a segment of accepted events: by hand where it is as nearly all are. @throws ZodError when it is none */
export function readOutcomeSegment(raw: RawLogObject): OutcomeSegment {
  const metadata = readLogMeta(raw.metadata)
  const { writtenAt, writer, lowWater, records } = (raw.spec ?? {}) as Record<string, unknown>
  if (!metadata || !isEpochMs(writtenAt) || !isTextOfLength(writer, WRITER)) return outcomeSegment.parse(raw)
  if (!isTextOfLength(lowWater, MARK) || !DIGITS.test(lowWater)) return outcomeSegment.parse(raw)
  if (!isTextOfLength(records, RECORDS)) return outcomeSegment.parse(raw)
  return { metadata, spec: { writtenAt, writer, lowWater, records } }
}

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
