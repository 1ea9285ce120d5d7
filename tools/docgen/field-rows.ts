/** Turns the fields of a schema into table rows: path, type and rules in words. */

import type { CelRule } from '../../src/apis/meta.ts'
import type { StructuralSchema } from './crd.ts'

export type FieldRow = {
  /** Such as `signingSecret.name` or `attempts[].at`. */
  path: string
  type: string
  default?: unknown
  description: string
  rules: string[]
}

/** Every field below `schema`, outer before inner. */
export function fieldRows(schema: StructuralSchema, prefix = ''): FieldRow[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = prefix + name
    const row: FieldRow = {
      path,
      type: typeOf(field),
      description: field.description ?? '',
      rules: [
        ...(schema.required?.includes(name) ? ['required'] : []),
        ...rulesOf(field),
        ...celRulesOf(schema).flatMap(({ fieldPath, message }) =>
          fieldPath === `.${name}` ? [message] : [],
        ),
      ],
      ...(field.default === undefined ? {} : { default: field.default }),
    }
    return [
      row,
      ...fieldRows(field, `${path}.`),
      ...(field.items ? fieldRows(field.items, `${path}[].`) : []),
    ]
  })
}

function typeOf(field: StructuralSchema): string {
  if (Array.isArray(field.enum)) return field.enum.map((value) => `\`${value}\``).join(' or ')
  if (field.type === undefined) return 'any JSON'
  if (field.type === 'array') return `list of ${plural(typeOf(field.items ?? {}))}`
  if (field.format === 'date-time') return 'time'
  return field.type
}

function plural(type: string): string {
  return /^(string|object|integer|time)$/.test(type) ? `${type}s` : type
}

function rulesOf(field: StructuralSchema): string[] {
  const own = [
    range(field.minimum, field.maximum, ''),
    field.format === 'date-time' ? undefined : range(field.minLength, field.maxLength, ' characters'),
    range(field.minItems, field.maxItems, ' items'),
    ...messagesOf(field),
  ]
  const ofItems =
    field.items && !field.items.properties ? rulesOf(field.items).map((rule) => `each: ${rule}`) : []
  return [...own.filter((rule) => rule !== undefined), ...ofItems]
}

/** A pattern with a message is described by the message; other patterns are shown as they are. */
function messagesOf(field: StructuralSchema): string[] {
  // A rule about one field of an object belongs to the row of that field.
  const rules = celRulesOf(field).filter(({ fieldPath }) => fieldPath === undefined)
  const inWords = rules.some(({ rule }) => rule.startsWith('self.matches('))
  const pattern = typeof field.pattern === 'string' && !inWords ? [`matches \`${field.pattern}\``] : []
  return [...pattern, ...rules.map(({ message }) => message)]
}

function celRulesOf(schema: StructuralSchema): CelRule[] {
  return (schema['x-kubernetes-validations'] ?? []) as CelRule[]
}

function range(min: unknown, max: unknown, unit: string): string | undefined {
  const [from, to] = [min, max].map((bound) =>
    typeof bound === 'number' ? bound.toLocaleString('en') : undefined,
  )
  if (from !== undefined && from === to) return `${from}${unit}`
  if (from !== undefined && to !== undefined) return `${from} to ${to}${unit}`
  if (to !== undefined) return `at most ${to}${unit}`
  if (from !== undefined) return `at least ${from}${unit}`
  return undefined
}
