import { z } from 'zod'
import { EVENT_TYPE, EVENT_TYPE_ALLOWED, MAX_EVENT_TYPE } from './ids.ts'
import {
  conditions,
  DNS_LABEL_NAME,
  DNS_SUBDOMAIN,
  GROUP,
  generation,
  instant,
  type KindDefinition,
  objectOf,
  observedGeneration,
  resourceType,
  text,
} from './meta.ts'
import { deliveryAttempt } from './webhook-delivery.ts'

/** WebhookEndpoint: where an organization wants its events delivered (interface §2.3). */

/** Annotations that request an action: an RFC 3339 time, acted on once per value, answered in `status.lastHandled`. */
export const PING_ANNOTATION = `${GROUP}/ping-requested-at`
export const ENABLE_ANNOTATION = `${GROUP}/enable-requested-at`
export const DISABLE_ANNOTATION = `${GROUP}/disable-requested-at`
/** With `;expire-old` after the time, the earlier signing secrets end at once. */
export const ROTATE_ANNOTATION = `${GROUP}/rotate-requested-at`
/** `msg_...@<time>`, or several of them separated by commas. */
export const REDELIVER_ANNOTATION = `${GROUP}/redeliver-requested`

const SUBSCRIPTION = new RegExp(`^(\\*|${EVENT_TYPE.source.slice(1, -1)})$`)

/** Schemes are case-insensitive (RFC 3986 §3.1). `\p{Cc}\p{Z}` instead of `\s`: the API server reads both the same. */
const WEBHOOK_URL = /^[Hh][Tt][Tt][Pp][Ss]?:\/\/[^\p{Cc}\p{Z}/?#@\\]+([/?][^\p{Cc}\p{Z}#]*)?$/u

export const endpointState = z.enum(['enabled', 'disabled'])
export type EndpointState = z.infer<typeof endpointState>

/** Characters of a description, event types, and deliveries at a time. */
export const ENDPOINT_LIMITS = { description: 200, eventTypes: 100, concurrency: 32 } as const

export const webhookEndpointSpec = z
  .object({
    // There is no minimum length: the message for a short text then says what a URL looks like.
    url: text({
      max: 2048,
      pattern: WEBHOOK_URL,
      allowed:
        'an https URL such as https://example.com/hooks, without user:password@, #fragment or spaces (http only for networks that the cluster operator allows)',
      describe:
        'url is the HTTPS URL that receives the deliveries. It must not contain user information or a fragment. Plain HTTP is allowed only for networks that the cluster operator allows.',
    }),
    eventTypes: z
      .array(
        text({
          min: 1,
          max: MAX_EVENT_TYPE,
          pattern: SUBSCRIPTION,
          allowed: `'*' or ${EVENT_TYPE_ALLOWED}`,
          describe: 'An event type, or `*` for all event types.',
        }),
      )
      .min(1)
      .max(ENDPOINT_LIMITS.eventTypes)
      .refine((types) => new Set(types).size === types.length, 'must not contain duplicate types')
      .refine(
        (types) => !types.includes('*') || types.length === 1,
        "must not combine '*' with other types; use ['*'], or list types without it",
      )
      .meta({
        description: `eventTypes lists the subscribed event types (1 to ${ENDPOINT_LIMITS.eventTypes}, without duplicates). A single \`*\` subscribes to all types, including types that are added later.`,
        'x-kubernetes-list-type': 'atomic',
        'x-kubernetes-validations': [
          {
            rule: 'self.all(t, self.exists_one(u, u == t))',
            message: 'must not contain duplicate types',
          },
          {
            rule: "self.size() == 1 || !self.exists(t, t == '*')",
            message: "must not combine '*' with other types; use ['*'], or list types without it",
          },
        ],
      }),
    description: text({
      max: ENDPOINT_LIMITS.description,
      describe: `description is a label for people, at most ${ENDPOINT_LIMITS.description} characters.`,
    }).optional(),
    ordered: z.boolean().default(false).meta({
      description:
        'ordered makes Davit deliver strictly in order: a failing delivery blocks later deliveries until it succeeds or is exhausted. The default is false.',
    }),
    state: endpointState
      .default('enabled')
      .meta({ description: 'state is the desired state: enabled (the default) or disabled.' }),
    concurrency: z
      .int32()
      .min(1)
      .max(ENDPOINT_LIMITS.concurrency)
      .default(8)
      .meta({
        description: `concurrency is the maximum number of concurrent deliveries, 1 to ${ENDPOINT_LIMITS.concurrency}. The default is 8. An ordered endpoint always has one.`,
      }),
    signingSecret: z
      .object({
        name: text({
          min: 1,
          max: 253,
          pattern: DNS_SUBDOMAIN,
          allowed: 'the name of a Secret: lowercase letters, digits, dashes and dots',
          describe: 'name is the name of the Secret.',
        }),
      })
      .optional()
      .meta({
        description:
          'signingSecret refers to a Secret in this namespace. Davit writes to it the signing secrets that it creates while this field is set. If unset, Davit writes no signing secret to this namespace.',
      }),
  })
  .meta({ description: 'spec is the desired state of the endpoint.' })

export const signingSecretStatus = z
  .object({
    fingerprint: text({
      min: 8,
      max: 64,
      describe: 'fingerprint is the first 16 hexadecimal digits of the SHA-256 hash of the signing secret.',
    }),
    createdAt: instant('createdAt is when the signing secret was created.'),
    expiresAt: instant(
      'expiresAt is when the signing secret expires. It is unset for the newest one.',
    ).optional(),
  })
  .meta({
    description:
      'An active signing secret, identified by its fingerprint. The secret itself is never included.',
  })

/** Owners of an organization, at most. */
export const MAX_OWNERS = 50

/** The final result for one owner of an endpoint that was disabled automatically. */
export const ownerEmail = z
  .object({
    digest: text({
      min: 16,
      max: 16,
      describe:
        'digest identifies the address of the owner: the first 16 hexadecimal digits of a SHA-256 hash of the address and the UID of the endpoint.',
    }),
    rejection: text({
      max: 300,
      describe: 'rejection is why the email was rejected. It is unset if the mail server accepted it.',
    }).optional(),
  })
  .meta({ description: 'An owner to whom Davit sends no further email about this endpoint.' })

/** The annotation values that were acted on last. */
export const lastHandled = z
  .object({
    ping: text({ max: 256, describe: 'ping is the value of the last ping request.' }).optional(),
    enable: text({ max: 256, describe: 'enable is the value of the last enable request.' }).optional(),
    disable: text({ max: 256, describe: 'disable is the value of the last disable request.' }).optional(),
    rotate: text({ max: 256, describe: 'rotate is the value of the last rotation request.' }).optional(),
    redeliver: text({
      max: 8192,
      describe: 'redeliver is the value of the last redelivery request.',
    }).optional(),
  })
  .meta({ description: 'lastHandled contains the last annotation requests that Davit processed.' })

export const webhookEndpointStatus = z
  .object({
    state: endpointState.optional().meta({ description: 'state is the current state: enabled or disabled.' }),
    disabledReason: z.enum(['ConsecutiveFailures', 'Requested']).optional().meta({
      description:
        'disabledReason is why the endpoint is disabled. It is unset while the endpoint is enabled.',
    }),
    disabledAt: instant(
      'disabledAt is when the endpoint was disabled. It is unset while the endpoint is enabled.',
    ).optional(),
    announcedAt: instant(
      'announcedAt is the disabledAt for which webhook.endpoint.disabled was published.',
    ).optional(),
    consecutiveFailures: z.int32().min(0).default(0).meta({
      description: 'consecutiveFailures is the number of exhausted deliveries since the last success.',
    }),
    failingSince: instant(
      'failingSince is when the first delivery of the current streak of failures was exhausted.',
    ).optional(),
    lastCounted: text({
      max: 64,
      describe: 'lastCounted is the last exhausted delivery that was counted.',
    }).optional(),
    signingSecrets: z.array(signingSecretStatus).max(8).optional().meta({
      description: 'signingSecrets lists the active signing secrets, newest first.',
      'x-kubernetes-list-type': 'atomic',
    }),
    ownerEmails: z.array(ownerEmail).max(MAX_OWNERS).optional().meta({
      description:
        'ownerEmails lists the owners to whom Davit sends no further email about the automatic disabling. It is unset if every owner got one.',
      'x-kubernetes-list-type': 'atomic',
    }),
    lastHandled: lastHandled.optional(),
    override: z
      .object({
        state: endpointState.meta({ description: 'state is the active state: enabled or disabled.' }),
        generation: generation.meta({
          description: 'generation is the generation of the spec that the override applies to.',
        }),
      })
      .optional()
      .meta({
        description:
          'override is a state that was requested by annotation. It takes effect while the spec has this generation.',
      }),
    lastAttempt: z
      .object({
        deliveryId: text({
          max: 64,
          describe: 'deliveryId is the ID of the delivery, which is also the ID of its event.',
        }),
        ...deliveryAttempt.pick({ at: true, code: true, latencyMs: true, error: true }).shape,
      })
      .optional()
      .meta({
        description:
          'lastAttempt is the last delivery attempt when Davit last updated this field, so later attempts may have been made since. Davit updates it when the result changes, and otherwise at most once a minute. With many busy endpoints, updates take longer.',
      }),
    lastSuccessTime: instant(
      'lastSuccessTime is when a recent attempt succeeded, updated with lastAttempt.',
    ).optional(),
    updatedAt: instant('updatedAt is when a field that the owner can see last changed.').optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'status is the observed state of the endpoint. Only Davit writes it.' })

export const webhookEndpoint = objectOf(webhookEndpointSpec, webhookEndpointStatus)
export type WebhookEndpointSpec = z.infer<typeof webhookEndpointSpec>
export type WebhookEndpointStatus = z.infer<typeof webhookEndpointStatus>
export type WebhookEndpoint = z.infer<typeof webhookEndpoint>
export type LastHandled = z.infer<typeof lastHandled>
export type OwnerEmail = z.infer<typeof ownerEmail>

/** Condition types of an endpoint. Ready: accepted and active. Delivering: enabled and not failing. */
export const ENDPOINT_CONDITIONS = [
  'Ready',
  'Reconciling',
  'Stalled',
  'Delivering',
  'OwnersNotified',
  'SuccessesShown',
] as const

export const webhookEndpointKind: KindDefinition = {
  kind: 'WebhookEndpoint',
  plural: 'webhookendpoints',
  singular: 'webhookendpoint',
  shortNames: ['wep'],
  scope: 'Namespaced',
  description:
    "WebhookEndpoint is an HTTPS URL that receives signed deliveries of its organization's events.",
  spec: webhookEndpointSpec,
  status: webhookEndpointStatus,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Failures', type: 'integer', jsonPath: '.status.consecutiveFailures' },
    { name: 'Code', type: 'integer', jsonPath: '.status.lastAttempt.code' },
    { name: 'Last-Success', type: 'date', jsonPath: '.status.lastSuccessTime' },
    { name: 'Ordered', type: 'boolean', jsonPath: '.spec.ordered', priority: 1 },
    { name: 'Events', type: 'string', jsonPath: '.spec.eventTypes', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    { name: 'Error', type: 'string', jsonPath: '.status.lastAttempt.error' },
    { name: 'URL', type: 'string', jsonPath: '.spec.url' },
  ],
  selectable: ['.spec.state', '.status.state'],
}
export const webhookEndpoints = resourceType(webhookEndpointKind)

/**
 * The signing keys of an endpoint are in a Secret named `<namespace>.<endpoint>` in the operator's namespace, so that readers of
 * Secrets in the organization cannot read them.
 */

export const SIGNING_KEYS_LABEL = `${GROUP}/signing-keys`
/** Type of these Secrets, and of one in an organization that may get the keys (`spec.signingSecret`). */
export const SIGNING_KEYS_TYPE = `${GROUP}/signing-keys`
export const SIGNING_KEY_TYPE = `${GROUP}/signing-key`
/** Marks a Secret that Davit created in an organization for `spec.signingSecret`; the value is the endpoint's UID. */
export const SIGNING_SECRET_OWNER_LABEL = `${GROUP}/signing-secret-of`

export const signingKeyRecord = z.object({
  secret: z.string().regex(/^whsec_[A-Za-z0-9+/]+=*$/),
  createdAt: z.string(),
  expiresAt: z.string().optional(),
  request: z.string().optional(),
  shared: z.boolean().optional(),
})

/** Instead of a UID: the keys were created before their endpoint, for the first one of that name. */
export const NO_ENDPOINT_YET = ''

/**
 * The value of the Secret's key `keys`. `boundAt`: creationTimestamp of a restored Secret whose keys were bound to the endpoint of
 * that name.
 */
export const signingKeyFile = z.object({
  endpointUid: z.string(),
  keys: z.array(signingKeyRecord).max(16),
  boundAt: z.string().optional(),
})
export type SigningKeyFile = z.infer<typeof signingKeyFile>
