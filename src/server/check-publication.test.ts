import { expect, test } from 'vitest'
import type { EventType } from '../apis/event-type.ts'
import { INSTANT_ALLOWED } from '../apis/meta.ts'
import { createSchemaValidator } from '../lib/json-schema.ts'
import { Problem, type ProblemPlace } from './http/problems.ts'
import { checkPublication } from './publishing.ts'

const types = new Map<string, Record<string, unknown> | undefined>([
  ['a.b', { type: 'object', properties: { count: { type: 'integer' } } }],
  ['any.thing', undefined],
  ['broken.schema', { type: 'no such type' }],
  ['draft.seven', { $schema: 'http://json-schema.org/draft-07/schema#' }],
  ['bad.pattern', { pattern: '(' }],
  ['lost.reference', { $ref: '#/$defs/none' }],
  ['webhook.ping', undefined],
])

const rules = {
  clock: { now: () => Date.parse('2026-01-31T12:00:00.000Z') },
  validator: createSchemaValidator(),
  catalogue: {
    get: (name: string): EventType | undefined => {
      if (!types.has(name)) return undefined
      const schema = types.get(name)
      const metadata = { name, uid: 'uid', resourceVersion: '1' }
      return { metadata, spec: { description: name, deprecated: false, ...(schema ? { schema } : {}) } }
    },
  },
}

function placesOf(type: string, dataText: string, timestamp?: string): readonly ProblemPlace[] {
  try {
    checkPublication(rules, { type, dataText, timestamp })
    return []
  } catch (error) {
    if (error instanceof Problem && error.code === 'invalid') return error.errors ?? []
    throw error
  }
}

test.each([
  { why: 'data that fits', type: 'a.b', dataText: '{"count":1}', want: [] },
  { why: 'a number in any notation', type: 'a.b', dataText: '{"count":1.0}', want: [] },
  { why: 'anything where there is no schema', type: 'any.thing', dataText: 'null', want: [] },
  { why: 'a wrong field', type: 'a.b', dataText: '{"count":"x"}', want: ['/data/count'] },
  { why: 'data of a wrong kind', type: 'a.b', dataText: '[]', want: ['/data'] },
  { why: 'a type that nobody knows', type: 'no.such', dataText: '{}', want: ['/type'] },
  { why: "a type of Davit's own", type: 'webhook.ping', dataText: '{}', want: ['/type'] },
  { why: 'a type whose schema is none', type: 'broken.schema', dataText: '{}', want: ['/type'] },
  { why: 'text that is not JSON', type: 'a.b', dataText: '{', want: ['/data'] },
  { why: 'too much', type: 'any.thing', dataText: `"${'x'.repeat(262_144)}"`, want: ['/data'] },
])('$why: the places that are wrong are $want', ({ type, dataText, want }) => {
  expect(placesOf(type, dataText).map(({ pointer }) => pointer)).toEqual(want)
})

test('what is said of a place is for people who call REST', () => {
  const messages = ['no.such', 'webhook.ping'].map((type) => placesOf(type, '{}')[0]?.message)
  expect(messages).toEqual([
    'EventType no.such does not exist',
    'the prefix "webhook." is reserved for events that Davit publishes',
  ])
})

test.each([
  { type: 'broken.schema', why: 'schema/type must be equal to one of the allowed values' },
  {
    type: 'draft.seven',
    why: '$schema must be https://json-schema.org/draft/2020-12/schema, or absent, but is',
  },
  { type: 'bad.pattern', why: 'the pattern /(/u is invalid: Unterminated group' },
  { type: 'lost.reference', why: 'the reference #/$defs/none cannot be resolved in the schema' },
])('publishers are told why the schema of $type cannot be used: $why', ({ type, why }) => {
  const [place] = placesOf(type, '{}')
  expect(place).toEqual({ pointer: '/type', message: expect.stringContaining(why) })
  expect(place?.message).toContain(`the schema of EventType ${type} cannot be used`)
  expect(place?.message).toContain('ask your cluster operator')
})

test.each([
  { timestamp: '2026-01-31T13:05:00+01:00', want: [] },
  { timestamp: '1999-12-31t23:59:59.123456z', want: [] },
  { timestamp: '2026-01-31T12:05:00.001Z', want: ['must be at most five minutes in the future'] },
  { timestamp: '2026-02-30T12:00:00Z', want: [INSTANT_ALLOWED] },
  { timestamp: '0000-01-01T00:00:00+23:00', want: [INSTANT_ALLOWED] },
  { timestamp: '2026-01-31', want: [INSTANT_ALLOWED] },
])('an event of $timestamp: $want', ({ timestamp, want }) => {
  expect(placesOf('any.thing', '1', timestamp)).toEqual(
    want.map((message) => ({ pointer: '/timestamp', message })),
  )
})
