import { describe, expect, test } from 'vitest'
import { createSchemaValidator } from './json-schema.ts'
import { hasEndlessReference } from './schema-circles.ts'

type Schema = Record<string, unknown>

const validator = createSchemaValidator()
const X = { $ref: '#/$defs/x' }

describe('a circle of references is found', () => {
  /** By where the value is to which the circle applies; `data` has such a value. */
  const places: { place: string; put: (schema: Schema) => Schema; data: unknown }[] = [
    { place: 'below a property', put: (a) => ({ properties: { a } }), data: { a: 'b' } },
    {
      place: 'two properties below',
      put: (b) => ({ properties: { a: { properties: { b } } } }),
      data: { a: { b: 'c' } },
    },
    { place: 'in a list', put: (items) => ({ items }), data: ['a'] },
    { place: 'in the first item', put: (first) => ({ prefixItems: [first] }), data: ['a'] },
    {
      place: 'below a pattern',
      put: (schema) => ({ patternProperties: { '^a': schema } }),
      data: { ab: 'c' },
    },
    {
      place: 'in other properties',
      put: (additionalProperties) => ({ additionalProperties }),
      data: { a: 'b' },
    },
    { place: 'in a name', put: (propertyNames) => ({ propertyNames }), data: { a: 'b' } },
    {
      place: 'below a reference',
      put: (a) => ({ $ref: '#/$defs/y', $defs: { y: { properties: { a } } } }),
      data: { a: 'b' },
    },
    {
      place: 'in one branch',
      put: (a) => ({ if: { maxProperties: 0 }, else: { properties: { a } } }),
      data: { a: 'b' },
    },
  ]
  const circles: { circle: string; x: Schema; more?: Schema }[] = [
    { circle: 'of one', x: X },
    { circle: 'of two', x: { $ref: '#/$defs/z' }, more: { z: X } },
    { circle: 'through allOf', x: { allOf: [true, X] } },
    { circle: 'through anyOf', x: { anyOf: [{ type: 'object' }, X] } },
    { circle: 'through oneOf', x: { oneOf: [{ type: 'object' }, X] } },
    { circle: 'through not', x: { not: X } },
    { circle: 'through if', x: { if: X } },
    { circle: 'by an anchor', x: { $anchor: 'here', $ref: '#here' } },
    { circle: 'by a dynamic anchor', x: { $dynamicAnchor: 'here', $dynamicRef: '#here' } },
    { circle: 'by an identifier', x: { $id: 'https://example.com/x', $ref: 'x' } },
    { circle: 'by an escaped pointer', x: { $ref: '#/$defs/a~1b%20c' }, more: { 'a/b c': X } },
    { circle: 'into a part of a definition', x: { allOf: [{ $ref: '#/$defs/x/allOf/0' }] } },
  ]
  const cases = places.flatMap((place) => circles.map((circle) => ({ ...place, ...circle })))

  test.each(cases)('$circle, $place', ({ put, x, more, data }) => {
    const around = put(X)
    const schema = { ...around, $defs: { ...Object(around.$defs), x, ...more } }
    expect(hasEndlessReference(schema)).toBe(true)
    expect(validator.faultOf(schema)).toBe('a reference recurses endlessly')
    expect(() => validator.validate(schema, data)).toThrow('a reference recurses endlessly')
  })
})

test.each<{ what: string; schema: Schema; data?: unknown }>([
  { what: 'a tree', schema: { properties: { child: { $ref: '#' } } }, data: { child: { child: {} } } },
  {
    what: 'a list of lists',
    schema: { ...X, $defs: { x: { type: 'array', items: { anyOf: [{ type: 'null' }, X] } } } },
    data: [[null], []],
  },
  {
    what: 'two that refer to each other below properties',
    schema: {
      ...X,
      $defs: { x: { properties: { y: { $ref: '#/$defs/y' } } }, y: { additionalProperties: X } },
    },
    data: { y: { z: { y: {} } } },
  },
  {
    what: 'one definition that is used twice',
    schema: { allOf: [X, X], anyOf: [X], $defs: { x: { type: 'object' } } },
    data: {},
  },
  { what: 'a circle that nothing refers to', schema: { type: 'object', $defs: { x: X } }, data: {} },
  { what: 'what looks like a reference in data', schema: { const: { $ref: '#' } }, data: { $ref: '#' } },
  {
    what: 'a property with the name of a keyword',
    schema: { properties: { $ref: { type: 'string' }, allOf: { type: 'array' } } },
    data: { $ref: '#', allOf: [] },
  },
  {
    what: 'a circle for some values',
    schema: { dependentSchemas: { a: { $ref: '#' } }, type: 'object' },
    data: { b: 1 },
  },
  {
    what: 'a dynamic reference that leads to another schema',
    schema: {
      $dynamicAnchor: 'node',
      properties: { a: { $ref: '#/$defs/inner' } },
      $defs: { inner: { $id: 'inner', $dynamicAnchor: 'node', allOf: [{ $dynamicRef: '#node' }] } },
    },
    data: { a: { a: {} } },
  },
  { what: 'booleans', schema: { properties: { a: true, b: false }, items: true }, data: { a: 1 } },
])('no circle: $what', ({ schema, data }) => {
  expect(hasEndlessReference(schema)).toBe(false)
  expect(validator.faultOf(schema)).toBeUndefined()
  expect(validator.validate(schema, data)).toEqual([])
})

test.each([
  { what: 'deeply nested', schema: nested(5000) },
  { what: 'long chains of references', schema: chain(1500) },
])('$what ends', ({ schema }) => {
  expect(hasEndlessReference(schema)).toBe(false)
})

function nested(depth: number): Schema {
  let schema: Schema = X
  for (let i = 0; i < depth; i += 1) schema = { not: schema }
  return { properties: { a: schema }, $defs: { x: {} } }
}

function chain(length: number): Schema {
  const definitions = Array.from({ length }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }])
  return {
    properties: { a: { $ref: '#/$defs/d0' } },
    $defs: { ...Object.fromEntries(definitions), [`d${length}`]: {} },
  }
}
