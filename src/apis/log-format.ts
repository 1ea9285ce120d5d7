import { z } from 'zod'

/**
 * The format of the segments of the delivery log. A version of Davit that does not know a format must not guess at it: it would leave out
 * deliveries, or send them again.
 */

/** What this version writes, and the newest that it reads. */
export const LOG_FORMAT = 1

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
