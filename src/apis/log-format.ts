import { gunzipSync, gzipSync } from 'node:zlib'
import { z } from 'zod'
import { text } from './meta.ts'

/**
 * The format of the segments of the delivery log. A version of Davit that does not know a format must not guess at it: it would leave out
 * deliveries, or send them again.
 */

/** The newest that this version reads. It writes packed segments in it, and others in the first. */
export const LOG_FORMAT = 2
const PLAIN_FORMAT = 1

/** Of a segment, as a field of its spec. */
export const logFormat = z.int32().min(1).optional().meta({
  description:
    'format is the format version of this segment. If unset, it is 1. A version of Davit that does not support it stops.',
})

/** A newer version of Davit wrote to the log. Only such a version can go on. */
export class NewerFormatError extends Error {
  override readonly name = 'NewerFormatError'

  constructor(segment: string, format: number) {
    super(
      `segment ${segment} of the delivery log has format ${format}, but this version of Davit supports formats only up to ${LOG_FORMAT}. A newer version wrote it: run that version or a later one`,
    )
  }
}

/** @param spec of a segment as the API server sent it @throws NewerFormatError */
export function checkFormat(name: string, spec: unknown): void {
  const { format } = (spec ?? {}) as { format?: unknown }
  if (typeof format === 'number' && format > LOG_FORMAT) throw new NewerFormatError(name, format)
}

/** From so many characters of JSON on, a segment is packed. Smaller ones gain little, and stay readable with kubectl. */
const PACKED_FROM = 4096
/** More than a segment can have: an event may be larger than the segments that several share. */
const MAX_UNPACKED_BYTES = 8 * 1024 * 1024
/** The fastest one takes a few bytes more than the usual one, at a third of its time. */
const LEVEL = 1

/** As a field of a spec, in place of others. */
export const packedText = text({
  min: 20,
  max: 1_400_000,
  describe:
    'packed contains the remaining fields as JSON, compressed with gzip and encoded in base64. Long segments have it instead of those fields.',
}).optional()

/** What a segment stores of its text, and in which format: packed if it is long. */
export type Stored<T> = { format: number } & (T | { packed: string })

/** @param isValid whether readers accept the fields; others are not packed, so that the API server rejects them */
export function packLong<T extends object>(fields: T, isValid = true): Stored<T> {
  const json = JSON.stringify(fields)
  if (json.length < PACKED_FROM || !isValid) return { format: PLAIN_FORMAT, ...fields }
  return { format: LOG_FORMAT, packed: gzipSync(json, { level: LEVEL }).toString('base64') }
}

/** The spec as if it were not packed; without the fields if they cannot be unpacked. @param spec as the API server sent it */
export function unpackSpec(spec: unknown): Record<string, unknown> {
  const { packed, ...rest } = (spec ?? {}) as Record<string, unknown>
  if (typeof packed !== 'string') return rest
  try {
    const json = gunzipSync(Buffer.from(packed, 'base64'), { maxOutputLength: MAX_UNPACKED_BYTES })
    return { ...rest, ...(JSON.parse(json.toString('utf8')) as object) }
  } catch {
    return rest
  }
}

/** Undefined for a segment that this version cannot read: the watch of the log reports it. */
export function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** Bytes that the spec of a segment takes in the store. */
export function storedBytes(spec: unknown): number {
  return Buffer.byteLength(JSON.stringify(spec ?? {}))
}
