/** Redaction holds for secrets of a few characters, and for characters that have a meaning in patterns. */
import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { SecretText } from '../../lib/redact.ts'
import { redactSecrets, SecretRedactor } from './redaction.ts'

const SHORT = [
  'a-b',
  '-',
  '---',
  '^',
  '$',
  '.',
  '.*',
  '(?',
  '[a-',
  ']',
  '{1}',
  '\\',
  '\\d',
  'a|b',
  '/',
  '$&',
  '$1-',
  'é-',
  '\u{1f511}',
]

describe('a secret of one to three characters', () => {
  it.each(SHORT)('%j is hidden where it stands alone, and is no pattern', (secret) => {
    expect(redactSecrets(`it said «${secret}» and "1 + 1 is 2"`, [secret])).toBe(
      'it said «[secret]» and "1 + 1 is 2"',
    )
  })

  it('is hidden in the header of a login', () => {
    const redactor = new SecretRedactor()
    redactor.addLogin({ username: 'bot', password: new SecretText('a-b') })
    const header = `Basic ${Buffer.from('bot:a-b').toString('base64')}`
    expect(redactor.redact(`sent ${header}, user bot`)).toBe('sent Basic [secret]==, user bot')
  })
})

describe('a secret of four to seven characters', () => {
  it.each(['a-bc', 'a.*c', '$&$&', '(?:x)', '[^a]b', '\\u{1}', 'p|q|r|s', 'x{1,2}y'])(
    '%j is hidden also within a word, and is no pattern',
    (secret) => {
      expect(redactSecrets(`x${secret}x and 1 + 1`, [secret])).toBe('x[secret]x and 1 + 1')
    },
  )

  it.each(['secret', 'ecre', '[secret', 'cret]'])(
    '%j is hidden once, though the placeholder contains it',
    (secret) => {
      const once = redactSecrets(`it said «${secret}» to ghcr.io`, [secret])
      expect(once).toBe('it said «[secret]» to ghcr.io')
      expect(redactSecrets(once, [secret])).toBe(once)
    },
  )
})

it('any short secret is hidden where it stands alone, next to any other secret', () => {
  const special = fc.constantFrom(...'-^$.*+?()[]{}|\\/&a1é')
  const short = fc
    .oneof(
      fc.string({ minLength: 1, maxLength: 7, unit: 'grapheme' }),
      fc.string({ minLength: 1, maxLength: 7, unit: special }),
    )
    .filter((text) => text.trim() === text && !/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u.test(text))
  fc.assert(
    fc.property(short, short, (secret, other) => {
      expect(redactSecrets(`«${secret}»`, [secret, other])).not.toBe(`«${secret}»`)
    }),
  )
})
