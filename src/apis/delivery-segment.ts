/**
 * DeliverySegment: a group commit of accepted events and their deliveries. Append-only, in the operator's namespace; its
 * resourceVersion is its place in the log. Documented for people who debug, not an API to build on.
 */
import { z } from 'zod'
import { checkFormat, logFormat, packedText, packLong, unpackSpec } from './log-format.ts'
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

/**
 * Position in the delivery log: the segment's resourceVersion and the index in the segment. Compared as numbers, positions are in the
 * order in which the underlying changes were committed (interface §6.5).
 */
export type Position = { version: number; index: number }

export function comparePositions(a: Position, b: Position): number {
  return a.version - b.version || a.index - b.index
}

export function formatPosition(position: Position): string {
  return `${position.version}/${position.index}`
}

export function parsePosition(text: string): Position | undefined {
  const match = /^(\d{1,15})\/(\d{1,6})$/.exec(text)
  return match ? { version: Number(match[1]), index: Number(match[2]) } : undefined
}

/** Limits of one segment. A larger event gets a segment of its own. */
export const MAX_SEGMENT_BYTES = 256 * 1024
export const MAX_SEGMENT_DELIVERIES = 4096

export type SegmentEvent = {
  /** The event id without its prefix. */
  id: string
  namespace: string
  type: string
  payload: string
  /** Deduplicates: of several positions with one key, the first counts. */
  key?: string
  /** Keyed hash of the request that brought the key; only for keys of requests. */
  fingerprint?: string
  redeliveryOf?: string
}

/** The UID distinguishes an endpoint from one recreated under its name. */
export type DeliveryTarget = { name: string; uid: string }

/** An event to append to the log, with the endpoints that get it. */
export type AcceptedEvent = { event: SegmentEvent; targets: readonly DeliveryTarget[] }

/** Characters. */
const WRITER = { min: 1, max: 128 }
const DELIVERIES = { min: 0, max: 700_000 }
const EVENT = { min: 40, max: 301_000 }

export const deliverySegmentSpec = z
  .object({
    format: logFormat,
    writtenAt: z.int().min(0).meta({
      description: 'writtenAt is when the segment was written, in milliseconds since 1970.',
      format: 'int64',
    }),
    writer: text({ ...WRITER, describe: 'writer is the process that wrote the segment.' }),
    // Lines cost the API server a third of what objects would.
    events: z
      .array(
        text({
          ...EVENT,
          describe:
            'ID, organization, type, idempotency key (or key~fingerprint, or -), redelivered delivery (or -), and the exact bytes of the body.',
        }),
      )
      .min(1)
      .max(MAX_SEGMENT_DELIVERIES)
      .optional()
      .meta({ description: 'events contains one event per line.', 'x-kubernetes-list-type': 'atomic' }),
    deliveries: text({
      ...DELIVERIES,
      describe:
        'deliveries contains one delivery per line, in log order: index of the event, name and UID of the endpoint.',
    }).optional(),
    packed: packedText,
  })
  .meta({
    description: 'spec contains accepted events and their deliveries. It is immutable.',
    'x-kubernetes-map-type': 'atomic',
    oneOf: [{ required: ['packed'] }, { required: ['events', 'deliveries'] }],
    'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'spec is immutable' }],
  })
export type DeliverySegmentSpec = z.infer<typeof deliverySegmentSpec>

/** Lines of events, and of deliveries. */
export type SegmentLines = { events: string[]; deliveries: string }

/** A segment to write, packed if it is long. @param writtenAt milliseconds since 1970 */
export function newDeliverySegment(
  { writtenAt, writer }: { writtenAt: number; writer: string },
  { events, deliveries }: SegmentLines,
): DeliverySegmentSpec {
  // The API server sees no packed line, and is to reject what no reader would accept.
  const isValid = deliveries.length <= DELIVERIES.max && events.every(({ length }) => length <= EVENT.max)
  return { writtenAt, writer, ...packLong({ events, deliveries }, isValid) }
}

/**
 * For reading: the API server and the decoder validate each line. Here all lines are checked at once; one by one would double the cost
 * of reading a segment.
 */
const readSpec = deliverySegmentSpec.omit({ packed: true }).extend({
  events: z.custom<string[]>(isSomeLines, `must be 1 to ${MAX_SEGMENT_DELIVERIES} lines`),
  deliveries: text({ ...DELIVERIES, describe: 'deliveries contains one delivery per line.' }),
})
export const deliverySegment = z.object({ metadata: logObjectMeta, spec: readSpec })
export type DeliverySegment = z.infer<typeof deliverySegment>

/**
 * The segment, unpacked. Validates the usual form by hand, at a twentieth of the schema's cost, since each replica reads every segment.
 * @throws ZodError; NewerFormatError
 */
export function readDeliverySegment(raw: RawLogObject): DeliverySegment {
  const metadata = readLogMeta(raw.metadata)
  checkFormat(String(metadata?.name), raw.spec)
  const spec = unpackSpec(raw.spec)
  const { writtenAt, writer, events, deliveries } = spec
  if (metadata && isEpochMs(writtenAt) && isTextOfLength(writer, WRITER))
    if (isTextOfLength(deliveries, DELIVERIES) && isSomeLines(events))
      return { metadata, spec: { writtenAt, writer, events, deliveries } }
  return deliverySegment.parse({ ...raw, spec })
}

function isSomeLines(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_SEGMENT_DELIVERIES) return false
  return value.every((line) => typeof line === 'string')
}

export const deliverySegmentKind: KindDefinition = {
  kind: 'DeliverySegment',
  plural: 'deliverysegments',
  singular: 'deliverysegment',
  shortNames: [],
  isNumerous: true,
  scope: 'Namespaced',
  description:
    'DeliverySegment is a group of accepted events in the delivery log. It is internal to Davit and not a stable API.',
  spec: deliverySegmentSpec,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Writer', type: 'string', jsonPath: '.spec.writer' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const deliverySegments = resourceType(deliverySegmentKind)

/**
 * Encodes an event as a line: five fields and the body, `-` for an absent field. A key from a request is followed by the request's
 * fingerprint: `key~fingerprint`.
 */

const ABSENT = '-'
const FINGERPRINT = '~'
/** No key and no repeated delivery, as in nearly all lines. */
const NEITHER = ` ${ABSENT} ${ABSENT} `

export function encodeEventLine(event: SegmentEvent): string {
  const { id, namespace, type, key = ABSENT, fingerprint, redeliveryOf = ABSENT, payload } = event
  const mark = fingerprint === undefined ? key : key + FINGERPRINT + fingerprint
  return `${id} ${namespace} ${type} ${mark} ${redeliveryOf} ${payload}`
}

export function decodeEventLine(line: string): SegmentEvent | undefined {
  // Hot path, since each replica reads all events: no split, and no string for an absent field.
  const id = line.indexOf(' ')
  const namespace = line.indexOf(' ', id + 1)
  const type = line.indexOf(' ', namespace + 1)
  const mark = line.indexOf(' ', type + 1)
  const end = line.indexOf(' ', mark + 1)
  const isWhole = id > 0 && namespace > id + 1 && type > namespace + 1 && mark > type + 1 && end > mark + 1
  if (!isWhole) return undefined
  const event: SegmentEvent = {
    id: line.slice(0, id),
    namespace: line.slice(id + 1, namespace),
    type: line.slice(namespace + 1, type),
    payload: line.slice(end + 1),
  }
  if (line.startsWith(NEITHER, type)) return event
  const [key = ABSENT, fingerprint] = line.slice(type + 1, mark).split(FINGERPRINT, 2)
  if (key !== ABSENT) event.key = key
  if (fingerprint !== undefined) event.fingerprint = fingerprint
  const redeliveryOf = line.slice(mark + 1, end)
  if (redeliveryOf !== ABSENT) event.redeliveryOf = redeliveryOf
  return event
}
