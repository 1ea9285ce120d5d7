/** EventType: an entry of the catalogue of event types. The name of the object is the type. */
import { z } from 'zod'
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
  .meta({ description: 'The entry.' })

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
      rule: "self.metadata.name.size() <= 128 && self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",
      message:
        'metadata.name must be the type: at most 128 lower-case letters, digits and dashes in parts separated by dots',
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
