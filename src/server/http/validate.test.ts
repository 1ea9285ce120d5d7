import { expect, test } from 'vitest'
import { z } from 'zod'
import { endpointChange, endpointDraft } from '../endpoint-resource.ts'
import type { Problem } from './problems.ts'
import { validateBody, validateQuery } from './request.ts'

function errorsOf(run: () => unknown) {
  try {
    run()
  } catch (error) {
    expect(error).toMatchObject({ code: 'invalid' })
    return (error as Problem).errors
  }
  return []
}

const url = 'https://example.com/hooks'

test.each([
  {
    given: {},
    want: [
      ['/url', 'is required'],
      ['/eventTypes', 'is required'],
    ],
  },
  { given: [], want: [['', 'must be an object']] },
  { given: null, want: [['', 'must be an object']] },
  { given: { url: 1, eventTypes: ['*'] }, want: [['/url', 'must be a string']] },
  { given: { url, eventTypes: 'a' }, want: [['/eventTypes', 'must be an array']] },
  { given: { url, eventTypes: [] }, want: [['/eventTypes', 'must have at least 1 item']] },
  { given: { url, eventTypes: ['*', 1] }, want: [['/eventTypes/1', 'must be a string']] },
  { given: { url, eventTypes: ['*'], ordered: 'yes' }, want: [['/ordered', 'must be a boolean']] },
  { given: { url, eventTypes: ['*'], concurrency: 1.5 }, want: [['/concurrency', 'must be a whole number']] },
  { given: { url, eventTypes: ['*'], concurrency: 33 }, want: [['/concurrency', 'must be at most 32']] },
  { given: { url, eventTypes: ['*'], concurrency: 0 }, want: [['/concurrency', 'must be at least 1']] },
  { given: { url, eventTypes: ['*'], description: null }, want: [['/description', 'must be a string']] },
  {
    given: { url, eventTypes: ['*'], description: '\ud83d' },
    want: [['/description', 'must not contain an unpaired surrogate']],
  },
  {
    given: { url: `${url}/\udc00`, eventTypes: ['*'] },
    want: [['/url', 'must not contain an unpaired surrogate']],
  },
  {
    given: { url, eventTypes: ['*'], 'a/b~c': 1, status: 'enabled' },
    want: [
      ['/a~1b~0c', 'is not a recognized field'],
      ['/status', 'is not a recognized field'],
    ],
  },
  {
    given: { url, eventTypes: ['*'], ghp_abcdefghijklmnopqrstuvwxyz0123456789: '' },
    want: [['', 'must not contain unknown fields']],
  },
])('each place that is wrong in $given is named', ({ given, want }) => {
  const errors = errorsOf(() => validateBody(endpointDraft, given))
  expect(errors?.map(({ pointer, message }) => [pointer, message])).toEqual(want)
})

test('a description is counted in code points', () => {
  const draft = (description: string) =>
    errorsOf(() => validateBody(endpointDraft, { url, eventTypes: ['*'], description }))
  expect(draft('😀'.repeat(200))).toEqual([])
  expect(draft('😀'.repeat(201))).toEqual([
    { pointer: '/description', message: 'must be at most 200 characters' },
  ])
})

test('a change holds what was sent and nothing else', () => {
  expect(validateBody(endpointChange, {})).toEqual({})
  expect(validateBody(endpointChange, { description: null, status: 'disabled' })).toEqual({
    description: null,
    status: 'disabled',
  })
})

test('parameters are named without a pointer', () => {
  const schema = z.strictObject({ status: z.enum(['a', 'b']).optional() })
  expect(errorsOf(() => validateQuery(schema, { status: 'c', limt: '1' }))).toEqual([
    { pointer: 'status', message: 'must be "a" or "b"' },
    { pointer: 'limt', message: 'is not a recognized parameter' },
  ])
})

test('of more than two values, a list is named', () => {
  const schema = z.strictObject({ status: z.enum(['a', 'b', 'c']) })
  expect(errorsOf(() => validateQuery(schema, { status: 'd' }))).toEqual([
    { pointer: 'status', message: 'must be one of "a", "b", "c"' },
  ])
})

test('of very many mistakes the first twenty are named', () => {
  const body = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`x${index}`, 1]))
  expect(errorsOf(() => validateBody(endpointChange, body))).toHaveLength(20)
})
