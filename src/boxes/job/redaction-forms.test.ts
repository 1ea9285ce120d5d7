/** Each form of a secret goes whole, and nothing else with it. */

import { describe, expect, it } from 'vitest'
import { MAX_TOOL_WORDS } from '../../apis/bake.ts'
import { redactAndShorten, redactSecrets } from './redaction.ts'

const SECRET = `p&s<w>"o'r\\d +/é`

describe('a secret in the words of a tool', () => {
  it.each([
    ['as it is', SECRET],
    ['quoted', String.raw`p&s<w>\"o'r\\d +/é`],
    ['quoted twice', String.raw`p&s<w>\\\"o'r\\\\d +/é`],
    ['quoted by Go', String.raw`p\u0026s\u003cw\u003e\"o'r\\d +/é`],
    ['quoted twice by Go', String.raw`p\\u0026s\\u003cw\\u003e\\\"o'r\\\\d +/é`],
    ['in a part of a URL', `p%26s%3Cw%3E%22o'r%5Cd%20%2B%2F%C3%A9`],
    ['in a part of a URL, in small letters', `p%26s%3cw%3e%22o'r%5cd%20%2b%2f%c3%a9`],
    ['in a URL', `p&s%3Cw%3E%22o'r%5Cd%20+/%C3%A9`],
    ['in a form', 'p%26s%3Cw%3E%22o%27r%5Cd+%2B%2F%C3%A9'],
    ['in a page', `p&amp;s&lt;w&gt;&quot;o'r\\d +/é`],
    ['in a page of Go', String.raw`p&amp;s&lt;w&gt;&#34;o&#39;r\d +/é`],
    ['in hexadecimal', '7026733c773e226f27725c64202b2fc3a9'],
    ['in hexadecimal capitals', '7026733C773E226F27725C64202B2FC3A9'],
  ])('goes whole %s', (_, form) => {
    expect(redactSecrets(`it said ${form} and ${form}.`, [SECRET])).toBe('it said [secret] and [secret].')
  })

  const places = [12, 13, 14].flatMap((length) => [0, 1, 2, 3].map((before) => [length, before] as const))
  it.each(places)(
    'of %i bytes, %i bytes behind the beginning of a base64, goes but for what it shares',
    (length, before) => {
      // Its bytes make every character of base64 likely, also those that URLs have others for.
      const secret = Array.from({ length }, (_, n) => String.fromCodePoint(0x3e + (n % 4))).join('')
      const all = Buffer.from(`${'x'.repeat(before)}${secret}tail`)
      for (const encoding of ['base64', 'base64url'] as const) {
        const text = all.toString(encoding)
        const [first, last] = [Math.ceil((before * 4) / 3), Math.floor(((before + length) * 4) / 3)]
        const left = `${text.slice(0, first)}[secret]${text.slice(last)}`
        expect(redactSecrets(text, [secret])).toBe(left)
      }
    },
  )

  it('goes whole where another one is its beginning', () => {
    expect(redactSecrets('abcdef and abcd', ['abcd', 'abcdef'])).toBe('[secret] and [secret]')
  })

  it('of four characters goes in the middle of a word, one of three does not', () => {
    expect(redactSecrets('xabcdx', ['abcd'])).toBe('x[secret]x')
    expect(redactSecrets('xabcx', ['abc'])).toBe('xabcx')
  })

  it('that is short is no pattern', () => {
    expect(redactSecrets('abc a.c', ['a.c'])).toBe('abc [secret]')
    expect(redactSecrets('a b', ['(+)'])).toBe('a b')
  })

  it('of no characters hides nothing', () => {
    expect(redactSecrets('some words', [''])).toBe('some words')
  })
})

describe('the end of the words of a tool', () => {
  it('is all of them where they fit', () => {
    const words = 'a'.repeat(MAX_TOOL_WORDS)
    expect(redactAndShorten(` ${words}\n`, [])).toBe(words)
  })

  it('is the last of them where they do not', () => {
    const words = `begin${'a'.repeat(MAX_TOOL_WORDS)}end`
    expect(redactAndShorten(words, [])).toBe(`…${words.slice(-(MAX_TOOL_WORDS - 3))}`)
  })

  it.each([1, 2, 3, 4])(
    'begins with a whole character, where the cut would be %i bytes after one begins',
    (shift) => {
      const words = redactAndShorten(`${'\u{1f600}'.repeat(MAX_TOOL_WORDS)}${'a'.repeat(shift)}`, [])
      expect(words).toMatch(/^…(\u{1f600})+a+$/u)
      expect(Buffer.byteLength(words)).toBeGreaterThan(MAX_TOOL_WORDS - 4)
      expect(Buffer.byteLength(words)).toBeLessThanOrEqual(MAX_TOOL_WORDS)
    },
  )

  it('keeps a character that says that one could not be read', () => {
    expect(redactAndShorten(`${'a'.repeat(MAX_TOOL_WORDS)}\ufffdb`, [])).toMatch(/a\ufffdb$/)
  })
})
