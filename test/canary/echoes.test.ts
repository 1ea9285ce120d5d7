import { expect, test } from 'vitest'
import { sanitizeMessage } from '../../src/credentials/aws/errors.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'
import { hurtingSecrets } from './hurting-secrets.ts'
import { ENCODINGS, formsOf } from './scan/forms.ts'
import { Scanner } from './scan/scanner.ts'

const SECRETS = hurtingSecrets(new SeededRandom(31), 38)
const scanner = new Scanner(SECRETS)

function shown(words: string, secret: string): number {
  return scanner.scan(Buffer.from(sanitizeMessage(words, [secret]))).length
}

test.each(Object.keys(ENCODINGS))('a service that repeats the secret as %s is not repeated', (encoding) => {
  const leaks = SECRETS.filter((secret) => {
    const text = ENCODINGS[encoding]?.(secret) ?? ''
    // Whole, and cut as services cut what they repeat.
    const cuts = [text, text.slice(0, 60), text.slice(7, 90), text.slice(-50)]
    return cuts.some((cut) => shown(`The value '${cut}' is not valid`, secret) > 0)
  })
  expect(leaks).toEqual([])
})

test('nor in any of these inside JSON', () => {
  const leaks = SECRETS.filter((secret) =>
    formsOf(secret).some(({ bytes }) => shown(`{"message":"${bytes}"}`, secret) > 0),
  )
  expect(leaks).toEqual([])
})

test('nor as a part of the request in base64', () => {
  const leaks = SECRETS.filter((secret) =>
    ['', 'x', 'xy'].some((before) => {
      const body = JSON.stringify({ Name: `/davit/acme/rc_${before}`, Value: secret })
      return shown(`Got ${Buffer.from(body.slice(0, 90)).toString('base64')}`, secret) > 0
    }),
  )
  expect(leaks).toEqual([])
})

test('words of AWS without a secret in them are shown', () => {
  const words = 'User: arn:aws:iam::111111111111:user/davit is not authorized to perform: sts:AssumeRole'
  expect(SECRETS.filter((secret) => sanitizeMessage(words, [secret]) !== words)).toEqual([])
})
