import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { containsSecret, sanitizeMessage } from './errors.ts'

describe('fitToShow', () => {
  it.each([
    {
      given: 'Rate exceeded (Service: Ssm, Status Code: 400, Request ID: 0aa-b1) ',
      want: 'Rate exceeded',
    },
    { given: 'No such role; request id: 6f1c-22', want: 'No such role' },
    { given: 'Denied. (RequestId: 6f1c22)', want: 'Denied.' },
    {
      given: 'bad Credential=ASIAXYZ/20260101/eu-west-1/ssm/aws4_request here',
      want: 'bad Credential=(omitted) here',
    },
    { given: 'the key AKIAIOSFODNN7EXAMPLE is off', want: 'the key (omitted) is off' },
    { given: `token ${'Ab3/'.repeat(80)}== is bad`, want: 'token (omitted) is bad' },
    { given: `no. Encoded authorization failure message: ${'x'.repeat(50)}`, want: 'no.' },
    {
      given:
        'does not match.\n\nThe Canonical String for this request should have been\nx-amz-security-token:abc',
      want: 'does not match.',
    },
    { given: 'one\n\ttwo\u0007three', want: 'one two three' },
    {
      given:
        'User: arn:aws:sts::111122223333:assumed-role/davit/davit-acme is not authorized to perform: ssm:PutParameter',
      want: 'User: arn:aws:sts::111122223333:assumed-role/davit/davit-acme is not authorized to perform: ssm:PutParameter',
    },
  ])('cleans: $given', ({ given, want }) => {
    expect(sanitizeMessage(given, ['another-secret'])).toBe(want)
  })

  it('is bounded, however long the words are', () => {
    expect(sanitizeMessage('no '.repeat(100_000), []).length).toBeLessThanOrEqual(400)
  })

  it('is ready at once, whatever is repeated thousands of times', () => {
    for (const piece of [' ', '\n', ' ;', '(', '[ ', 'request id', 'request id:', 'Service:', 'A', '-', '/'])
      expect(sanitizeMessage(piece.repeat(4000), []).length).toBeLessThanOrEqual(400)
  })

  it('leaves everything out that repeats a secret or a part of it', () => {
    for (const said of ['hunter2-hunter2', 'HUNTER2-HUNTER2', 'unter2', 'aHVudGVyMi1odW50ZXIy']) {
      expect(sanitizeMessage(`Value '${said}' is wrong`, ['hunter2-hunter2'])).not.toContain(said)
    }
  })

  it('is not hidden for a few letters of a long token, which any sentence may have, and for a dozen it is', () => {
    const token = `${'0123456789'.repeat(40)}pArAMeterStorE`
    expect(sanitizeMessage('What AWS says of parameters', [token])).toBe('What AWS says of parameters')
    expect(sanitizeMessage('What AWS says of parametersto', [token])).not.toContain('parameter')
    expect(sanitizeMessage('What AWS says of parameters', ['pArAMeterStorE'])).not.toContain('parameter')
  })

  it.each(['k', 'e', 'a-', 'ab', 'x1', 'ate', '$&', '.*', '[a-', '(?'])(
    'is not hidden for the short secret %j, unless the secret stands alone',
    (secret) => {
      const words = 'Rate exceeded for the key of the account; wait and repeat'
      expect(sanitizeMessage(words, [secret])).toBe(words)
      expect(sanitizeMessage(`Value '${secret}' is wrong`, [secret])).not.toContain('is wrong')
    },
  )

  it('never shows a secret, in whatever form it comes', () => {
    const forms: ((secret: string) => string)[] = [
      (secret) => secret,
      (secret) => JSON.stringify(secret),
      (secret) => encodeURIComponent(secret),
      (secret) => new URLSearchParams({ Value: secret }).toString(),
      (secret) => Buffer.from(secret).toString('base64'),
      (secret) => Buffer.from(`x${secret}y`).toString('base64'),
      (secret) => Buffer.from(`xx${secret}y`).toString('base64url'),
      (secret) => Buffer.from(secret).toString('hex'),
      (secret) => (Buffer.from(secret).toString('hex').match(/../g) ?? []).join(' '),
      (secret) => secret.slice(Math.floor(secret.length / 3)),
    ]
    const secret = fc
      .string({ unit: 'grapheme', minLength: 6, maxLength: 200 })
      .filter((text) => text.trim().length > 5)
    fc.assert(
      fc.property(secret, fc.constantFrom(...forms), fc.string({ maxLength: 50 }), (value, form, words) => {
        const shown = sanitizeMessage(`${words} ${form(value)} ${words}`, [value])
        expect(containsSecret(shown, value)).toBe(false)
      }),
      {
        numRuns: 500,
        examples: [
          ['ääääääää', forms[2] ?? String, 'x'],
          ['"\\"\\"\\"\\"', forms[1] ?? String, ''],
        ],
      },
    )
  })
})
