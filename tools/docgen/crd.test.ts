import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text } from '../../src/apis/meta.ts'
import { fc } from '../../test/support/fast-check.ts'
import { kinds, NotStructuralError, type StructuralSchema, structuralSchema } from './crd.ts'

/** Every node of a schema with the place where it stands. */
function* nodesOf(schema: StructuralSchema, path: string): Generator<[string, StructuralSchema]> {
  yield [path, schema]
  for (const [name, child] of Object.entries(schema.properties ?? {}))
    yield* nodesOf(child, `${path}.${name}`)
  if (schema.items) yield* nodesOf(schema.items, `${path}[]`)
  if (schema.additionalProperties) yield* nodesOf(schema.additionalProperties, `${path}{}`)
}

const ALLOWED = new Set([
  ...['type', 'description', 'default', 'example', 'format', 'enum', 'nullable', 'required', 'oneOf'],
  ...['pattern', 'minLength', 'maxLength', 'minItems', 'maxItems', 'minimum', 'maximum'],
  ...['properties', 'items', 'additionalProperties', 'x-kubernetes-preserve-unknown-fields'],
  ...['x-kubernetes-list-type', 'x-kubernetes-list-map-keys', 'x-kubernetes-map-type'],
  'x-kubernetes-validations',
])

/** What kube-apiserver demands of each node of a structural schema, and Davit of a list. */
const DEMANDS: Record<string, (node: StructuralSchema) => boolean> = {
  'a type': (node) => node.type !== undefined || node['x-kubernetes-preserve-unknown-fields'] === true,
  'items in a list': (node) => node.type !== 'array' || node.items !== undefined,
  'a list type': (node) => node.type !== 'array' || node['x-kubernetes-list-type'] !== undefined,
  'one kind of properties': (node) => !(node.properties && node.additionalProperties),
  'required fields that exist': (node) => (node.required ?? []).every((name) => node.properties?.[name]),
  'known keywords': (node) => Object.keys(node).every((keyword) => ALLOWED.has(keyword)),
}

/** The nodes that break a demand. */
function faultsOf(schema: StructuralSchema, path: string): string[] {
  return [...nodesOf(schema, path)].flatMap(([place, node]) =>
    Object.entries(DEMANDS)
      .filter(([, holds]) => !holds(node))
      .map(([demand]) => `${place} lacks ${demand}`),
  )
}

const schemasOfKinds = kinds.flatMap((kind) => [
  { place: `${kind.kind}.spec`, schema: kind.spec },
  ...(kind.status ? [{ place: `${kind.kind}.status`, schema: kind.status }] : []),
])

describe('the schemas of the kinds', () => {
  test.for(schemasOfKinds)('$place is structural', ({ place, schema }) => {
    expect(faultsOf(structuralSchema(schema, place), place)).toEqual([])
  })

  test.for(schemasOfKinds)('$place describes every field', ({ place, schema }) => {
    const silent = [...nodesOf(structuralSchema(schema, place), place)]
      .filter(([, node]) => !node.description || !/^.{10,}\.$/.test(node.description))
      .map(([path]) => path)
    expect(silent).toEqual([])
  })

  test.for(schemasOfKinds)('$place bounds every text and list', ({ place, schema }) => {
    const unbounded = [...nodesOf(structuralSchema(schema, place), place)]
      .filter(
        ([, node]) =>
          (node.type === 'string' && node.maxLength === undefined && node.enum === undefined) ||
          (node.type === 'array' && node.maxItems === undefined),
      )
      .map(([path]) => path)
    expect(unbounded).toEqual([])
  })
})

/** Arbitrary schemas out of what the kinds are made of. */
const anySchema = fc.letrec<{ schema: z.ZodType }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.nat(9).map((max) => text({ max, describe: 'A text.' })),
    fc.constantFrom(z.int32(), z.int(), z.boolean(), z.number(), z.unknown(), z.enum(['a', 'b'])),
    fc.nat(5).map((bound) =>
      z
        .int32()
        .min(bound)
        .max(bound + 5)
        .default(bound),
    ),
    tie('schema').map((item) => z.array(item).max(3).meta({ 'x-kubernetes-list-type': 'atomic' })),
    tie('schema').map((value) => z.record(z.string(), value)),
    tie('schema').map((value) => z.nullable(value)),
    fc
      .dictionary(fc.stringMatching(/^[a-z]{1,4}$/), tie('schema'), { maxKeys: 4 })
      .map((shape) => z.object(shape)),
    fc
      .dictionary(fc.stringMatching(/^[a-z]{1,4}$/), tie('schema'), { maxKeys: 4 })
      .map((shape) => z.strictObject(shape).partial()),
  ),
})).schema

describe('structuralSchema', () => {
  test('is structural or refuses, whatever the schema is made of', () => {
    fc.assert(
      fc.property(anySchema, (schema) => {
        let made: StructuralSchema
        try {
          made = structuralSchema(schema, 'spec')
        } catch (error) {
          expect(error).toBeInstanceOf(NotStructuralError)
          return
        }
        expect(faultsOf(made, 'spec')).toEqual([])
      }),
    )
  })

  test.for([
    {
      given: 'a union of types',
      schema: z.object({ a: z.union([z.string(), z.int()]) }),
      want: 'spec.a: anyOf',
    },
    {
      given: 'a union of objects',
      schema: z.discriminatedUnion('t', [z.object({ t: z.literal('a') }), z.object({ t: z.literal('b') })]),
      want: 'spec: ',
    },
    { given: 'any JSON', schema: z.object({ a: z.json() }), want: 'spec: keyword definitions' },
    { given: 'a tuple', schema: z.object({ a: z.tuple([z.string()]) }), want: 'spec.a' },
    {
      given: 'look-around',
      schema: z.object({ a: z.string().regex(/^(?!x)a$/) }),
      want: 'spec.a: pattern must not contain look-around',
    },
    {
      given: 'a quote in a pattern that is put into words',
      schema: z.object({ a: text({ max: 9, pattern: /^'$/, allowed: 'a quote', describe: 'A.' }) }),
      want: 'spec.a: pattern must not contain a quote',
    },
    {
      given: 'a pattern that is unsaid, and has no words',
      schema: z.object({ a: text({ max: 9, pattern: /^a$/, patternHidden: true, describe: 'A.' }) }),
      want: 'spec.a: a hidden pattern must have a message',
    },
  ])('refuses $given, naming the place', ({ schema, want }) => {
    expect(() => structuralSchema(schema, 'spec')).toThrow(NotStructuralError)
    expect(() => structuralSchema(schema, 'spec')).toThrow(want)
  })

  test('says a pattern in a rule of the object alone where the value must not be in a refusal', () => {
    const a = text({ max: 9, pattern: /^a$/, allowed: 'a', patternHidden: true, describe: 'A.' })
    expect(structuralSchema(z.object({ a: a.optional() }), 'spec')).toEqual({
      type: 'object',
      properties: { a: { type: 'string', description: 'A.', maxLength: 9 } },
      'x-kubernetes-validations': [
        { rule: "!has(self.a) || self.a.matches(r'^a$')", message: 'must be a', fieldPath: '.a' },
      ],
    })
    expect(() => structuralSchema(a, 'spec')).toThrow('spec: a hidden pattern must be in an object')
  })

  test('says the meaning of a pattern in a rule of its own, before other rules', () => {
    const rule = { rule: 'true', message: 'never' }
    const schema = text({ max: 9, pattern: /^a\/[b]$/, allowed: 'a/b', describe: 'A.' }).meta({
      'x-kubernetes-validations': [rule],
    })
    expect(structuralSchema(schema, 'spec')).toMatchObject({
      pattern: '^a\\/[b]$',
      'x-kubernetes-validations': [{ rule: "self.matches(r'^a\\/[b]$')", message: 'must be a/b' }, rule],
    })
  })

  test.for([
    { given: 'int32', schema: z.int32(), want: { type: 'integer', format: 'int32' } },
    { given: 'safe integers', schema: z.int(), want: { type: 'integer', format: 'int64' } },
    {
      given: 'a bounded int32',
      schema: z.int32().min(1).max(8),
      want: { type: 'integer', minimum: 1, maximum: 8 },
    },
    { given: 'a counter', schema: z.int32().min(0), want: { type: 'integer', format: 'int32', minimum: 0 } },
  ])('writes the bounds of $given as limits only where they are chosen', ({ schema, want }) => {
    expect(structuralSchema(schema, 'spec')).toEqual(want)
  })

  test('lets unknown fields be pruned instead of forbidding them', () => {
    expect(structuralSchema(z.strictObject({ a: z.boolean() }), 'spec')).toEqual({
      type: 'object',
      required: ['a'],
      properties: { a: { type: 'boolean' } },
    })
  })

  test('keeps what is in a map of any JSON', () => {
    expect(structuralSchema(z.record(z.string(), z.unknown()), 'spec')).toEqual({
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
    })
  })
})
