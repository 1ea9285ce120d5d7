import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { Clock } from '../lib/time.ts'
import { Problem } from './http/problems.ts'

/**
 * Lists over REST. A cursor says where a reader is in a list; readers hand it back and do not look into it. It is signed for
 * its list, so that it works for no other, and it needs no state here, so that it survives a restart.
 */

export const MAX_LIMIT = 200
const DEFAULT_LIMIT = 50
const MAX_CURSOR = 512

/** Entries of a page. */
const limit = z
  .string()
  .refine(
    (value) => /^[1-9][0-9]{0,2}$/.test(value) && Number(value) <= MAX_LIMIT,
    `must be a whole number from 1 to ${MAX_LIMIT}`,
  )
  .transform(Number)
  .default(DEFAULT_LIMIT)
  .meta({
    description: 'limit is the maximum number of entries on the page.',
    override: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
  })

const NOT_A_CURSOR =
  'must be a cursor returned by this list with the same filters; omit it to start from the beginning'

const cursor = z
  .string()
  .regex(/^[A-Za-z0-9_-]+$/, NOT_A_CURSOR)
  .max(MAX_CURSOR)
  .optional()
  .meta({
    description:
      'cursor is the `cursor` of the previous page of the same list with the same filters. If omitted, the list starts at the beginning.',
  })

/** Query parameters of every list. */
export const pageQuery = z.strictObject({ limit, cursor })

/** In the body of every list. */
export const nextCursor = z
  .string()
  .nullable()
  .meta({ description: 'cursor points to the next page. It is null on the last page.' })

/** @param after the last id that the reader has, even if that object is deleted by now */
export type PageQuery = { limit: number; after?: string | undefined }

/** One page of `items`, by id. `next` is its last id, absent on the last page. */
export function pageOf<T>(
  items: readonly T[],
  idOf: (item: T) => string,
  { limit, after }: PageQuery,
): { page: T[]; next?: string } {
  const rest = items
    .filter((item) => after === undefined || idOf(item) > after)
    .sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
  const page = rest.slice(0, limit)
  const last = page.at(-1)
  return rest.length > limit && last !== undefined ? { page, next: idOf(last) } : { page }
}

const VERSION = 1
const LIFE_MS = 24 * 60 * 60 * 1000
const SIGNATURE_BYTES = 16
const HEAD_BYTES = 7

export class Cursors {
  readonly #key: Uint8Array
  readonly #clock: Pick<Clock, 'now'>

  /** @param key derived from the installation key, so that all replicas have the same */
  constructor(key: Uint8Array, clock: Pick<Clock, 'now'>) {
    this.#key = key
    this.#clock = clock
  }

  /** The body of a list: the page that `query` asks for, with `cursor` instead of `next`. */
  async bodyOf<P extends { next?: string }>(
    list: readonly string[],
    { limit, cursor }: z.output<typeof pageQuery>,
    read: (query: PageQuery) => P | Promise<P>,
  ): Promise<Omit<P, 'next'> & { cursor: string | null }> {
    const after = cursor === undefined ? undefined : this.read(list, cursor)
    const { next, ...page } = await read({ limit, after })
    return { ...page, cursor: next === undefined ? null : this.make(list, next) }
  }

  /** @param list names the list, with everything that decides what is in it @param last the last id of the page */
  make(list: readonly string[], last: string): string {
    const head = Buffer.alloc(HEAD_BYTES)
    head.writeUInt8(VERSION)
    head.writeUIntBE(this.#clock.now(), 1, HEAD_BYTES - 1)
    const content = Buffer.concat([head, Buffer.from(last, 'utf8')])
    return Buffer.concat([this.#sign(list, content), content]).toString('base64url')
  }

  /** The last id of the page before. @throws Problem invalid (not made for this list), cursor_expired */
  read(list: readonly string[], cursor: string): string {
    const bytes = decode(cursor)
    const content = bytes.subarray(SIGNATURE_BYTES)
    if (content.length <= HEAD_BYTES) throw foreign()
    if (!timingSafeEqual(this.#sign(list, content), bytes.subarray(0, SIGNATURE_BYTES))) throw foreign()
    const madeAt = content.readUIntBE(1, HEAD_BYTES - 1)
    if (content.readUInt8() !== VERSION || this.#clock.now() - madeAt > LIFE_MS)
      throw new Problem('cursor_expired')
    return content.toString('utf8', HEAD_BYTES)
  }

  #sign(list: readonly string[], content: Buffer): Buffer {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify(['cursor', ...list]))
      .update(content)
      .digest()
      .subarray(0, SIGNATURE_BYTES)
  }
}

/** Text that decodes to the same bytes but is written differently was not made here. */
function decode(cursor: string): Buffer {
  const bytes = Buffer.from(cursor.slice(0, MAX_CURSOR), 'base64url')
  if (cursor.length > MAX_CURSOR || bytes.toString('base64url') !== cursor) throw foreign()
  return bytes
}

function foreign(): Problem {
  return new Problem('invalid', {
    errors: [
      {
        pointer: 'cursor',
        message: NOT_A_CURSOR,
      },
    ],
  })
}

/** A time in a response. */
export function time(description: string) {
  return z.string().meta({ description, format: 'date-time', example: '2026-01-31T12:00:00.000Z' })
}

const LIMIT_OF_TIME = 40

/** A time in a query, with any offset from UTC; milliseconds since 1970. */
function timeParameter(description: string) {
  return z
    .string()
    .max(LIMIT_OF_TIME)
    .pipe(z.iso.datetime({ offset: true, error: 'must be a time such as 2026-01-31T12:00:00Z' }))
    .transform((text) => Date.parse(text))
    .optional()
    .meta({
      description,
      override: { type: 'string', format: 'date-time' },
      example: '2026-01-31T12:00:00Z',
    })
}

/** Query parameters of lists that are sorted by time. */
export const timeQuery = {
  since: timeParameter(
    'since selects the entries that were created at this time or later. If omitted, there is no such limit.',
  ),
  until: timeParameter(
    'until selects the entries that were created before this time. If omitted, there is no such limit.',
  ),
}

/** Of a string with half a surrogate pair the API server would store something else than we answer. */
export function wellFormed<T extends z.ZodType<string>>(schema: T): T {
  return schema.refine((value) => value.isWellFormed(), 'must not contain an unpaired surrogate')
}
