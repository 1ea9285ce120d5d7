/** The data of a WebhookEvent is read as strictly as that of a request to the REST API. */
import { beforeEach, describe, expect, test } from 'vitest'
import { type EventsBed, startEventsBed } from '../../../test/support/events-bed.ts'
import { eventType } from '../../apis/event-type.ts'
import { readStrictJson } from '../../lib/strict-json.ts'
import { dataOf, readData } from './plan.ts'

/** As REST reads an event that is published alone. */
const restTakes = (text: string) => {
  const { json } = readStrictJson(`{"type":"a.b","data":${text}}`, { maxDepth: 100, forbidden: '__proto__' })
  return json !== undefined
}
const taken = (dataText: string) => readData({ field: 'dataText', text: dataText }).refusal === undefined
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

test.each([
  ['{"a":1,"b":[1.0,9007199254740993]}'],
  ['null'],
  ['{"a":1,"a":2}'],
  ['{"a":{"b":1,"\\u0062":2}}'],
  ['[{"x":1},{"x":1}]'],
  ['{"__proto__":1}'],
  [nested(99)],
  [nested(100)],
  [nested(500)],
  ['{"a":'.repeat(40_000)],
  ['"\\ud800"'],
  ['{"\\ud800":"\\udc00"}'],
  ['{"\\ud800":1,"\\ud800":2}'],
  ['{"a":1,}'],
  ['{"a":01}'],
  ['\u00a0{}'],
  ['\ufeff{}'],
  ['{} // comment'],
  [' \t\r\n{} \n'],
])('REST and dataText give one verdict: %j', (text) => {
  expect(taken(text)).toBe(restTakes(text))
})

test.each([
  { text: '{"a":1,"a":2}', want: ['InvalidData', 'duplicate member "a" at line 1, column 8.'] },
  { text: '{"x":[{"b":1,\n"b":2}]}', want: ['InvalidData', 'duplicate member "b" at line 2, column 1.'] },
  { text: nested(500), want: ['InvalidData', 'nested more than 99 levels deep (line 1, column 100).'] },
  { text: '{"a":1,}', want: ['NotJson', 'JSON syntax error at line 1, column 8.'] },
  { text: '\n\n  {"a":\n  tru}', want: ['NotJson', 'JSON syntax error at line 4, column 3.'] },
  { text: "{'a':1}", want: ['NotJson', 'JSON syntax error at line 1, column 2.'] },
  { text: 'hello', want: ['NotJson', 'JSON syntax error at line 1, column 1.'] },
])('dataText is rejected with the place: $want', ({ text, want: [reason, words] }) => {
  expect(readData({ field: 'dataText', text }).refusal).toEqual({
    reason,
    message: expect.stringMatching(/^spec\.dataText is /),
  })
  expect(readData({ field: 'dataText', text }).refusal?.message).toContain(words)
})

test.each([
  { spec: {}, want: 'DataRequired' },
  { spec: { data: null }, want: 'DataRequired' },
  { spec: { data: {}, dataText: '{}' }, want: 'DataAmbiguous' },
  { spec: { data: false, dataText: 'null' }, want: 'DataAmbiguous' },
  { spec: { data: 0 }, want: undefined },
  { spec: { data: '' }, want: undefined },
  { spec: { data: false }, want: undefined },
  { spec: { data: null, dataText: 'null' }, want: undefined },
])('$spec is $want', ({ spec, want }) => {
  const found = dataOf(spec)
  expect('reason' in found ? found.reason : undefined).toBe(want)
  if ('reason' in found) for (const field of ['data', 'dataText']) expect(found.message).toContain(field)
})

describe('the controller', () => {
  let bed: EventsBed
  beforeEach(async () => {
    bed = await startEventsBed()
  })
  const readyOf = async (name: string) =>
    (await bed.statusOf(name))?.conditions?.find(({ type }) => type === 'Ready')
  const dataOfDepth = (depth: number): unknown => JSON.parse(nested(depth))

  test.each([
    { what: 'a member twice', spec: { dataText: '{"a":1,"a":2}' }, reason: 'InvalidData' },
    { what: '500 levels of text', spec: { dataText: nested(500) }, reason: 'InvalidData' },
    {
      what: '500 levels of data',
      spec: { dataText: undefined, data: dataOfDepth(500) },
      reason: 'InvalidData',
    },
    { what: 'both fields', spec: { data: {} }, reason: 'DataAmbiguous' },
    { what: 'no field', spec: { dataText: undefined }, reason: 'DataRequired' },
    { what: 'text that is no JSON', spec: { dataText: '{"a":1,}' }, reason: 'NotJson' },
  ])('rejects $what, and goes on with the next event', async ({ spec, reason }) => {
    await bed.publish('odd', spec)
    await bed.publish('next')
    await bed.reconciler.reconcile('acme')
    expect([await bed.stateOf('odd'), await bed.stateOf('next')]).toEqual(['refused', 'accepted'])
    expect(await readyOf('odd')).toMatchObject({ status: 'False', reason })
  })

  test('sends what it accepts as it was written, without the spaces around it', async () => {
    await bed.publish('text', { dataText: ' \n{"a": "\\ud800", "b":1.0}\r\n' })
    await bed.reconciler.reconcile('acme')
    expect(bed.bodies[0]).toContain('"data":{"a": "\\ud800", "b":1.0}}')
  })

  test.each([
    { schema: { $schema: 'http://json-schema.org/draft-07/schema#' }, want: '$schema must be' },
    { schema: { pattern: '(' }, want: 'the pattern /(/u is invalid' },
    { schema: { $ref: '#/$defs/none' }, want: 'cannot be resolved in the schema' },
  ])('says why the schema of a type cannot be used: $want', async ({ schema, want }) => {
    const metadata = { name: 'build.finished', uid: 'u', resourceVersion: '1' }
    bed.catalogue.apply(eventType.parse({ metadata, spec: { description: 'A build.', schema } }))
    await bed.publish('built', { type: 'build.finished' })
    await bed.reconciler.reconcile('acme')
    expect(await readyOf('built')).toMatchObject({
      reason: 'SchemaInvalid',
      message: expect.stringContaining(want),
    })
  })
})

test('data that is nested deeper than its text can be written is rejected, and throws nothing', () => {
  let data: unknown = 1
  for (let depth = 0; depth < 20_000; depth += 1) data = [data]
  expect(dataOf({ data })).toEqual({
    reason: 'InvalidData',
    message: 'spec.data is nested more than 99 levels deep.',
  })
})
