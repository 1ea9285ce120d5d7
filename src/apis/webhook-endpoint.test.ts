import { expect, test } from 'vitest'
import { createUrlPolicy } from '../net/egress-policy.ts'
import { webhookEndpointSpec } from './webhook-endpoint.ts'

const policy = createUrlPolicy({ allowed: ['10.0.0.0/8'] })

/** What the schema has against a URL. */
function objectionTo(url: string): string | undefined {
  const { error } = webhookEndpointSpec.safeParse({ url, eventTypes: ['*'] })
  return error?.issues.map(({ message }) => message).join('; ')
}

test.each([
  'https://h.example/x',
  'HTTPS://h.example/x',
  'Https://h.example/x',
  'hTTpS://h.example/x',
  'HTTP://10.0.0.1/x',
  'Http://10.0.0.1',
  'https://H.EXAMPLE/x',
  'https://h.example./x',
  'HTTPS://H.EXAMPLE.:8443?a',
  'https://[2001:db8::1]/x',
])('the schema takes %s, as what parses the URL does', (url) => {
  expect(objectionTo(url)).toBeUndefined()
  expect(URL.canParse(url)).toBe(true)
})

test.each(['ftp://x', 'x', '', 'http:', 'ws://h', 'HTTPS', 'ftps://h.example/x', 'HTTPSS://h.example/x'])(
  'the schema says what a URL must be, and not how long, to %j',
  (url) => {
    expect(objectionTo(url)).toMatch(/^must be an https URL such as/)
    expect(policy.check(url).ok).toBe(false)
  },
)

test('the message for a URL that is too long states the limit', () => {
  expect(objectionTo(`https://h.example/${'x'.repeat(2048)}`)).toBe('must be at most 2048 characters')
})
