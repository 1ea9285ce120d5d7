/** A valid spec of every kind, and a status if Davit reads one. */

import { deliverySegmentKind } from '../../src/apis/delivery-segment.ts'
import type { KindDefinition } from '../../src/apis/meta.ts'
import { outcomeSegmentKind } from '../../src/apis/outcome-segment.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { goodTemplate } from '../contract/samples/box-template.ts'
import { goodEventType } from '../contract/samples/event-type.ts'
import { goodCredential } from '../contract/samples/registry-credential.ts'
import { goodSettings } from '../contract/samples/secrets-settings.ts'
import { goodDeliverySegment, goodOutcomeSegment } from '../contract/samples/segments.ts'
import { goodDelivery } from '../contract/samples/webhook-delivery.ts'
import { goodEndpoint } from '../contract/samples/webhook-endpoint.ts'
import { goodEvent } from '../contract/samples/webhook-event.ts'

export type GoodObject = {
  kind: KindDefinition
  spec: object
  status: object
  annotations: Record<string, string>
}

const AT = '2026-01-31T12:00:00Z'
const CONDITION = { type: 'Ready', status: 'True', reason: 'Accepted', message: 'm', lastTransitionTime: AT }
const ATTEMPT = { at: '2026-01-31T12:00:00.000Z', code: 503, latencyMs: 41, error: 'HTTP 503', response: '' }

const SPECS: Record<string, object> = {
  WebhookEndpoint: {
    ...goodEndpoint.spec,
    description: 'x',
    ordered: true,
    concurrency: 3,
  },
  WebhookDelivery: goodDelivery.spec,
  WebhookEvent: goodEvent.spec,
  EventType: { ...goodEventType.spec, schema: { type: 'object' }, example: {} },
  DeliverySegment: goodDeliverySegment.spec,
  OutcomeSegment: goodOutcomeSegment.spec,
  RegistryCredential: goodCredential.spec,
  SecretsSettings: goodSettings.spec,
  BoxTemplate: goodTemplate.spec,
}

const STATUSES: Record<string, object> = {
  WebhookEndpoint: {
    observedGeneration: 1,
    state: 'enabled',
    consecutiveFailures: 2,
    failingSince: AT,
    lastCounted: 'x',
    override: { state: 'disabled', generation: 1 },
    conditions: [CONDITION],
  },
  WebhookDelivery: { state: 'retrying', attemptCount: 1, nextAttemptAt: AT, attempts: [ATTEMPT] },
  WebhookEvent: { observedGeneration: 1, state: 'accepted', eventId: 'msg_x', deliveries: 1, acceptedAt: AT },
}

const TIME = '2126-01-31T12:00:00Z'
const ANNOTATIONS: Record<string, Record<string, string>> = {
  WebhookEndpoint: {
    'davit.dev/ping-requested-at': TIME,
    'davit.dev/redeliver-requested': `msg_x@${TIME}`,
    'davit.dev/disable-requested-at': TIME,
    'davit.dev/enable-requested-at': TIME,
    'davit.dev/rotate-requested-at': TIME,
  },
}

export const GOOD_OBJECTS: readonly GoodObject[] = kinds.map((kind) => ({
  kind,
  spec: SPECS[kind.kind] ?? {},
  status: STATUSES[kind.kind] ?? { observedGeneration: 1, conditions: [CONDITION] },
  annotations: ANNOTATIONS[kind.kind] ?? {},
}))

/** Kinds in the operator's own namespace. */
export function isOfTheLog(kind: KindDefinition): boolean {
  return kind === deliverySegmentKind || kind === outcomeSegmentKind
}
