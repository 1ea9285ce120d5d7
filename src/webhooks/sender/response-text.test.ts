import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { keepHead, responseText } from './sender.ts'

test.each([
  { given: 'ok', want: 'ok' },
  { given: '{"error":\n\t"no"}\r\n', want: '{"error": "no"} ' },
  { given: '\u001b[2Jgone\u0000\u0007', want: '\uFFFD[2Jgone\uFFFD\uFFFD' },
  { given: 'a\u202Eb\u200Bc\u2028d', want: 'a\uFFFDb\uFFFDc\uFFFDd' },
  { given: `${'x'.repeat(255)}é`, want: 'x'.repeat(255) },
  { given: `${'x'.repeat(254)}é`, want: `${'x'.repeat(254)}é` },
  { given: '😀'.repeat(100), want: '😀'.repeat(64) },
  { given: '', want: '' },
])('$given is kept as $want', ({ given, want }) => {
  expect(responseText(Buffer.from(given))).toBe(want)
})

test('whatever bytes come in whatever pieces, the text is short, well-formed and harmless', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 6 }), (chunks) => {
      const head = chunks.reduce(keepHead, new Uint8Array())
      const whole = Buffer.concat(chunks)
      const text = responseText(head)
      expect(Buffer.from(head)).toEqual(whole.subarray(0, 256))
      expect(text).toBe(responseText(whole))
      expect([...text].length).toBeLessThanOrEqual(256)
      expect(text.isWellFormed()).toBe(true)
      expect(text).not.toMatch(/[\p{Cc}\p{Cf}]/u)
    }),
  )
})

test('what is kept shares no memory with the buffer it came from', () => {
  const chunk = Buffer.from('hello')
  const head = keepHead(new Uint8Array(), chunk)
  chunk.fill(0)
  expect(Buffer.from(head).toString()).toBe('hello')
})
