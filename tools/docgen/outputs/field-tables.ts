/**
 * The tables of fields in docs/reference/<kind>.md, from the schemas. The text around them is written by hand; a table is between two
 * comments:
 *
 *   <!-- fields of WebhookEndpoint.spec: npm run generate -->
 *   <!-- end of fields -->
 */

import { boxTemplateKind } from '../../../src/apis/box-template.ts'
import { deliverySegmentKind } from '../../../src/apis/delivery-segment.ts'
import { eventTypeKind } from '../../../src/apis/event-type.ts'
import type { KindDefinition } from '../../../src/apis/meta.ts'
import { outcomeSegmentKind } from '../../../src/apis/outcome-segment.ts'
import { registryCredentialKind } from '../../../src/apis/registry-credential.ts'
import { secretsSettingsKind } from '../../../src/apis/secrets-settings.ts'
import { webhookDeliveryKind } from '../../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../../src/apis/webhook-endpoint.ts'
import { webhookEventKind } from '../../../src/apis/webhook-event.ts'
import { customResourceDefinition, type StructuralSchema } from '../crd.ts'
import { fieldRows } from '../field-rows.ts'
import { NoPlaceError, type Output } from '../generated-file.ts'
import { markdownTable } from '../markdown-table.ts'
import { type PageSection, putSection } from '../page-section.ts'

const PAGES: Record<string, readonly KindDefinition[]> = {
  'docs/reference/webhook-endpoint.md': [webhookEndpointKind],
  'docs/reference/webhook-delivery.md': [webhookDeliveryKind],
  'docs/reference/webhook-event.md': [webhookEventKind],
  'docs/reference/event-type.md': [eventTypeKind],
  'docs/reference/registry-credential.md': [registryCredentialKind],
  'docs/reference/secrets-settings.md': [secretsSettingsKind],
  'docs/reference/box-template.md': [boxTemplateKind],
  'docs/reference/delivery-log.md': [deliverySegmentKind, outcomeSegmentKind],
}

export const fieldTables: Output = {
  owns: [],
  files(read) {
    return Object.entries(PAGES).map(([path, kinds]) => {
      const page = read(path)
      if (page === undefined)
        throw new NoPlaceError(`${path} is missing, but the field tables are written to it`)
      return {
        path,
        content: kinds.flatMap(sectionsOf).reduce((text, section) => putSection(path, text, section), page),
      }
    })
  },
}

function sectionsOf(kind: KindDefinition): PageSection[] {
  const schema = customResourceDefinition(kind).spec.versions[0]?.schema.openAPIV3Schema.properties ?? {}
  const { spec, status } = schema
  return [
    ...(spec ? [section(`${kind.kind}.spec`, specTable(spec))] : []),
    ...(status ? [section(`${kind.kind}.status`, statusTable(status))] : []),
  ]
}

function section(title: string, content: string): PageSection {
  return { name: `fields of ${title}`, end: 'end of fields', content }
}

function specTable(schema: StructuralSchema): string {
  const rows = fieldRows(schema).map(({ path, type, default: byDefault, description, rules }) => [
    `\`${path}\``,
    type,
    byDefault === undefined ? '' : `\`${JSON.stringify(byDefault)}\``,
    description,
    rules,
  ])
  return markdownTable(['Field', 'Type', 'Default', 'Meaning', 'Rules'], rows)
}

/** Only Davit writes a status, so limits and defaults would be noise. */
function statusTable(schema: StructuralSchema): string {
  const rows = fieldRows(schema)
    .filter(({ path }) => !path.startsWith('conditions[]'))
    .map(({ path, type, description }) => [`\`${path}\``, type, description])
  return markdownTable(['Field', 'Type', 'Meaning'], rows)
}
