import { expect, test } from 'vitest'
import { expiryOf, readApiKey } from './auth.ts'
import type { Problem } from './problems.ts'

const KEY = 'eyJh.eyJz.c2ln'

function problemOf(...rawHeaders: string[]): Problem {
  try {
    readApiKey(rawHeaders)
  } catch (error) {
    return error as Problem
  }
  throw new Error('it was taken')
}

test('the value of Authorization alone is the key', () => {
  expect(readApiKey(['Host', 'x', 'aUTHORIZATION', KEY])).toBe(KEY)
})

test.each([
  { given: ['Host', 'x'], code: 'unauthenticated', detail: 'The Authorization header is missing.' },
  { given: ['Authorization', ''], code: 'unauthenticated', detail: 'The Authorization header is missing.' },
  {
    given: ['Authorization', KEY, 'authorization', KEY],
    code: 'bad_request',
    detail: 'The Authorization header must appear only once.',
  },
  ...['Bearer', 'bearer', 'Basic', 'Token', 'ApiKey'].map((word) => ({
    given: ['Authorization', `${word} ${KEY}`],
    code: 'unauthenticated',
    detail:
      'Send only the API token as the value of the Authorization header, without a prefix such as Bearer.',
  })),
  ...['garbage', `${KEY}.x`, `${KEY} `, `${KEY}\t`, 'a..b', 'a.b.\u00e9', `a.b.${'c'.repeat(9_000)}`].map(
    (value) => ({
      given: ['Authorization', value],
      code: 'unauthenticated',
      // The same for all, so that it tells nothing of any.
      detail:
        'The API token must be an unexpired ServiceAccount token for the audience davit. Create one with: kubectl create token NAME --audience davit',
    }),
  ),
])('$given.1 is refused without asking anybody', ({ given, code, detail }) => {
  const problem = problemOf(...given)
  expect(problem.code).toBe(code)
  expect(problem.detail).toBe(detail)
  if (code === 'unauthenticated') expect(problem.headers).toHaveProperty('www-authenticate')
})

test('a key says itself when it ends', () => {
  const key = (claims: unknown) => `a.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.b`
  expect(expiryOf(key({ exp: 1_700_000_000 }))).toBe(1_700_000_000_000)
  for (const claims of [{}, null, 1, { exp: 'soon' }])
    expect(expiryOf(key(claims))).toBe(Number.POSITIVE_INFINITY)
  expect(expiryOf('a.%.b')).toBe(Number.POSITIVE_INFINITY)
})
