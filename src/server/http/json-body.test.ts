import { expect, test } from 'vitest'
import { MAX_JSON_DEPTH } from '../../lib/strict-json.ts'
import { publishRoutes } from '../publish-routes.ts'
import { readJson } from './json-body.ts'
import { Problem } from './problems.ts'

function detailOf(text: string, maxDepth?: number): string | undefined {
  try {
    readJson(text, maxDepth)
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(Problem)
    expect((error as Problem).code).toBe('bad_json')
    return (error as Problem).detail
  }
}

const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

test.each([
  { given: '{"a":1}', want: undefined },
  { given: '{"a":1,"a":2}', want: 'Duplicate member "a" at line 1, column 8.' },
  { given: '{"__proto__":{}}', want: 'Forbidden member name __proto__ at line 1, column 2.' },
  { given: '{"a":{"__proto__":{}}}', want: undefined },
  { given: '{"a":\n  tru}', want: 'JSON syntax error at line 2, column 3.' },
  {
    given: nested(MAX_JSON_DEPTH + 1),
    want: 'The body is nested more than 100 levels deep (line 1, column 101).',
  },
])('the body $given is rejected with: $want', ({ given, want }) => {
  expect(detailOf(given)).toBe(want)
})

test('an event may have as many levels in a batch as alone', () => {
  const routes = publishRoutes({} as never)
  const limitOf = (id: string) => routes.find((route) => route.id === id)?.bodyDepth
  const verdicts = (depth: number) => {
    const event = `{"type":"a.b","data":${nested(depth)}}`
    const batch = detailOf(`{"events":[${event}]}`, limitOf('publishEvents'))
    return [detailOf(event, limitOf('publishEvent')), batch].map((detail) => detail === undefined)
  }
  expect([99, 100].map(verdicts)).toEqual([
    [true, true],
    [false, false],
  ])
})
