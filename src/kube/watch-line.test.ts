import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { parseJson } from '../lib/json.ts'
import { parseLine } from './watch-stream.ts'

function told(line: string) {
  return parseLine(Buffer.from(line), parseJson)
}

describe('a deletion', () => {
  const text = fc.oneof(fc.string(), fc.constantFrom(',"spec":', '"spec"', '}}', 'spec', 'a\\b', '"'))
  const inside = fc.dictionary(
    fc.constantFrom('spec', 'f:spec', 'metadata', 'note'),
    fc.oneof(text, fc.dictionary(text, text)),
  )

  it('is read up to the spec, whatever its metadata looks like, and is told with all of its metadata', () => {
    const metadata = fc.record({
      name: fc.constant('a'),
      annotations: fc.dictionary(text, text),
      managedFields: inside,
    })
    fc.assert(
      fc.property(metadata, inside, inside, (metadata, spec, status) => {
        const object = { apiVersion: 'v1', kind: 'Thing', metadata, spec, status }
        expect(told(JSON.stringify({ type: 'DELETED', object }))).toMatchObject({
          type: 'DELETED',
          object: { kind: 'Thing', metadata: parseJson(JSON.stringify(metadata)) },
        })
      }),
    )
  })

  it('is told though its spec is never looked at', () => {
    const line = '{"type":"DELETED","object":{"metadata":{"name":"a"},"spec":{whatever}}}'
    expect(told(line)).toEqual({ type: 'DELETED', object: { metadata: { name: 'a' } } })
  })

  it('is read whole where it is sent in another order, or without a spec', () => {
    const whole = [
      { spec: { a: 1 }, metadata: { name: 'a' } },
      { metadata: { name: 'a' }, data: { spec: '1' } },
      { kind: 'Thing', spec: { spec: {} }, metadata: { name: 'a' } },
    ]
    expect(whole.map((object) => told(JSON.stringify({ type: 'DELETED', object })))).toEqual(
      whole.map((object) => ({ type: 'DELETED', object })),
    )
  })

  it('that is no JSON, or has no metadata, is an error, as any other such line is', () => {
    for (const line of [
      '{"type":"DELETED","object":{"metadata":{"name":}},"spec":{}}}',
      '{"type":"DELETED","spec":{}}',
    ])
      expect(told(line)).toMatchObject({ message: expect.stringContaining('invalid watch event') })
  })
})

describe('who owns which fields', () => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom(
      '"managedFields":[',
      '}],"name":"',
      ',"spec":',
      '[{}]',
      'managedFields',
      'a"b',
      'a\\b',
      '"',
    ),
  )
  const owned = fc.array(
    fc.record({
      apiVersion: fc.constant('davit.dev/v1alpha1'),
      fieldsType: fc.constant('FieldsV1'),
      fieldsV1: fc.dictionary(
        fc.constantFrom('f:spec', 'f:name', 'k:{"name":"x"}', '.', 'f:managedFields'),
        fc.dictionary(fc.constantFrom('f:spec', 'f:name', 'v:"]}"'), fc.constant({})),
      ),
      manager: text,
    }),
    { minLength: 1 },
  )
  /** As the API server sends it: fields in the order of their names. */
  const metadata = fc.record({
    annotations: fc.dictionary(text, text),
    labels: fc.dictionary(text, text),
    managedFields: owned,
    name: fc.constant('a'),
    resourceVersion: fc.constant('7'),
  })
  const inside = fc.dictionary(text, fc.oneof(text, fc.array(fc.dictionary(text, text))))
  const type = fc.constantFrom('ADDED' as const, 'MODIFIED' as const)

  it('is not read of what is ours, and all else is, whatever it looks like', () => {
    fc.assert(
      fc.property(type, metadata, inside, inside, (type, { managedFields, ...rest }, spec, status) => {
        const { annotations, labels, ...others } = rest
        const sent = { annotations, labels, managedFields, ...others }
        const object = { apiVersion: 'davit.dev/v1alpha1', kind: 'Thing', metadata: sent, spec, status }
        const line = JSON.stringify({ type, object })
        const bytes = Buffer.byteLength(line)
        const want = parseJson(JSON.stringify({ ...object, metadata: rest }))
        expect(told(line)).toEqual({ type, object: want, bytes })
      }),
    )
  })

  it.each([
    { what: 'of another group', apiVersion: 'v1', metadata: { managedFields: [{}], name: 'a' }, spec: {} },
    {
      what: 'in another order',
      apiVersion: 'davit.dev/v1alpha1',
      metadata: { name: 'a', managedFields: [{ manager: 'kubectl' }] },
      spec: { containers: [{ env: [{ value: 'b' }], name: 'c' }], name: 'd' },
    },
    {
      what: 'with one of that name in its spec',
      apiVersion: 'davit.dev/v1alpha1',
      metadata: { name: 'a' },
      spec: { managedFields: [{ a: 'b' }] },
    },
    {
      what: 'without any in its metadata, and with an example that has some',
      apiVersion: 'davit.dev/v1alpha1',
      metadata: { name: 'a' },
      spec: { example: { metadata: { managedFields: [{ manager: 'kubectl' }], name: 'x' } } },
    },
    {
      what: 'without any in its metadata, and with an example whose brackets do not match from there on',
      apiVersion: 'davit.dev/v1alpha1',
      metadata: { name: 'a' },
      spec: { example: { managedFields: [], x: { items: [{ z: 1 }], name: 'v' } } },
    },
    {
      what: 'without a spec',
      apiVersion: 'davit.dev/v1alpha1',
      metadata: { name: 'a', 'x"managedFields': [{ items: [{}], name: 'v' }] },
    },
  ])('is read of what is $what', ({ what: _, ...object }) => {
    expect(told(JSON.stringify({ type: 'ADDED', object }))).toMatchObject({ object })
  })
})
