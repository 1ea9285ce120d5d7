import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text } from '../../src/apis/meta.ts'
import { structuralSchema } from './crd.ts'
import { fieldRows } from './field-rows.ts'

function rowsOf(shape: Record<string, z.ZodType>) {
  return fieldRows(structuralSchema(z.object(shape), 'spec'))
}

describe('fieldRows', () => {
  test('tells type, default, meaning and rules of a field', () => {
    const count = z.int32().min(1).max(32).default(8).meta({ description: 'How many at a time.' })
    expect(rowsOf({ count })).toEqual([
      { path: 'count', type: 'integer', default: 8, description: 'How many at a time.', rules: ['1 to 32'] },
    ])
  })

  test.for([
    {
      given: 'a bounded text',
      field: text({ min: 1, max: 2048, describe: 'A.' }),
      type: 'string',
      rules: ['1 to 2,048 characters'],
    },
    {
      given: 'a text of one length',
      field: text({ min: 30, max: 30, describe: 'A.' }),
      type: 'string',
      rules: ['30 characters'],
    },
    {
      given: 'a pattern',
      field: text({ max: 9, pattern: /^a|b$/, describe: 'A.' }),
      type: 'string',
      rules: ['at most 9 characters', 'matches `^a|b$`'],
    },
    {
      given: 'a pattern in words',
      field: text({ max: 9, pattern: /^a$/, allowed: 'an a', describe: 'A.' }),
      type: 'string',
      rules: ['at most 9 characters', 'must be an a'],
    },
    {
      given: 'a pattern that is a rule of the object',
      field: text({ max: 9, pattern: /^a$/, allowed: 'an a', patternHidden: true, describe: 'A.' }),
      type: 'string',
      rules: ['at most 9 characters', 'must be an a'],
    },
    { given: 'a choice', field: z.enum(['on', 'off']), type: '`on` or `off`', rules: [] },
    { given: 'any JSON', field: z.unknown(), type: 'any JSON', rules: [] },
    {
      given: 'a list',
      field: z
        .array(text({ max: 9, describe: 'A.' }))
        .min(1)
        .max(100),
      type: 'list of strings',
      rules: ['1 to 100 items', 'each: at most 9 characters'],
    },
    { given: 'a counter', field: z.int32().min(0), type: 'integer', rules: ['at least 0'] },
  ])('puts $given into words', ({ field, type, rules }) => {
    expect(rowsOf({ field: field.optional() })[0]).toMatchObject({ type, rules })
  })

  test('marks what is required and goes into objects and lists of objects', () => {
    const inner = z.object({ name: z.boolean() })
    expect(
      rowsOf({ one: inner.optional(), many: z.array(inner) }).map(({ path, rules }) => [path, rules]),
    ).toEqual([
      ['one', []],
      ['one.name', ['required']],
      ['many', ['required']],
      ['many[].name', ['required']],
    ])
  })
})
