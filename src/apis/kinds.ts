/** Every kind of the group. */

import { outcomeSegmentKind } from './api-outcome-segment.ts'
import { boxTemplateKind } from './box-template.ts'
import { deliverySegmentKind } from './delivery-segment.ts'
import { eventTypeKind } from './event-type.ts'
import type { KindDefinition } from './meta.ts'
import { registryCredentialKind } from './registry-credential.ts'
import { secretsSettingsKind } from './secrets-settings.ts'
import { webhookDeliveryKind } from './webhook-delivery.ts'
import { webhookEndpointKind } from './webhook-endpoint.ts'
import { webhookEventKind } from './webhook-event.ts'

export const kinds: readonly KindDefinition[] = [
  webhookEndpointKind,
  webhookDeliveryKind,
  webhookEventKind,
  eventTypeKind,
  deliverySegmentKind,
  outcomeSegmentKind,
  registryCredentialKind,
  secretsSettingsKind,
  boxTemplateKind,
]
