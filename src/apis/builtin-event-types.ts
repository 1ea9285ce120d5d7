/**
 * The event types that Davit ships (interface §6). Davit publishes `webhook.*`; the platform publishes the others, so that all
 * organizations find the same names. Schemas describe fields, require none and allow more, so that payloads can grow.
 */
import type { z } from 'zod'
import { eventTypeKind, type eventTypeSpec } from './event-type.ts'
import { API_VERSION } from './meta.ts'

/** An EventType manifest. */
export type EventTypeManifest = {
  apiVersion: string
  kind: string
  metadata: { name: string }
  spec: z.input<typeof eventTypeSpec>
}

type Fields = Record<string, { type: string; description: string; minimum?: number }>

const text = (description: string) => ({ type: 'string', description })
const time = (description: string) => text(`${description} ISO 8601, UTC.`)

export const builtinEventTypes: readonly EventTypeManifest[] = [
  entry('webhook.ping', {
    description: 'A ping of an endpoint was requested. Delivered only to that endpoint.',
    fields: { endpointId: text('endpointId is the ID of the endpoint that is pinged.') },
    example: { endpointId: 'whe_billing' },
  }),
  entry('webhook.endpoint.disabled', {
    description:
      'An endpoint was disabled because its deliveries kept failing. Delivered to the other endpoints of the organization.',
    fields: {
      endpointId: text('endpointId is the ID of the endpoint that was disabled.'),
      consecutiveFailures: {
        type: 'integer',
        description: 'consecutiveFailures is the number of exhausted deliveries since the last success.',
        minimum: 0,
      },
      failingSince: time('failingSince is when the first of the consecutive deliveries was exhausted.'),
      disabledAt: time('disabledAt is when the endpoint was disabled.'),
    },
    example: {
      endpointId: 'whe_billing',
      consecutiveFailures: 5,
      failingSince: '2026-01-30T11:42:07.218Z',
      disabledAt: '2026-01-31T12:00:03.540Z',
    },
  }),
  entry('environment.started', {
    description: 'An environment started.',
    fields: {
      environmentId: text('environmentId is the ID of the environment.'),
      name: text('name is the display name of the environment.'),
      startedBy: text('startedBy is the member or service that started the environment.'),
      startedAt: time('startedAt is when the environment started.'),
    },
    example: {
      environmentId: 'env_7f3k',
      name: 'staging',
      startedBy: 'member_42',
      startedAt: '2026-01-31T12:00:00.000Z',
    },
  }),
  entry('environment.stopped', {
    description: 'An environment stopped.',
    fields: {
      environmentId: text('environmentId is the ID of the environment.'),
      name: text('name is the display name of the environment.'),
      reason: text('reason is why the environment stopped, such as requested, idle or failed.'),
      stoppedAt: time('stoppedAt is when the environment stopped.'),
    },
    example: {
      environmentId: 'env_7f3k',
      name: 'staging',
      reason: 'idle',
      stoppedAt: '2026-01-31T18:30:00.000Z',
    },
  }),
  entry('member.joined', {
    description: 'A member joined the organization.',
    fields: {
      memberId: text('memberId is the ID of the member.'),
      role: text('role is the role of the member.'),
      invitedBy: text(
        'invitedBy is the ID of the member who sent the invitation. It is absent without an invitation.',
      ),
      joinedAt: time('joinedAt is when the member joined.'),
    },
    example: {
      memberId: 'member_42',
      role: 'owner',
      invitedBy: 'member_7',
      joinedAt: '2026-01-31T09:15:00.000Z',
    },
  }),
  entry('billing.updated', {
    description: 'The billing of the organization changed.',
    fields: {
      change: text('change is what changed, such as plan, payment-method or invoice.'),
      plan: text('plan is the active plan.'),
      effectiveAt: time('effectiveAt is when the change takes effect.'),
    },
    example: { change: 'plan', plan: 'team', effectiveAt: '2026-02-01T00:00:00.000Z' },
  }),
]

/** Those that the platform publishes, not Davit. */
export const platformEventTypes: readonly string[] = builtinEventTypes
  .map(({ metadata }) => metadata.name)
  .filter((name) => !name.startsWith('webhook.'))

function entry(
  name: string,
  about: { description: string; fields: Fields; example: Record<string, unknown> },
): EventTypeManifest {
  const { description, fields, example } = about
  return {
    apiVersion: API_VERSION,
    kind: eventTypeKind.kind,
    metadata: { name },
    spec: {
      description,
      schema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        properties: fields,
      },
      example,
    },
  }
}
