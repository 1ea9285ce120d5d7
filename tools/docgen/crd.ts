/**
 * Generates the CustomResourceDefinitions from the zod schemas. Whatever zod can express and a structural schema cannot is rejected
 * here, with its path, rather than by an API server later.
 */
import { z } from 'zod'
import { boxTemplateKind } from '../../src/apis/box-template.ts'
import { deliverySegmentKind } from '../../src/apis/delivery-segment.ts'
import { eventTypeKind } from '../../src/apis/event-type.ts'
import {
  CATEGORY,
  type CelRule,
  GROUP,
  type KindDefinition,
  PATTERN_HIDDEN,
  PATTERN_MEANING,
  type PrinterColumn,
  VERSION,
} from '../../src/apis/meta.ts'
import { outcomeSegmentKind } from '../../src/apis/outcome-segment.ts'
import { registryCredentialKind } from '../../src/apis/registry-credential.ts'
import { secretsSettingsKind } from '../../src/apis/secrets-settings.ts'
import { webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../src/apis/webhook-endpoint.ts'
import { webhookEventKind } from '../../src/apis/webhook-event.ts'

/** A structural schema of apiextensions.k8s.io/v1; unlisted keywords pass through. */
export type StructuralSchema = {
  type?: string
  description?: string
  default?: unknown
  format?: string
  required?: string[]
  properties?: Record<string, StructuralSchema>
  items?: StructuralSchema
  additionalProperties?: StructuralSchema
  [keyword: string]: unknown
}

/** The schema uses something that a structural schema cannot express. `path` is such as `spec.url`. */
export class NotStructuralError extends Error {
  override readonly name = 'NotStructuralError'
  readonly path: string

  constructor(path: string, problem: string) {
    super(`${path}: ${problem}`)
    this.path = path
  }
}

const COMBINERS = ['oneOf', 'anyOf', 'allOf', 'not']
/** Keywords that pass through, in the order of the result. */
const KEPT = [
  ...['type', 'description', 'default', 'example', 'format', 'enum', 'nullable'],
  ...['pattern', 'minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['x-kubernetes-list-type', 'x-kubernetes-list-map-keys', 'x-kubernetes-map-type'],
  ...['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-int-or-string', 'x-kubernetes-validations'],
  ...[...COMBINERS, 'required'],
]
/** Handled elsewhere, or without meaning for an API server. */
const DROPPED = new Set([
  ...['properties', 'items', 'additionalProperties', PATTERN_MEANING, PATTERN_HIDDEN],
  ...['$schema', 'id', '$id', 'examples', 'readOnly', 'contentEncoding', 'contentMediaType', 'propertyNames'],
])
const LOOK_AROUND = /\(\?(=|!|<=|<!)/

type Node = Record<string, unknown>

/** @param path for errors @throws NotStructuralError with path and keyword */
export function structuralSchema(schema: z.ZodType, path: string): StructuralSchema {
  // `input`: fields with a default are optional.
  return convert(z.toJSONSchema(schema, { io: 'input', target: 'openapi-3.0' }) as Node, path)
}

function convert(node: Node, path: string): StructuralSchema {
  const schema: StructuralSchema = {}
  for (const keyword of KEPT) if (node[keyword] !== undefined) schema[keyword] = node[keyword]
  const unknown = Object.keys(node).find((keyword) => !KEPT.includes(keyword) && !DROPPED.has(keyword))
  if (unknown) throw new NotStructuralError(path, `keyword ${unknown} is not allowed`)
  refuseTypedCombiners(schema, path)
  if (schema.type === undefined) acceptAnything(schema, path)
  boundIntegers(schema)
  explainPattern(schema, node, path)
  convertChildren(schema, node, path)
  return schema
}

function convertChildren(schema: StructuralSchema, node: Node, path: string): void {
  if (node.properties) {
    const children = Object.entries(node.properties) as [string, Node][]
    schema.properties = Object.fromEntries(
      children.map(([name, { [PATTERN_HIDDEN]: unsaid, pattern, ...child }]) => [
        name,
        convert(unsaid ? child : { ...child, pattern }, `${path}.${name}`),
      ]),
    )
    const unsaid = children.filter(([, child]) => child[PATTERN_HIDDEN])
    addRules(
      schema,
      unsaid.map(([name, child]) => unsaidRule(name, child, `${path}.${name}`)),
    )
  }
  if (node.items) schema.items = convert(node.items as Node, `${path}[]`)
  // API servers reject `false` and prune unknown fields anyway; `{}` allows anything.
  const more = node.additionalProperties
  if (!isNode(more) || node['x-kubernetes-preserve-unknown-fields']) return
  if (Object.keys(more).length === 0) schema['x-kubernetes-preserve-unknown-fields'] = true
  else schema.additionalProperties = convert(more, `${path}{}`)
}

/** Arbitrary JSON has no type; a structural schema needs a keyword for it. */
function acceptAnything(schema: StructuralSchema, path: string): void {
  const typed = COMBINERS.find((keyword) => schema[keyword] !== undefined)
  if (typed) throw new NotStructuralError(path, `${typed} must have a type next to it`)
  schema['x-kubernetes-preserve-unknown-fields'] = true
}

/** A combiner may only restrict values: no type, default or description, and no unions of types. */
function refuseTypedCombiners(schema: StructuralSchema, path: string): void {
  for (const keyword of COMBINERS) {
    const value = schema[keyword]
    for (const branch of Array.isArray(value) ? value : value === undefined ? [] : [value]) {
      const wrong = Object.keys(branch).find((inner) => inner !== 'required')
      if (wrong) throw new NotStructuralError(path, `${keyword} must contain only required, not ${wrong}`)
    }
  }
}

/** The bounds of the number type are a format, not limits to show to people. */
function boundIntegers(schema: StructuralSchema): void {
  if (schema.type !== 'integer') return
  if (schema.maximum === 2 ** 31 - 1 || schema.minimum === -(2 ** 31)) schema.format ??= 'int32'
  if (schema.maximum === Number.MAX_SAFE_INTEGER) schema.format ??= 'int64'
  if (schema.minimum === -(2 ** 31) || schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === 2 ** 31 - 1 || schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
}

/** API servers report a failed `pattern` by the pattern alone; a rule next to it explains it. */
function explainPattern(schema: StructuralSchema, node: Node, path: string): void {
  const { pattern } = schema
  if (typeof pattern !== 'string') return
  if (node[PATTERN_HIDDEN]) throw new NotStructuralError(path, 'a hidden pattern must be in an object')
  const rule = ruleOf(node, path)
  if (rule) addRules(schema, [{ rule: `self.${rule.holds}`, message: rule.message }])
}

/** A rule on the object, not the field: API servers quote the value of a field whose pattern or rule fails, but never an object. */
function unsaidRule(name: string, child: Node, path: string): CelRule {
  const rule = ruleOf(child, path)
  if (!rule) throw new NotStructuralError(path, 'a hidden pattern must have a message')
  const { holds, message } = rule
  return { rule: `!has(self.${name}) || self.${name}.${holds}`, message, fieldPath: `.${name}` }
}

function ruleOf({ pattern, [PATTERN_MEANING]: meaning }: Node, path: string) {
  if (typeof pattern !== 'string') return undefined
  if (LOOK_AROUND.test(pattern)) throw new NotStructuralError(path, 'pattern must not contain look-around')
  if (meaning === undefined) return undefined
  if (pattern.includes("'")) throw new NotStructuralError(path, 'pattern must not contain a quote')
  return { holds: `matches(r'${pattern}')`, message: `must be ${meaning}` }
}

function addRules(schema: StructuralSchema, rules: CelRule[]): void {
  if (rules.length === 0) return
  const others = schema['x-kubernetes-validations']
  schema['x-kubernetes-validations'] = [...rules, ...(Array.isArray(others) ? others : [])]
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

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

/** From the schemas that Davit itself reads objects with. */

export type CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1'
  kind: 'CustomResourceDefinition'
  metadata: { name: string }
  spec: {
    group: string
    names: {
      kind: string
      listKind: string
      plural: string
      singular: string
      shortNames?: string[]
      categories?: string[]
    }
    scope: KindDefinition['scope']
    versions: CustomResourceVersion[]
  }
}

export type CustomResourceVersion = {
  name: string
  served: boolean
  storage: boolean
  additionalPrinterColumns: PrinterColumn[]
  selectableFields?: { jsonPath: string }[]
  subresources?: { status: Record<string, never> }
  schema: { openAPIV3Schema: StructuralSchema }
}

/** @throws NotStructuralError */
export function customResourceDefinition(kind: KindDefinition): CustomResourceDefinition {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${kind.plural}.${GROUP}` },
    spec: {
      group: GROUP,
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.singular,
        ...(kind.shortNames.length > 0 ? { shortNames: kind.shortNames } : {}),
        ...(kind.isNumerous ? {} : { categories: [CATEGORY] }),
      },
      scope: kind.scope,
      versions: [versionOf(kind)],
    },
  }
}

function versionOf(kind: KindDefinition): CustomResourceVersion {
  return {
    name: VERSION,
    served: true,
    storage: true,
    additionalPrinterColumns: kind.columns,
    ...(kind.selectable.length > 0
      ? { selectableFields: kind.selectable.map((jsonPath) => ({ jsonPath })) }
      : {}),
    ...(kind.status ? { subresources: { status: {} } } : {}),
    schema: { openAPIV3Schema: objectSchema(kind) },
  }
}

function objectSchema(kind: KindDefinition): StructuralSchema {
  return {
    type: 'object',
    description: kind.description,
    ...(kind.rules.length > 0 ? { 'x-kubernetes-validations': kind.rules } : {}),
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string', description: `${GROUP}/${VERSION}.` },
      kind: { type: 'string', description: `${kind.kind}.` },
      // Declared so that rules on the name can report it as their field.
      metadata: { type: 'object', properties: { name: { type: 'string' } } },
      spec: structuralSchema(kind.spec, 'spec'),
      ...(kind.status ? { status: statusSchema(structuralSchema(kind.status, 'status')) } : {}),
    },
  }
}

/**
 * The default status of a new object. `observedGeneration: -1` keeps kstatus, Flux and Helm from taking an object for ready before
 * Davit has seen it.
 */
function statusSchema(status: StructuralSchema): StructuralSchema {
  const defaults = Object.entries(status.properties ?? {}).flatMap(([name, property]) =>
    property.default === undefined ? [] : [[name, property.default] as const],
  )
  return defaults.length === 0 ? status : { ...status, default: Object.fromEntries(defaults) }
}
