import { z } from 'zod'
import { boxTemplateKind } from './box-template.ts'
import { deliverySegmentKind } from './delivery-segment.ts'
import { eventTypeKind } from './event-type.ts'
import {
  CATEGORY,
  type CelRule,
  GROUP,
  type KindDefinition,
  PATTERN_HIDDEN,
  PATTERN_MEANING,
  type PrinterColumn,
  VERSION,
} from './meta.ts'
import { outcomeSegmentKind } from './outcome-segment.ts'
import { registryCredentialKind } from './registry-credential.ts'
import { secretsSettingsKind } from './secrets-settings.ts'
import { webhookDeliveryKind } from './webhook-delivery.ts'
import { webhookEndpointKind } from './webhook-endpoint.ts'
import { webhookEventKind } from './webhook-event.ts'

/**
 * From a zod schema to the structural schema that a CustomResourceDefinition may hold. What zod can say and a
 * structural schema cannot is refused here, with the place, rather than by an API server later.
 */

/** A structural schema of apiextensions.k8s.io/v1; other keywords are passed through as they are. */
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

/** The schema says something that no structural schema can. `path` is the place, such as `spec.url`. */
export class NotStructuralError extends Error {
  override readonly name = 'NotStructuralError'
  readonly path: string

  constructor(path: string, problem: string) {
    super(`${path}: ${problem}`)
    this.path = path
  }
}

const COMBINERS = ['oneOf', 'anyOf', 'allOf', 'not']
/** Keywords that mean the same on both sides, in the order of the result. */
const KEPT = [
  ...['type', 'description', 'default', 'example', 'format', 'enum', 'nullable'],
  ...['pattern', 'minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['x-kubernetes-list-type', 'x-kubernetes-list-map-keys', 'x-kubernetes-map-type'],
  ...['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-int-or-string', 'x-kubernetes-validations'],
  ...[...COMBINERS, 'required'],
]
/** Read apart, or without meaning to an API server. */
const DROPPED = new Set([
  ...['properties', 'items', 'additionalProperties', PATTERN_MEANING, PATTERN_HIDDEN],
  ...['$schema', 'id', '$id', 'examples', 'readOnly', 'contentEncoding', 'contentMediaType', 'propertyNames'],
])
const LOOK_AROUND = /\(\?(=|!|<=|<!)/

type Node = Record<string, unknown>

/**
 * @param path where the schema stands, for errors
 * @throws NotStructuralError naming the place and the keyword
 */
export function structuralSchema(schema: z.ZodType, path: string): StructuralSchema {
  // `input`: a field with a default is one that may be left out.
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
  // `false` is refused by API servers, which prune unknown fields anyway; `{}` means that anything goes.
  const more = node.additionalProperties
  if (!isNode(more) || node['x-kubernetes-preserve-unknown-fields']) return
  if (Object.keys(more).length === 0) schema['x-kubernetes-preserve-unknown-fields'] = true
  else schema.additionalProperties = convert(more, `${path}{}`)
}

/** Any JSON has no type in JSON Schema; a structural schema says so in a keyword of its own. */
function acceptAnything(schema: StructuralSchema, path: string): void {
  const typed = COMBINERS.find((keyword) => schema[keyword] !== undefined)
  if (typed) throw new NotStructuralError(path, `${typed} without a type beside it`)
  schema['x-kubernetes-preserve-unknown-fields'] = true
}

/** Inside a combiner only values may be restricted: no type, default or description, and no unions of types. */
function refuseTypedCombiners(schema: StructuralSchema, path: string): void {
  for (const keyword of COMBINERS) {
    const value = schema[keyword]
    for (const branch of Array.isArray(value) ? value : value === undefined ? [] : [value]) {
      const wrong = Object.keys(branch).find((inner) => inner !== 'required')
      if (wrong)
        throw new NotStructuralError(path, `${keyword} with ${wrong}; only required is allowed in it`)
    }
  }
}

/** The bounds of the number type itself are a format, not limits to show to people. */
function boundIntegers(schema: StructuralSchema): void {
  if (schema.type !== 'integer') return
  if (schema.maximum === 2 ** 31 - 1 || schema.minimum === -(2 ** 31)) schema.format ??= 'int32'
  if (schema.maximum === Number.MAX_SAFE_INTEGER) schema.format ??= 'int64'
  if (schema.minimum === -(2 ** 31) || schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === 2 ** 31 - 1 || schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
}

/** API servers answer a failed `pattern` with the pattern alone: a rule beside it says it in words. */
function explainPattern(schema: StructuralSchema, node: Node, path: string): void {
  const { pattern } = schema
  if (typeof pattern !== 'string') return
  if (node[PATTERN_HIDDEN]) throw new NotStructuralError(path, 'an unsaid pattern outside of an object')
  const rule = ruleOf(node, path)
  if (rule) addRules(schema, [{ rule: `self.${rule.holds}`, message: rule.message }])
}

/** A rule of the object: API servers show the value of the field that has the pattern or the rule, and none of an object. */
function unsaidRule(name: string, child: Node, path: string): CelRule {
  const rule = ruleOf(child, path)
  if (!rule) throw new NotStructuralError(path, 'an unsaid pattern without words')
  const { holds, message } = rule
  return { rule: `!has(self.${name}) || self.${name}.${holds}`, message, fieldPath: `.${name}` }
}

function ruleOf({ pattern, [PATTERN_MEANING]: meaning }: Node, path: string) {
  if (typeof pattern !== 'string') return undefined
  if (LOOK_AROUND.test(pattern)) throw new NotStructuralError(path, 'pattern with look-around')
  if (meaning === undefined) return undefined
  if (pattern.includes("'")) throw new NotStructuralError(path, 'pattern with a quote')
  return { holds: `matches(r'${pattern}')`, message: `must be ${meaning}` }
}

/** Before those that are there. */
function addRules(schema: StructuralSchema, rules: CelRule[]): void {
  if (rules.length === 0) return
  const others = schema['x-kubernetes-validations']
  schema['x-kubernetes-validations'] = [...rules, ...(Array.isArray(others) ? others : [])]
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Every kind of the group. */

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

/** The CustomResourceDefinition of a kind, from the same schemas that Davit itself reads objects with. */

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
      categories: string[]
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

/** @throws NotStructuralError when a schema of the kind cannot be said to an API server */
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
        categories: [CATEGORY],
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
      // Named so that rules on the name can report it as their field.
      metadata: { type: 'object', properties: { name: { type: 'string' } } },
      spec: structuralSchema(kind.spec, 'spec'),
      ...(kind.status ? { status: statusSchema(structuralSchema(kind.status, 'status')) } : {}),
    },
  }
}

/**
 * A fresh object shows the defaults of its status. `observedGeneration: -1` keeps whoever waits for it (kstatus,
 * Flux, Helm) from taking an object that nobody has looked at yet for one that is ready.
 */
function statusSchema(status: StructuralSchema): StructuralSchema {
  const defaults = Object.entries(status.properties ?? {}).flatMap(([name, property]) =>
    property.default === undefined ? [] : [[name, property.default] as const],
  )
  return defaults.length === 0 ? status : { ...status, default: Object.fromEntries(defaults) }
}
