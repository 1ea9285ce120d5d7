/** EventType: an entry in the catalogue of event types, named after the type. */

import { z } from 'zod'
import { EVENT_TYPE, EVENT_TYPE_ALLOWED, MAX_EVENT_TYPE } from './ids.ts'
import { type KindDefinition, objectMeta, resourceType, text } from './meta.ts'

export const eventTypeSpec = z
  .object({
    description: text({ min: 1, max: 1024, describe: 'What happened when such an event is published.' }),
    schema: z.record(z.string(), z.unknown()).optional().meta({
      description: 'JSON Schema 2020-12 of `data`; anything goes where absent.',
      'x-kubernetes-preserve-unknown-fields': true,
    }),
    example: z
      .unknown()
      .optional()
      .meta({ description: 'An example of `data`.', 'x-kubernetes-preserve-unknown-fields': true }),
    deprecated: z
      .boolean()
      .default(false)
      .meta({ description: 'Still delivered, but not to be subscribed to any more.' }),
  })
  .meta({ description: 'What there is to know about events of this type.' })

export const eventType = z.object({ metadata: objectMeta, spec: eventTypeSpec })
export type EventType = z.infer<typeof eventType>

export const eventTypeKind: KindDefinition = {
  kind: 'EventType',
  plural: 'eventtypes',
  singular: 'eventtype',
  shortNames: ['wet'],
  scope: 'Cluster',
  description: 'A type of event that can be published and subscribed to.',
  spec: eventTypeSpec,
  rules: [
    {
      rule: `self.metadata.name.size() <= ${MAX_EVENT_TYPE} && self.metadata.name.matches(r'${EVENT_TYPE.source}')`,
      message: `must be ${EVENT_TYPE_ALLOWED}, at most ${MAX_EVENT_TYPE} characters in all`,
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
