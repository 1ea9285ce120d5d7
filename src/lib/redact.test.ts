import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { redactFields, redactText } from './redact.ts'

const SECRET_NAMES = [
  'secret',
  'clientSecret',
  'signingSecrets',
  'authorization',
  'Authorization',
  'token',
  'accessToken',
  'key',
  'apiKey',
  'idempotencyKey',
  'payload',
  'password',
  'smtpPassword',
  'cookie',
  'webhook-signature',
  'body',
  'pass',
]

test.each(SECRET_NAMES)('the field %s is redacted at any depth, whatever it holds', (name) => {
  for (const value of ['canary', { inner: 'canary' }, ['canary'], Buffer.from('canary')]) {
    let fields: Record<string, unknown> = { [name]: value, kept: 'yes' }
    for (let depth = 0; depth < 6; depth += 1) {
      expect(JSON.stringify(redactFields(fields))).not.toContain('canary')
      expect(JSON.stringify(redactFields(fields))).toContain('yes')
      fields = depth % 2 ? { list: [fields] } : { nested: fields }
    }
  }
})

test('counts and flags stay readable', () => {
  expect(redactFields({ tokens: 3, hasSecret: true, secret: undefined, token: null })).toEqual({
    tokens: 3,
    hasSecret: true,
    token: null,
  })
})

test('the key of an object in a cache or queue stays readable, any other key does not', () => {
  expect(redactFields({ key: 'acme/billing' })).toEqual({ key: 'acme/billing' })
  for (const key of ['c2VjcmV0', 'MfKQ9r8G/KYq', 'deadbeef', 'a/b/c', 'whsec_x/y']) {
    expect(redactFields({ key })).toEqual({ key: '[redacted]' })
  }
})

test.each([
  { given: 'signed with whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw now', canary: 'MfKQ9r8G' },
  { given: 'Authorization: Bearer abcdefgh12345678', canary: 'abcdefgh' },
  { given: 'smtp://user:canary-pass@mail.example.com:587 failed', canary: 'canary-pass' },
  { given: 'token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl refused', canary: 'eyJzdWIiOiJhIn0' },
  { given: '-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----', canary: 'Y2FuYXJ5' },
])('free text loses the secret in: $given', ({ given, canary }) => {
  expect(redactText(given)).not.toContain(canary)
  expect(JSON.stringify(redactFields({ note: given, error: new Error(given) }))).not.toContain(canary)
})

test('text, lists and depth are bounded, and circles end', () => {
  expect(redactText('x'.repeat(100_000)).length).toBeLessThan(4200)
  const circle: Record<string, unknown> = { name: 'a' }
  circle.self = circle
  expect(redactFields(circle)).toEqual({ name: 'a', self: { name: 'a', self: '[circular]' } })
  expect((redactFields({ list: new Array(1000).fill(1) }).list as unknown[]).length).toBe(100)
})

test('whatever is logged, the result is JSON and holds no canary under a secret name', () => {
  fc.assert(
    fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true }), (value) => {
      const text = JSON.stringify(redactFields({ value, secret: { value, canary: 'canary-1' } }))
      expect(() => JSON.parse(text)).not.toThrow()
      expect(text).not.toContain('canary-1')
    }),
  )
})
