/** EventType: an entry in the catalogue of event types. */

import { z } from 'zod'
import { EVENT_TYPE, EVENT_TYPE_ALLOWED, MAX_EVENT_TYPE } from './ids.ts'
import { conditions, type KindDefinition, objectOf, observedGeneration, resourceType, text } from './meta.ts'

export const eventTypeSpec = z
  .object({
    type: text({
      min: 1,
      max: MAX_EVENT_TYPE,
      pattern: EVENT_TYPE,
      allowed: EVENT_TYPE_ALLOWED,
      describe:
        'type is the name of the event type in events and subscriptions. Set it for names that an object cannot have, such as invoice.payment_failed. The default is the name of the EventType.',
    }).optional(),
    description: text({
      min: 1,
      max: 1024,
      describe: 'description explains what happened when an event of this type is published.',
    }),
    schema: z.record(z.string(), z.unknown()).optional().meta({
      description:
        'schema is the JSON Schema 2020-12 that the data of events must match. If unset, any data is allowed.',
      'x-kubernetes-preserve-unknown-fields': true,
    }),
    example: z.unknown().optional().meta({
      description: 'example is an example of the data.',
      'x-kubernetes-preserve-unknown-fields': true,
    }),
    deprecated: z.boolean().default(false).meta({
      description:
        'deprecated marks the type as deprecated: its events are still delivered, but new endpoints should not subscribe to it. The default is false.',
    }),
  })
  .meta({ description: 'spec describes the events of this type.' })

export const eventTypeStatus = z
  .object({
    type: text({ max: MAX_EVENT_TYPE, describe: 'type is the name of the event type.' }).optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'status is the observed state of the event type. Only Davit writes it.' })

export const eventType = objectOf(eventTypeSpec, eventTypeStatus)
export type EventType = z.infer<typeof eventType>
export type EventTypeStatus = z.infer<typeof eventTypeStatus>

/** The name of the type in events and subscriptions. */
export function typeNameOf({ metadata, spec }: EventType): string {
  return spec.type ?? metadata.name
}

export const eventTypeKind: KindDefinition = {
  kind: 'EventType',
  plural: 'eventtypes',
  singular: 'eventtype',
  shortNames: ['wet'],
  scope: 'Cluster',
  description: 'EventType is a type of event that you can publish and subscribe to.',
  spec: eventTypeSpec,
  status: eventTypeStatus,
  rules: [
    {
      rule: `self.metadata.name.size() <= ${MAX_EVENT_TYPE} && self.metadata.name.matches(r'${EVENT_TYPE.source}')`,
      message: `must be ${EVENT_TYPE_ALLOWED}, at most ${MAX_EVENT_TYPE} characters in total`,
      fieldPath: '.metadata.name',
    },
  ],
  columns: [
    { name: 'Type', type: 'string', jsonPath: '.status.type' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Description', type: 'string', jsonPath: '.spec.description' },
    { name: 'Deprecated', type: 'boolean', jsonPath: '.spec.deprecated', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: ['.spec.type'],
}
export const eventTypes = resourceType(eventTypeKind)
