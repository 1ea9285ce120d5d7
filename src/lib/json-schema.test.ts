import { expect, test } from 'vitest'
import { createSchemaValidator, SchemaError } from './json-schema.ts'

const environment = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['environmentId'],
  properties: {
    environmentId: { type: 'string', pattern: '^env_[a-z0-9]+$' },
    region: { enum: ['eu-west-1', 'us-east-1'] },
    tags: { type: 'array', items: { type: 'string' }, uniqueItems: true },
    'a/b': { type: 'number' },
  },
}

test.each([
  {
    name: 'all that is described',
    schema: environment,
    data: { environmentId: 'env_1', region: 'eu-west-1', tags: ['a'] },
  },
  {
    name: 'fields that are not described',
    schema: environment,
    data: { environmentId: 'env_1', more: true },
  },
  { name: 'anything under an empty schema', schema: {}, data: null },
  { name: 'formats, which are remarks only', schema: { format: 'email' }, data: 'no address' },
  { name: 'tuples of 2020-12', schema: { prefixItems: [{ type: 'string' }], items: false }, data: ['x'] },
  {
    name: 'references within the schema',
    schema: { $defs: { a: { type: 'string' } }, $ref: '#/$defs/a' },
    data: 'x',
  },
  { name: 'keywords nobody knows', schema: { 'x-owner': 'team', type: 'string' }, data: 'x' },
])('data fits: $name', ({ schema, data }) => {
  expect(createSchemaValidator().validate(schema, data)).toEqual([])
})

test.each([
  { data: {}, want: [{ pointer: '', message: "must have required property 'environmentId'" }] },
  { data: { environmentId: 7 }, want: [{ pointer: '/environmentId', message: 'must be string' }] },
  {
    data: { environmentId: 'x' },
    want: [{ pointer: '/environmentId', message: 'must match pattern "^env_[a-z0-9]+$"' }],
  },
  {
    data: { environmentId: 'env_1', region: 'mars' },
    want: [
      {
        pointer: '/region',
        message: 'must be equal to one of the allowed values: ["eu-west-1","us-east-1"]',
      },
    ],
  },
  {
    data: { environmentId: 7, tags: ['a', 3], 'a/b': 'x' },
    want: [
      { pointer: '/environmentId', message: 'must be string' },
      { pointer: '/tags/1', message: 'must be string' },
      { pointer: '/a~1b', message: 'must be number' },
    ],
  },
])('what does not fit is named with its place: $data', ({ data, want }) => {
  expect(createSchemaValidator().validate(environment, data)).toEqual(want)
})

test('a field too many is named', () => {
  const problems = createSchemaValidator().validate({ additionalProperties: false }, { extra: 1 })
  expect(problems).toEqual([{ pointer: '', message: 'must NOT have additional properties: "extra"' }])
})

test('at most ten problems are named, and their messages are short', () => {
  const schema = { items: { enum: ['x'.repeat(1000)] } }
  const problems = createSchemaValidator().validate(schema, new Array(50_000).fill(1))
  expect(problems.length).toBeLessThanOrEqual(10)
  expect(problems.length).toBeGreaterThanOrEqual(1)
  for (const { message } of problems) expect(message.length).toBeLessThan(310)
})

/** References that double at each of 40 levels. */
const doubling = Object.fromEntries(
  Array.from({ length: 40 }, (_, level) => {
    const next = { $ref: `#/$defs/d${level + 1}` }
    return [`d${level}`, { allOf: [next, next] }]
  }),
)

test.each<{ name: string; schema: Record<string, unknown>; want: string }>([
  { name: 'a type that is none', schema: { type: 'text' }, want: 'schema/type must be equal to one of' },
  { name: 'a keyword with a wrong value', schema: { required: 'id' }, want: 'schema/required must be array' },
  {
    name: 'a keyword with a value of another draft',
    schema: { items: [{ type: 'string' }] },
    want: 'schema/items must be object,boolean',
  },
  ...[
    'http://json-schema.org/draft-07/schema#',
    'http://json-schema.org/draft-04/schema#',
    'https://json-schema.org/draft/2019-09/schema',
    'https://example.com/our-own',
    7,
  ].map(($schema) => ({
    name: `a schema in the dialect ${$schema}`,
    schema: { $schema },
    want: `$schema must be https://json-schema.org/draft/2020-12/schema, or absent, but is ${JSON.stringify($schema)}`,
  })),
  {
    name: 'a pattern that is none',
    schema: { properties: { a: { pattern: '^[\\w-.]+$' } } },
    want: 'the pattern /^[\\w-.]+$/u is invalid: Invalid character class',
  },
  {
    name: 'a pattern of names that is none',
    schema: { patternProperties: { '(': true } },
    want: 'the pattern /(/u is invalid: Unterminated group',
  },
  {
    name: 'a reference to somewhere else',
    schema: { $ref: 'https://example.com/schema.json' },
    want: 'the reference https://example.com/schema.json cannot be resolved in the schema',
  },
  {
    name: 'a reference to nowhere',
    schema: { properties: { a: { $ref: '#/$defs/none' } } },
    want: 'the reference #/$defs/none cannot be resolved in the schema',
  },
  {
    name: 'an anchor that is there twice',
    schema: { $defs: { a: { $anchor: 'x' }, b: { $anchor: 'x' } } },
    want: '"#x" resolves to more than one schema',
  },
  { name: 'a keyword of draft 4', schema: { id: 'x' }, want: 'the keyword id is not part of' },
  { name: 'a keyword of the library', schema: { $async: true }, want: 'the keyword $async is not part of' },
  {
    name: 'a keyword of the library inside',
    schema: { properties: { a: { $async: true, type: 'string' } } },
    want: 'the keyword $async is not part of',
  },
  { name: 'a schema that refers to itself', schema: { $ref: '#' }, want: 'recurses endlessly' },
  {
    name: 'a schema that refers to itself for lists',
    schema: { anyOf: [{ not: { type: 'array' } }, { $ref: '#' }] },
    want: 'recurses endlessly',
  },
  {
    name: 'a circle of definitions',
    schema: { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
    want: 'recurses endlessly',
  },
  {
    name: 'a schema that no value is checked against in time',
    schema: { $defs: { ...doubling, d40: true }, $ref: '#/$defs/d0' },
    want: 'takes too long to validate even an empty object',
  },
  {
    name: 'a schema that is too large',
    schema: { description: 'x'.repeat(70_000) },
    want: 'more than 65536 characters',
  },
])('$name is an error of the schema', ({ schema, want }) => {
  const validator = createSchemaValidator()
  const validate = () => validator.validate(schema, {})
  expect(validate).toThrow(SchemaError)
  expect(validate).toThrow(want)
  expect(validator.faultOf(schema)).toContain(want)
})

test.each([
  environment,
  {},
  { properties: { child: { $ref: '#' } } },
  { $schema: 'https://json-schema.org/draft/2020-12/schema#' },
])('a schema that can be used has no fault: %j', (schema) => {
  expect(createSchemaValidator().faultOf(schema)).toBeUndefined()
})

test('a schema nested too deeply is an error of the schema', () => {
  let schema: Record<string, unknown> = {}
  for (let i = 0; i < 50_000; i += 1) schema = { not: schema }
  expect(() => createSchemaValidator().validate(schema, {})).toThrow(SchemaError)
})

// Without the limit these would run for longer than the test may.
test.each([
  { name: 'a pattern that backtracks', schema: { pattern: '^(a+)+$' }, data: `${'a'.repeat(60)}!` },
  {
    name: 'a pattern on names',
    schema: { patternProperties: { '^(a|aa)+$': true } },
    data: { [`${'a'.repeat(80)}!`]: 1 },
  },
  {
    name: 'a comparison of all items',
    schema: { uniqueItems: true },
    data: Array.from({ length: 100_000 }, (_, i) => [i]),
  },
])('$name ends at the limit, and what came after is checked as before', ({ schema, data }) => {
  const validator = createSchemaValidator()
  expect(validator.validate(schema, data)).toEqual([{ pointer: '', message: 'takes too long to validate' }])
  expect(validator.validate(schema, [])).toEqual([])
  expect(validator.validate(environment, { environmentId: 'env_1' })).toEqual([])
})

test('a schema that refers to itself without end for some values is an answer', () => {
  const schema = {
    $ref: '#/$defs/a',
    $defs: { a: { dependentSchemas: { a: { $ref: '#/$defs/a' } } } },
  }
  const validator = createSchemaValidator()
  expect(validator.validate({ type: 'object', ...schema }, { a: 1 })).toEqual([
    // Running out of stack may take longer than the limit.
    { pointer: '', message: expect.stringMatching(/^(cannot be validated|takes too long to validate)$/) },
  ])
})

test('schemas with the same identifier do not know each other', () => {
  const validator = createSchemaValidator()
  const named = (type: string) => ({
    $id: 'https://davit.dev/x',
    $defs: { a: { $id: 'a', type } },
    $ref: 'a',
  })
  expect(validator.validate(named('string'), 'x')).toEqual([])
  expect(validator.validate(named('number'), 'x')).toEqual([{ pointer: '', message: 'must be number' }])
})

test('a schema is compiled once, and the compiled ones are bounded', () => {
  let read = 0
  const counting = () => ({
    get type() {
      read += 1
      return 'string'
    },
  })
  const validator = createSchemaValidator()
  const first = counting()
  validator.validate(first, 'x')
  const once = read
  for (let i = 0; i < 100; i += 1) validator.validate(first, 'x')
  expect(read).toBe(once)
  for (let i = 0; i < 500; i += 1) validator.validate({ title: String(i) }, 'x')
  validator.validate(first, 'x')
  expect(read).toBeGreaterThan(once)
}, 30_000)
