import { format, inspect } from 'node:util'
import { expect, test } from 'vitest'
import { SecretText } from './redact.ts'

test('a secret is shown by nothing but what asks for it', () => {
  const secret = new SecretText('canary')
  const shown = [
    `${secret}`,
    String(secret),
    JSON.stringify({ secret }),
    inspect(secret),
    inspect({ deep: [secret] }, { showHidden: true }),
    format('%s %o %O %j', secret, secret, secret, secret),
  ]
  expect(shown.filter((text) => text.includes('canary') || !text.includes('[secret]'))).toEqual([])
  expect(secret.reveal()).toBe('canary')
})
