/** EventType: an entry in the catalogue of event types, named after the type. */

import { z } from 'zod'
import { EVENT_TYPE, EVENT_TYPE_ALLOWED, MAX_EVENT_TYPE } from './ids.ts'
import { type KindDefinition, objectMeta, resourceType, text } from './meta.ts'

export const eventTypeSpec = z
  .object({
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
        'deprecated marks the type as deprecated: its events are still delivered, but do not subscribe to it any more. The default is false.',
    }),
  })
  .meta({ description: 'spec describes the events of this type.' })

export const eventType = z.object({ metadata: objectMeta, spec: eventTypeSpec })
export type EventType = z.infer<typeof eventType>

export const eventTypeKind: KindDefinition = {
  kind: 'EventType',
  plural: 'eventtypes',
  singular: 'eventtype',
  shortNames: ['wet'],
  scope: 'Cluster',
  description: 'EventType is a type of event that you can publish and subscribe to.',
  spec: eventTypeSpec,
  rules: [
    {
      rule: `self.metadata.name.size() <= ${MAX_EVENT_TYPE} && self.metadata.name.matches(r'${EVENT_TYPE.source}')`,
      message: `must be ${EVENT_TYPE_ALLOWED}, at most ${MAX_EVENT_TYPE} characters in total`,
      fieldPath: '.metadata.name',
    },
  ],
  columns: [
    { name: 'Description', type: 'string', jsonPath: '.spec.description' },
    { name: 'Deprecated', type: 'boolean', jsonPath: '.spec.deprecated', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const eventTypes = resourceType(eventTypeKind)
