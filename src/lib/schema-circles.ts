/**
 * Finds references in a JSON Schema 2020-12 that lead back to themselves without going into the data, such as
 * `{"$defs": {"x": {"$ref": "#/$defs/x"}}}`. Nothing can be validated against them (JSON Schema Core §9.4.1), and neither compiling the
 * schema nor validating a few values finds those below a property.
 */

type Schema = Readonly<Record<string, unknown>>

/**
 * Keywords whose schemas apply to the same value. `then`, `else` and `dependentSchemas` do so to some values only: a circle through one of
 * them leaves a schema against which the others can be validated.
 */
const SAME_VALUE = ['allOf', 'anyOf', 'oneOf', 'not', 'if'] as const
/** Keywords whose schemas apply to a part of the value, or to some values. */
const ELSEWHERE = [
  'then',
  'else',
  'additionalProperties',
  'contains',
  'items',
  'prefixItems',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
] as const
const ELSEWHERE_BY_NAME = ['properties', 'patternProperties', 'dependentSchemas'] as const
/** Keywords whose values are data. */
const DATA: ReadonlySet<string> = new Set(['const', 'default', 'enum', 'examples'])

/** Of a schema without an `$id`. */
const BASE = 'schema:///'

/** Whether validation cannot end for a value, or a part of it, to which one of the schema's references applies. */
export function hasEndlessReference(schema: Schema): boolean {
  const references = new References(schema)
  const isDone = new Map<Schema, boolean>()
  const toVisit = [schema]
  for (let next = toVisit.pop(); next; next = toVisit.pop()) {
    if (isDone.has(next)) continue
    // Depth first, without recursion, since a schema may be nested deeply.
    const path = [{ at: next, open: [...references.onSameValue(next)] }]
    isDone.set(next, false)
    for (let last = path.at(-1); last; last = path.at(-1)) {
      const target = last.open.pop()
      if (target === undefined) {
        isDone.set(last.at, true)
        toVisit.push(...appliedElsewhere(last.at))
        path.pop()
      } else if (isDone.get(target) === false) return true
      else if (!isDone.has(target)) {
        isDone.set(target, false)
        path.push({ at: target, open: [...references.onSameValue(target)] })
      }
    }
  }
  return false
}

function appliedElsewhere(schema: Schema): Schema[] {
  const values = [
    ...ELSEWHERE.map((keyword) => schema[keyword]),
    ...ELSEWHERE_BY_NAME.flatMap((keyword) => valuesOf(schema[keyword])),
  ]
  return values.flatMap(schemasIn)
}

/** A schema, or several in an array. */
function schemasIn(value: unknown): Schema[] {
  return (Array.isArray(value) ? value : [value]).filter(isObject)
}

function valuesOf(value: unknown): unknown[] {
  return isObject(value) ? Object.values(value) : []
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Where the references of one schema lead. */
class References {
  /** The base URI of each object in the schema. */
  readonly #bases = new Map<unknown, string>()
  /** By URI, without or with an anchor. */
  readonly #byUri = new Map<string, Schema>()
  /** By dynamic anchor; undefined if several schemas have it, so that it depends on the data which one is meant. */
  readonly #byDynamicAnchor = new Map<string, Schema | undefined>()

  constructor(schema: Schema) {
    const toIndex: [value: unknown, base: string][] = [[schema, BASE]]
    this.#byUri.set(BASE, schema)
    for (let next = toIndex.pop(); next; next = toIndex.pop()) {
      const [value, outer] = next
      if (Array.isArray(value)) toIndex.push(...value.map((item): [unknown, string] => [item, outer]))
      if (!isObject(value)) continue
      const base = this.#index(value, outer)
      for (const [key, member] of Object.entries(value)) if (!DATA.has(key)) toIndex.push([member, base])
    }
  }

  #index(schema: Schema, outer: string): string {
    const { $id, $anchor, $dynamicAnchor } = schema
    const base = (typeof $id === 'string' ? resolved($id, outer)?.base : undefined) ?? outer
    this.#bases.set(schema, base)
    if (base !== outer) this.#byUri.set(base, schema)
    for (const anchor of [$anchor, $dynamicAnchor])
      if (typeof anchor === 'string') this.#byUri.set(`${base}#${anchor}`, schema)
    if (typeof $dynamicAnchor === 'string')
      this.#byDynamicAnchor.set(
        $dynamicAnchor,
        this.#byDynamicAnchor.has($dynamicAnchor) ? undefined : schema,
      )
    return base
  }

  /** The schemas that apply to the same value as this one. */
  onSameValue(schema: Schema): Schema[] {
    const values = SAME_VALUE.map((keyword) => schema[keyword])
    const { $ref, $dynamicRef } = schema
    const base = this.#bases.get(schema) ?? BASE
    const targets = [this.#target($ref, base), this.#dynamicTarget($dynamicRef, base)]
    return [...values.flatMap(schemasIn), ...targets.filter((target) => target !== undefined)]
  }

  #dynamicTarget(reference: unknown, base: string): Schema | undefined {
    const target = this.#target(reference, base)
    const anchor = target?.$dynamicAnchor
    const isDynamic = typeof anchor === 'string' && String(reference).endsWith(`#${anchor}`)
    return isDynamic ? this.#byDynamicAnchor.get(anchor) : target
  }

  /** Undefined if it leads to nothing, which compiling finds out, or to no object. */
  #target(reference: unknown, from: string): Schema | undefined {
    const uri = typeof reference === 'string' ? resolved(reference, from) : undefined
    if (!uri) return undefined
    const { base, fragment } = uri
    const resource = this.#byUri.get(base)
    if (fragment === '') return resource
    return fragment.startsWith('/') ? atPointer(resource, fragment) : this.#byUri.get(`${base}#${fragment}`)
  }
}

function resolved(reference: string, from: string): { base: string; fragment: string } | undefined {
  try {
    const url = new URL(reference, from)
    const fragment = decodeURIComponent(url.hash.slice(1))
    url.hash = ''
    return { base: url.href, fragment }
  } catch {
    return undefined
  }
}

function atPointer(resource: unknown, pointer: string): Schema | undefined {
  let value = resource
  for (const part of pointer.slice(1).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = Reflect.get(value, key)
  }
  return isObject(value) ? value : undefined
}
