import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { sanitizeText } from './text.ts'

test.each([
  { given: 'connection refused', max: 256, want: 'connection refused', why: 'plain text stays as it is' },
  { given: 'Größe 日本 😀', max: 256, want: 'Größe 日本 😀', why: 'in any script' },
  { given: 'abcdef', max: 3, want: 'abc', why: 'a long text is cut' },
  { given: 'ab😀', max: 3, want: 'ab', why: 'a character is not cut in two' },
  { given: 'ab😀', max: 4, want: 'ab😀', why: 'one that fits stays' },
  {
    given: 'a\ud800b',
    max: 256,
    want: 'a\ufffdb',
    why: 'half a character is replaced as the API server would do it',
  },
  { given: 'a\udc00b', max: 256, want: 'a\ufffdb', why: 'so is the other half' },
  { given: 'a\u001b[31mb', max: 256, want: 'a [31mb', why: 'an escape sequence cannot reach a terminal' },
  {
    given: 'a\r\n\tb\u0000c\u007fd\u009be',
    max: 256,
    want: 'a   b c d e',
    why: 'nor can other control characters',
  },
  { given: '', max: 256, want: '', why: 'nothing stays nothing' },
])('$why', ({ given, max, want }) => {
  expect(sanitizeText(given, max)).toBe(want)
})

/** Any text, half characters and control characters included. */
const anyText = (maxLength: number) =>
  fc.array(fc.nat(0xffff), { maxLength }).map((units) => String.fromCharCode(...units))

test('any text becomes short, whole and harmless, and what is so already stays', () => {
  fc.assert(
    fc.property(anyText(600), fc.integer({ min: 1, max: 300 }), (given, max) => {
      const made = sanitizeText(given, max)
      expect(made.length).toBeLessThanOrEqual(max)
      expect(made.length).toBeGreaterThanOrEqual(Math.min(given.length, max - 1))
      expect(made.isWellFormed()).toBe(true)
      expect(made).not.toMatch(/\p{Cc}/u)
      expect(sanitizeText(made, max)).toBe(made)
    }),
  )
})
