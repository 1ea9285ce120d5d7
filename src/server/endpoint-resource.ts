import { z } from 'zod'
import { createdAtOf, ENDPOINT_PREFIX, EVENT_TYPE, MAX_EVENT_TYPE } from '../apis/ids.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import {
  ENDPOINT_LIMITS,
  endpointState,
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpointKind,
  webhookEndpointSpec,
  webhookEndpoints,
} from '../apis/webhook-endpoint.ts'
import type { ResourceReader } from '../kube/client.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { decideState } from '../webhooks/endpoints/plan.ts'
import { time, wellFormed } from './lists.ts'
import { type NamespacedRef, type ResourceKind, readStored, refOfId, type Stored, tagOf } from './objects.ts'

/** Endpoints as REST shows and takes them (interface §2.3, §4.2), and how they are read. */

const spec = webhookEndpointSpec.shape

export const endpointId = z
  .string()
  .regex(new RegExp(`^${ENDPOINT_PREFIX}${DNS_LABEL.source.slice(1)}`))
  .meta({ description: 'endpointId is the ID of the endpoint.', example: 'whe_billing' })

const url = wellFormed(spec.url)
const description = wellFormed(z.string()).pipe(spec.description.unwrap()).meta({
  description: 'description is a human-readable label for the endpoint.',
  maxLength: ENDPOINT_LIMITS.description,
  example: 'Billing',
})
const ordered = z.boolean().meta({
  description:
    'ordered specifies whether deliveries are sent strictly in order. The default for a new endpoint is false.',
})
const concurrency = z.int32().min(1).max(ENDPOINT_LIMITS.concurrency).meta({
  description:
    'concurrency is the maximum number of concurrent deliveries. It is always 1 for an ordered endpoint. The default for a new endpoint is 8.',
})
const status = endpointState.meta({
  description: 'status specifies whether the endpoint is enabled. A disabled endpoint receives nothing.',
})

/** The refinements of the spec as JSON Schema. */
const SUBSCRIPTIONS = [
  { type: 'array', items: { type: 'string', const: '*' }, minItems: 1, maxItems: 1 },
  {
    type: 'array',
    items: { type: 'string', pattern: EVENT_TYPE.source, minLength: 1, maxLength: MAX_EVENT_TYPE },
    minItems: 1,
    maxItems: ENDPOINT_LIMITS.eventTypes,
    uniqueItems: true,
  },
] as const

const subscribed = spec.eventTypes.meta({
  description:
    'eventTypes lists the subscribed event types, without duplicates. `*` alone subscribes to all types, including types that are added later.',
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
})

export const endpointChange = z.strictObject({
  status: status.optional(),
  url: url.optional(),
  eventTypes: subscribed.optional(),
  description: description.nullable().optional(),
  ordered: ordered.optional(),
  concurrency: concurrency.optional(),
})

export const endpoint = z
  .object({
    endpointId,
    url: z.string(),
    eventTypes: z.array(z.string()),
    description: z.string().optional(),
    ordered: z.boolean(),
    status,
    disabledReason: z.enum(['ConsecutiveFailures', 'Requested']).optional().meta({
      description:
        'disabledReason is the reason why the endpoint is disabled. It is absent while the endpoint is enabled.',
    }),
    consecutiveFailures: z
      .int()
      .meta({ description: 'consecutiveFailures is the number of exhausted deliveries in a row.' }),
    failingSince: time(
      'failingSince is the time at which the first delivery in the current run of exhausted deliveries was exhausted. It is absent if there is no such run.',
    ).optional(),
    concurrency: z.int(),
    createdAt: time('createdAt is the time at which the endpoint was created.'),
    updatedAt: time('updatedAt is the time of the last change that its owner can see, apart from counters.'),
  })
  .meta({
    id: 'WebhookEndpoint',
    description: "An endpoint to which Davit delivers an organization's events.",
  })

/** Apart from the endpoint: the controller reports them a moment after a create has been answered. */
export const signingSecrets = z
  .array(
    z.object({
      fingerprint: z.string().meta({
        description:
          'fingerprint is the first 16 hexadecimal digits of the SHA-256 hash of the signing secret, including `whsec_`.',
        example: 'df0495d62ebf27ba',
      }),
      createdAt: time('createdAt is the time at which the signing secret was created.'),
      expiresAt: time(
        'expiresAt is the time at which the signing secret expires. It is absent for the newest one.',
      ).optional(),
    }),
  )
  .meta({
    description:
      'signingSecrets lists the active signing secrets by fingerprint, newest first. It is empty until the controller has handled a new endpoint.',
  })

export type EndpointDraft = z.output<typeof endpointDraft>

/** Absent fields stay as they are; a description of null is removed. */
export type EndpointChange = z.output<typeof endpointChange>

/** An endpoint as its owner sees it. Times are ISO 8601, UTC, with milliseconds. */
export type EndpointResource = z.output<typeof endpoint>

/** An endpoint and its ETag, quotes included. */
export type TaggedEndpoint = { endpoint: EndpointResource; etag: string }

/** `endpointId` is a `whe_` id; one that fits no endpoint is `not_found`. */
export type EndpointId = { organization: string; endpointId: string }

export function resourceOf(stored: WebhookEndpoint): EndpointResource {
  const { metadata, spec, status } = stored
  const createdAt = createdAtOf(metadata)
  const { description, url, eventTypes, ordered, concurrency } = spec
  // Until the controller has handled it, all that is known is what the spec asks for.
  const { state, disabledReason } =
    status?.state === undefined ? decideState(stored) : { ...status, state: status.state }
  return {
    endpointId: ENDPOINT_PREFIX + metadata.name,
    url,
    eventTypes,
    ...(description === undefined ? {} : { description }),
    ordered,
    status: state,
    ...(disabledReason === undefined ? {} : { disabledReason }),
    consecutiveFailures: status?.consecutiveFailures ?? 0,
    ...(status?.failingSince === undefined ? {} : { failingSince: utc(status.failingSince) }),
    concurrency,
    createdAt,
    updatedAt: status?.updatedAt === undefined ? createdAt : utc(status.updatedAt),
  }
}

export function secretsOf({ status }: WebhookEndpoint): z.output<typeof signingSecrets> {
  return (status?.signingSecrets ?? []).map(({ fingerprint, createdAt, expiresAt }) => ({
    fingerprint,
    createdAt: utc(createdAt),
    ...(expiresAt === undefined ? {} : { expiresAt: utc(expiresAt) }),
  }))
}

function utc(time: string): string {
  return new Date(time).toISOString()
}

export function taggedOf(stored: WebhookEndpoint): TaggedEndpoint {
  return { endpoint: resourceOf(stored), etag: tagOf(ENDPOINT, stored) }
}

export const ENDPOINT: ResourceKind<WebhookEndpoint> = {
  type: webhookEndpoints,
  kind: webhookEndpointKind.kind,
  schema: webhookEndpoint,
  versionOf: (stored) => {
    // They count deliveries, and may change faster than a person corrects an endpoint that fails.
    const { consecutiveFailures: _, failingSince: __, ...version } = resourceOf(stored)
    return version
  },
}

export type EndpointSources = { resources: Pick<ResourceReader, 'get'>; directory: EndpointDirectory }

/** @throws Problem not_found, also if it is being deleted; ApiError; UnreadableError */
export async function readEndpoint(
  { resources, directory }: EndpointSources,
  id: EndpointId,
): Promise<Stored<WebhookEndpoint>> {
  const ref = endpointRef(id)
  return await readStored(resources, ENDPOINT, ref, (endpoint) => directory.applyRead(endpoint))
}

/** @throws Problem not_found for a text that is no id of an endpoint */
export function endpointRef({ organization, endpointId }: EndpointId): NamespacedRef {
  return refOfId(organization, endpointId, ENDPOINT_PREFIX)
}
