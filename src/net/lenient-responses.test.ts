import { errors } from 'undici'
import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { ResponseNormalizer } from './lenient-responses.ts'

const OK = 'HTTP/1.1 200 OK\r\n'

/** What the parser gets of a response that arrives in these parts. */
function normalized(...parts: string[]): string {
  const normalizer = new ResponseNormalizer()
  return parts.map((part) => normalizer.push(Buffer.from(part, 'latin1')).toString('latin1')).join('')
}

const FINAL = `${OK}content-length: 2\r\n\r\nok`

test.each([
  { name: '100', interim: 'HTTP/1.1 100 Continue\r\n\r\n' },
  { name: '100 without a reason', interim: 'HTTP/1.1 100\r\n\r\n' },
  { name: '102 with fields', interim: 'HTTP/1.1 102 Processing\r\nx-a: b\r\ncontent-length: 9\r\n\r\n' },
  { name: '103 that announces a close', interim: 'HTTP/1.1 103 Early Hints\r\nconnection: close\r\n\r\n' },
  { name: '199, which has no meaning', interim: 'HTTP/1.1 199 X\r\n\r\n' },
  { name: '100 of HTTP/1.0', interim: 'HTTP/1.0 100 Continue\r\n\r\n' },
  {
    name: 'several',
    interim: 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nlink: a\r\n b\r\n\r\n'.repeat(3),
  },
  { name: '100 and an empty line', interim: 'HTTP/1.1 100 Continue\r\n\r\n\r\n' },
  { name: '100 with bare line feeds', interim: 'HTTP/1.1 100 Continue\nx: y\n\n' },
])('an interim response is left out: $name', ({ interim }) => {
  expect(normalized(interim + FINAL)).toBe(FINAL)
  expect(normalized(...(interim + FINAL))).toBe(FINAL)
})

test.each([
  { name: 'a switch of protocols', bytes: `HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n${FINAL}` },
  { name: 'a status of four digits', bytes: `HTTP/1.1 1000 X\r\n\r\n${FINAL}` },
  { name: 'another protocol', bytes: '220 mail ESMTP\r\n220 mail' },
  { name: 'a status without a version', bytes: `HTTP 100 Continue\r\n\r\n${FINAL}` },
  { name: 'interim text in a body', bytes: `${FINAL}HTTP/1.1 100 Continue\r\n\r\n` },
  { name: 'a space after the status line', bytes: `${OK} x: y\r\n\r\n` },
  { name: 'a fold after a bare line feed', bytes: `${OK}x: y\n z\r\n\r\n` },
])('passed on as it came: $name', ({ bytes }) => {
  expect(normalized(bytes)).toBe(bytes)
  expect(normalized(...bytes)).toBe(bytes)
})

test.each([
  { name: 'with a space', field: 'x-a: b\r\n c', want: 'x-a: b c' },
  { name: 'with a tab', field: 'x-a: b\r\n\tc', want: 'x-a: b c' },
  { name: 'with spaces around the line end', field: 'x-a: b \t\r\n\t c', want: 'x-a: b c' },
  { name: 'several times', field: 'x-a: b\r\n c\r\n\t d', want: 'x-a: b c d' },
  { name: 'before the value', field: 'content-length:\r\n 2', want: 'content-length: 2' },
  { name: 'with an empty line of spaces', field: 'x-a: b\r\n \t\r\nx-c: d', want: 'x-a: b\r\nx-c: d' },
  { name: 'with two empty lines of spaces', field: 'x-a: b\r\n \t\r\n \r\n c', want: 'x-a: b c' },
  { name: 'not at all, but with spaces after it', field: 'content-length: 2 \t', want: 'content-length: 2' },
])('a field that is continued on the next line is one line: $name', ({ field, want }) => {
  for (const [before, after] of [
    ['', ''],
    ['x-0: 0\r\n', ''],
    ['', '\r\nx-1: 1'],
  ]) {
    const bytes = `${OK}${before}${field}${after}\r\n\r\nbody\r\n body`
    const expected = `${OK}${before}${want}${after}\r\n\r\nbody\r\n body`
    expect(normalized(bytes)).toBe(expected)
    expect(normalized(...bytes)).toBe(expected)
  }
})

test('the start of another protocol is passed on before its line ends', () => {
  expect(normalized('2')).toBe('2')
  expect(normalized('HTTP/2')).toBe('HTTP/2')
  expect(normalized('HTTP/1.1 2')).toBe('HTTP/1.1 2')
})

describe('an interim response that is too large', () => {
  test.each([
    { name: 'in one field', fill: `x: ${'y'.repeat(20_000)}` },
    { name: 'in many fields', fill: 'x: y\r\n'.repeat(4000) },
    { name: 'in its reason', fill: 'y'.repeat(20_000) },
  ])('is an error: $name', ({ fill }) => {
    const parts = `HTTP/1.1 100 Continue\r\n${fill}`.match(/.{1,1000}/gs) ?? []
    expect(() => normalized(...parts)).toThrow(errors.HeadersOverflowError)
  })

  test('is not one of many small ones', () => {
    expect(normalized(...Array<string>(2000).fill('HTTP/1.1 102 Processing\r\n\r\n'), FINAL)).toBe(FINAL)
  })
})

test('each response of a connection is normalized, and what follows it is not', () => {
  const normalizer = new ResponseNormalizer()
  const push = (text: string) => normalizer.push(Buffer.from(text)).toString()
  for (let i = 0; i < 3; i += 1) {
    normalizer.expectResponse()
    expect(push(`HTTP/1.1 100 Continue\r\n\r\n${OK}x: a\r\n b\r\n\r\n`)).toBe(`${OK}x: a b\r\n\r\n`)
    expect(push('HTTP/1.1 100 Continue\r\n\r\n')).toBe('HTTP/1.1 100 Continue\r\n\r\n')
  }
})

const piece = fc.constantFrom(
  '\r',
  '\n',
  '\r\n',
  ' ',
  '\t',
  'x: y',
  'HTTP/1.1 ',
  '100',
  '101',
  '200',
  ' OK',
  '1',
  '',
)
const bytes = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(''))

test('how bytes are cut into packets does not change what the parser gets', () => {
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(60), { maxLength: 8 }), (text, cuts) => {
      const at = [0, ...cuts.filter((cut) => cut <= text.length).sort((a, b) => a - b), text.length]
      const parts = at.slice(1).map((end, i) => text.slice(at[i], end))
      // The number of spaces between two words has no meaning.
      const [whole = '', cut = ''] = [[text], parts].map((all) =>
        normalized(...all).replaceAll(/[ \t]+/g, ' '),
      )
      // At the end of a packet some bytes may wait for the next one.
      const [short, long] = whole.length < cut.length ? [whole, cut] : [cut, whole]
      expect(long.startsWith(short)).toBe(true)
      expect(long.length - short.length).toBeLessThanOrEqual(4)
    }),
  )
})

test('a body is never changed', () => {
  fc.assert(
    fc.property(fc.array(bytes, { minLength: 1, maxLength: 5 }), (parts) => {
      const normalizer = new ResponseNormalizer()
      normalizer.push(Buffer.from(`${OK}\r\n`))
      expect(parts.map((part) => normalizer.push(Buffer.from(part)).toString())).toEqual(parts)
    }),
  )
})
