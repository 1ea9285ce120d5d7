import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { ENDPOINT_PREFIX, EVENT_TYPE, MAX_EVENT_TYPE, MESSAGE_ID } from '../apis/ids.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import { deliveryState } from '../apis/webhook-delivery.ts'
import { deliveryLog, endpointState, webhookEndpointSpec } from '../apis/webhook-endpoint.ts'
import type { Clock } from '../lib/clock.ts'
import { Problem } from './http/problems.ts'

const MOST = 200
const USUAL = 50

/** Entries of a page. */
export const limit = z
  .string()
  .refine(
    (value) => /^[1-9][0-9]{0,2}$/.test(value) && Number(value) <= MOST,
    `must be a whole number from 1 to ${MOST}`,
  )
  .transform(Number)
  .default(USUAL)
  .meta({
    description: 'How many at most.',
    override: { type: 'integer', minimum: 1, maximum: MOST, default: USUAL },
  })

/** Where the page before ended. */
export const cursor = z
  .string()
  .regex(/^[A-Za-z0-9_-]+$/, 'is no cursor')
  .max(512)
  .optional()
  .meta({
    description: '`cursor` of the page before, for the same list with the same filters.',
  })

export const nextCursor = z
  .string()
  .nullable()
  .meta({ description: 'For the next page; null when this is the last.' })

/**
 * Cursors: where a reader is in a list, for the reader to hand back and not to look into. Each is signed for its
 * list, so that it leads nowhere else, and holds no state here: it outlives a restart.
 */

export type Cursors = {
  /** @param list names the list, with everything that decides what is in it @param last the last id that was shown */
  make(list: readonly string[], last: string): string
  /** The last id that was shown. @throws Problem invalid (not made for this list), cursor_expired */
  read(list: readonly string[], cursor: string): string
}

const VERSION = 1
const LIFE_MS = 24 * 60 * 60 * 1000
const SIGNATURE_BYTES = 16
const HEAD_BYTES = 7
const LONGEST = 512

/** @param key of the installation, the same for all replicas */
export function createCursors(key: Uint8Array, clock: Pick<Clock, 'now'>): Cursors {
  const sign = (list: readonly string[], content: Buffer) =>
    createHmac('sha256', key)
      .update(JSON.stringify(['cursor', ...list]))
      .update(content)
      .digest()
      .subarray(0, SIGNATURE_BYTES)
  return {
    make(list, last) {
      const head = Buffer.alloc(HEAD_BYTES)
      head.writeUInt8(VERSION)
      head.writeUIntBE(clock.now(), 1, HEAD_BYTES - 1)
      const content = Buffer.concat([head, Buffer.from(last, 'utf8')])
      return Buffer.concat([sign(list, content), content]).toString('base64url')
    },
    read(list, cursor) {
      const bytes = decode(cursor)
      const content = bytes.subarray(SIGNATURE_BYTES)
      if (content.length <= HEAD_BYTES) throw foreign()
      if (!timingSafeEqual(sign(list, content), bytes.subarray(0, SIGNATURE_BYTES))) throw foreign()
      const madeAt = content.readUIntBE(1, HEAD_BYTES - 1)
      if (content.readUInt8() !== VERSION || clock.now() - madeAt > LIFE_MS)
        throw new Problem('cursor_expired')
      return content.toString('utf8', HEAD_BYTES)
    },
  }
}

/** What decodes to the same bytes but is written otherwise was not made here. */
function decode(cursor: string): Buffer {
  const bytes = Buffer.from(cursor.slice(0, LONGEST), 'base64url')
  if (cursor.length > LONGEST || bytes.toString('base64url') !== cursor) throw foreign()
  return bytes
}

function foreign(): Problem {
  return new Problem('invalid', {
    errors: [
      { pointer: 'cursor', message: 'is no cursor of this list with these filters; begin without it' },
    ],
  })
}

/** Endpoints as REST shows and takes them (interface §2.3). */

const spec = webhookEndpointSpec.shape

export function time(description: string) {
  return z.string().meta({ description, format: 'date-time', example: '2026-01-31T12:00:00.000Z' })
}

export const endpointId = z
  .string()
  .regex(new RegExp(`^${ENDPOINT_PREFIX}${DNS_LABEL.source.slice(1)}`))
  .meta({ description: 'Id of an endpoint.', example: 'whe_billing' })

/** The API server would store something else than what was answered. */
export const SURROGATE_MESSAGE = 'must not have half a surrogate pair'

const url = spec.url.refine((value) => value.isWellFormed(), SURROGATE_MESSAGE)
const description = z
  .string()
  .refine((value) => value.isWellFormed(), SURROGATE_MESSAGE)
  .pipe(spec.description.unwrap())
  .meta({ description: 'A label for people.', maxLength: 200, example: 'Billing' })
const ordered = z.boolean().meta({ description: 'Deliver strictly in order.' })
const concurrency = z
  .int32()
  .min(1)
  .max(32)
  .meta({ description: 'Deliveries at a time; an ordered endpoint always has one.' })
const log = deliveryLog.meta({
  description:
    'Whether a delivery that succeeds at once becomes an object of its own; this list shows both alike.',
})
const status = endpointState.meta({ description: 'A disabled endpoint receives nothing.' })

/** What the refinements of the spec say, in the words of JSON Schema. */
const SUBSCRIPTIONS = [
  { type: 'array', items: { type: 'string', const: '*' }, minItems: 1, maxItems: 1 },
  {
    type: 'array',
    items: { type: 'string', pattern: EVENT_TYPE.source, minLength: 1, maxLength: MAX_EVENT_TYPE },
    minItems: 1,
    maxItems: 100,
    uniqueItems: true,
  },
] as const

const subscribed = spec.eventTypes.meta({
  description: 'Subscribed event types, each once; or `*` alone for all, those added later included.',
  example: ['environment.started', 'environment.stopped'],
  override({ jsonSchema }) {
    for (const keyword of ['type', 'items', 'minItems', 'maxItems'] as const) delete jsonSchema[keyword]
    jsonSchema.anyOf = structuredClone(SUBSCRIPTIONS) as unknown as NonNullable<typeof jsonSchema.anyOf>
  },
})

export const endpointDraft = z.strictObject({
  url: url.meta({ example: 'https://example.com/hooks' }),
  eventTypes: subscribed,
  description: description.optional(),
  ordered: ordered.optional(),
  concurrency: concurrency.optional(),
  deliveryLog: log.optional(),
})

export const endpointChange = z.strictObject({
  status: status.optional(),
  url: url.optional(),
  eventTypes: subscribed.optional(),
  description: description.nullable().optional(),
  ordered: ordered.optional(),
  concurrency: concurrency.optional(),
  deliveryLog: log.optional(),
})

export const endpoint = z
  .object({
    endpointId,
    url: z.string(),
    eventTypes: z.array(z.string()),
    description: z.string().optional(),
    ordered: z.boolean(),
    status,
    disabledReason: z
      .enum(['ConsecutiveFailures', 'Requested'])
      .optional()
      .meta({ description: 'Why it is disabled; absent while it is enabled.' }),
    consecutiveFailures: z.int().meta({ description: 'Exhausted deliveries in a row.' }),
    failingSince: time("The streak's first exhausted delivery; absent without one.").optional(),
    deliveryLog: log,
    concurrency: z.int(),
    createdAt: time('When it was created.'),
    updatedAt: time('When something of it last changed that its owner can see, counters aside.'),
  })
  .meta({ id: 'WebhookEndpoint', description: 'Where an organization wants its events delivered.' })

export const signingSecret = z.string().meta({
  description: 'The signing secret, shown in this one answer and never again; absent in a repeated answer.',
  example: 'whsec_ZGF2aXQgc2lnbmluZyBzZWNyZXQgMjRi',
})

/** Deliveries as REST shows them (interface §2.5). */

const EXAMPLE = 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z'

export const deliveryId = z
  .string()
  .regex(MESSAGE_ID)
  .meta({ description: 'Id of a delivery, which is the webhook-id that receivers see.', example: EXAMPLE })

export const webhookId = z.string().meta({ description: 'Id of the queued delivery.', example: EXAMPLE })

const line = {
  deliveryId,
  eventType: z.string().meta({ description: 'Type of the event.', example: 'environment.started' }),
  status: deliveryState.meta({
    description:
      'pending: no attempt has ended. retrying: another attempt follows. succeeded, exhausted (eight attempts failed) and canceled are final.',
  }),
  attemptCount: z.int().min(0).max(8).meta({ description: 'Attempts made.' }),
  nextAttemptAt: time('When the next attempt is due.').optional(),
  completedAt: time('When it came to its end.').optional(),
  redeliveryOf: z.string().optional().meta({ description: 'The delivery that this one repeats.' }),
  createdAt: time('When the event was accepted.'),
}

const attempt = z.object({
  at: time('When the attempt started.'),
  code: z.int().optional().meta({ description: 'HTTP status; absent without a response.' }),
  latencyMs: z.int().meta({ description: 'Milliseconds until the outcome was known.' }),
  error: z.string().optional().meta({ description: 'Why it failed; absent if it succeeded.' }),
  response: z.string().optional().meta({ description: 'First 256 bytes of the response body.' }),
})

export const delivery = z
  .object(line)
  .meta({ id: 'Delivery', description: 'One attempt series of one event to one endpoint.' })

export const deliveryWithAttempts = z
  .object({ ...line, attempts: z.array(attempt).meta({ description: 'Every attempt, oldest first.' }) })
  .meta({ id: 'DeliveryWithAttempts', description: 'A delivery and every attempt of it.' })
