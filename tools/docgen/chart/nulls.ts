/**
 * What `null` means in the chart's values. Helm drops the default of a value that is null, as is a section in which every line is a
 * comment. The schema therefore accepts null, and the chart puts the defaults back from the list of sections.
 */

export type Schema = {
  description?: string
  default?: unknown
  type?: string | string[]
  enum?: unknown[]
  anyOf?: Schema[]
  items?: Schema
  minimum?: number
  maximum?: number
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema | boolean
}

/** Values of a section that are not sections themselves, with their defaults. A section comes after the one that contains it. */
export type Section = { path: string[]; values: Record<string, unknown> }

/** The same schema, which also accepts null for every value that may be left out. */
export function orNull(schema: Schema): Schema {
  const { properties, items, additionalProperties: more, required = [] } = schema
  const inner = Object.entries(properties ?? {}).map(([name, value]) => {
    const widened = orNull(value)
    return [name, required.includes(name) ? widened : acceptNull(widened)]
  })
  return {
    ...schema,
    ...(properties ? { properties: Object.fromEntries(inner) } : {}),
    ...(items ? { items: orNull(items) } : {}),
    ...(typeof more === 'object' ? { additionalProperties: acceptNull(orNull(more)) } : {}),
  }
}

function acceptNull(schema: Schema): Schema {
  const { type, enum: choices, anyOf } = schema
  if (anyOf) {
    const isAccepted = anyOf.some((choice) => choice.type === 'null')
    return isAccepted ? schema : { ...schema, anyOf: [...anyOf, { type: 'null' }] }
  }
  if (type === undefined) return schema
  return { ...schema, type: [type, 'null'].flat(), ...(choices ? { enum: [...choices, null] } : {}) }
}

/** Settings in `config` stay unset: the program has their defaults. */
export function sectionsOf(schema: Schema, path: string[] = []): Section[] {
  const entries = Object.entries(schema.properties ?? {})
  const hasDefaults = path[0] !== 'config'
  const values = entries.flatMap(([name, { default: standard }]) =>
    hasDefaults && standard !== undefined && standard !== null ? [[name, standard] as const] : [],
  )
  const inner = entries.flatMap(([name, value]) =>
    value.properties ? sectionsOf(value, [...path, name]) : [],
  )
  return [{ path, values: Object.fromEntries(values) }, ...inner]
}
