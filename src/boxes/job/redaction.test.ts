import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { redactAndShorten, redactSecrets } from './redaction.ts'

describe('the words of a tool', () => {
  it.each([
    ['a colour', '\u001b[31mred\u001b[0m', 'red'],
    ['a title that does not end', '\u001b]0;title', ''],
    ['a move in one character', 'a\u009b2Jb', 'ab'],
    ['a title', '\u001b]0;title\u0007text', 'text'],
    ['a bell and a backspace', 'a\u0007b\u0008c', 'abc'],
    ['an order to write backwards', 'a\u202eb', 'ab'],
    ['line ends', 'a\r\nb\rc', 'a\nb\nc'],
    ['half a character', 'a\ud800b', 'a\ufffdb'],
  ])('are shown without %s', (_name, given, want) => expect(redactSecrets(given, [])).toBe(want))

  it('are cut at their beginning, so that what is shown has at most 2 KB', () => {
    const words = redactAndShorten(`${'ü'.repeat(3000)} the reason`, [])
    expect(Buffer.byteLength(words)).toBeLessThanOrEqual(2048)
    expect(words).toMatch(/^…ü+ the reason$/)
  })

  const secret = fc
    .string({ minLength: 6, maxLength: 40, unit: 'grapheme' })
    .filter((text) => !/^[\s]*$/.test(text) && text.isWellFormed())
  const before = fc.string({ maxLength: 10 })
  const forms: Readonly<Record<string, (secret: string, before: string) => string>> = {
    plain: (text) => text,
    json: (text) => JSON.stringify(text),
    'json within json': (text) => JSON.stringify(JSON.stringify(text)),
    'json of Go': (text) =>
      JSON.stringify(text).replace(/[<>&]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`),
    url: (text) => encodeURIComponent(text),
    'url in small letters': (text) => encodeURIComponent(text).replace(/%../g, (code) => code.toLowerCase()),
    form: (text) => new URLSearchParams({ password: text }).toString(),
    hex: (text) => Buffer.from(text).toString('hex'),
    'hex in capitals': (text) => Buffer.from(text).toString('hex').toUpperCase(),
    base64: (text) => Buffer.from(text).toString('base64'),
    'a login in base64': (text, user) => Buffer.from(`${user}:${text}`).toString('base64'),
    'a login in base64 for URLs': (text, user) => Buffer.from(`${user}:${text}`).toString('base64url'),
  }
  for (const [name, form] of Object.entries(forms))
    it(`have no secret in the form of ${name}`, () => {
      fc.assert(
        fc.property(secret, before, (text, user) => {
          fc.pre(!/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text))
          const shown = redactSecrets(`time="now" msg="it said ${form(text, user)} and more"`, [text])
          expect(shown).toContain('[secret]')
        }),
      )
    })

  it.each([
    ['begins', '\u001b'],
    ['begins with a colour', '\u001b['],
    ['is in a title', '\u001b]0;'],
  ])('have no secret that %s as a sequence of terminals does', (_how, start) => {
    expect(redactSecrets(`it said ${start}AKIA4711canary and more`, ['AKIA4711canary'])).not.toContain('4711')
  })

  it('of a short secret hide it where it stands alone', () => {
    expect(redactSecrets('an abc, and abcd', ['abc'])).toBe('an [secret], and abcd')
  })
})
