import { describe, expect, test } from 'vitest'
import { orNull, type Schema, sectionsOf } from './nulls.ts'

describe('a value that may be left out may be null', () => {
  test.each<{ given: Schema; want: Schema }>([
    { given: { type: 'string' }, want: { type: ['string', 'null'] } },
    { given: { type: ['integer', 'string'] }, want: { type: ['integer', 'string', 'null'] } },
    {
      given: { type: 'string', enum: ['a', 'b'] },
      want: { type: ['string', 'null'], enum: ['a', 'b', null] },
    },
    {
      given: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
      want: { anyOf: [{ type: 'integer' }, { type: 'string' }, { type: 'null' }] },
    },
    {
      given: { anyOf: [{ type: 'array' }, { type: 'null' }] },
      want: { anyOf: [{ type: 'array' }, { type: 'null' }] },
    },
    {
      given: { type: 'object', additionalProperties: { type: 'string' } },
      want: { type: ['object', 'null'], additionalProperties: { type: ['string', 'null'] } },
    },
    { given: {}, want: {} },
  ])('$given', ({ given, want }) => {
    const schema = { type: 'object', properties: { value: given } }
    expect(orNull(schema)).toEqual({ type: 'object', properties: { value: want } })
  })

  test('also in the items of a list, but not the item, nor what it must have', () => {
    const item = (type: string | string[]) => ({
      type: 'object',
      properties: { name: { type: 'string' }, labels: { type } },
      required: ['name'],
    })
    const list = (type: string | string[]) => ({ type: 'array', items: item(type) })
    expect(orNull(list('object'))).toEqual(list(['object', 'null']))
  })
})

test('sections come after those that contain them, with the defaults of their own values', () => {
  const schema: Schema = {
    properties: {
      name: { default: '' },
      enabled: { type: 'boolean' },
      port: { default: null },
      config: { properties: { logLevel: { default: 'info' } } },
      api: { properties: { tls: { properties: { enabled: { default: false } } }, replicas: { default: 2 } } },
    },
  }
  expect(sectionsOf(schema)).toEqual([
    { path: [], values: { name: '' } },
    { path: ['config'], values: {} },
    { path: ['api'], values: { replicas: 2 } },
    { path: ['api', 'tls'], values: { enabled: false } },
  ])
})
