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

describe('what the parser never sees has limits:', () => {
  test.each([
    { name: 'spaces in a head', start: `${OK}x: a`, fill: ' ' },
    { name: 'tabs in a head', start: `${OK}x: a`, fill: '\t' },
    { name: 'spaces in a trailer', start: `${OK}transfer-encoding: chunked\r\n\r\n0\r\nx: a`, fill: ' ' },
    { name: 'zeros of a size', start: `${OK}transfer-encoding: chunked\r\n\r\n`, fill: '0' },
    { name: 'zeros of a later size', start: `${OK}transfer-encoding: chunked\r\n\r\n1\r\n-\r\n`, fill: '0' },
  ])('$name', ({ start, fill }) => {
    expect(normalized(start, fill.repeat(50))).toBeDefined()
    expect(() => normalized(start, ...Array<string>(20).fill(fill.repeat(1000)))).toThrow(
      errors.HeadersOverflowError,
    )
  })
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

const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`

describe('a chunked body', () => {
  test.each([
    {
      name: 'with a trailer that is continued',
      after: '0\r\nx-a: b\r\n c\r\n\r\n',
      want: '0\r\nx-a: b c\r\n\r\n',
    },
    {
      name: 'with a trailer that ends with spaces',
      after: '0\r\nx-a: b \t\r\n\r\n',
      want: '0\r\nx-a: b\r\n\r\n',
    },
    {
      name: 'with two such fields',
      after: '0\r\nx-a: b \r\nx-c:\r\n\td\r\n e \r\n\r\n',
      want: '0\r\nx-a: b\r\nx-c: d e\r\n\r\n',
    },
    {
      name: 'with a space before the semicolon',
      after: '2 ;a=b\r\nok\r\n0\r\n\r\n',
      want: '2\r\nok\r\n0\r\n\r\n',
    },
    {
      name: 'with spaces around it',
      after: '2 \t; a = "b"; c\r\nok\r\n0\r\n\r\n',
      want: '2\r\nok\r\n0\r\n\r\n',
    },
    { name: 'with spaces after a size', after: '2  \r\nok\r\n000 \r\n\r\n', want: '2\r\nok\r\n000\r\n\r\n' },
    {
      name: 'with an extension of the last chunk and a trailer',
      after: '00 ; a\r\nx-a: b\r\n c\r\n\r\n',
      want: '00\r\nx-a: b c\r\n\r\n',
    },
    { name: 'whose data looks like framing', after: '7\r\n0\r\n \r\n\r\r\n0\r\n\r\n' },
    { name: 'that is plain', after: 'A\r\n0123456789\r\n1\r\n0\r\n0\r\nx-a: b\r\n\r\n' },
    { name: 'and what follows it', after: '0\r\n\r\nx \r\n y' },
    { name: 'without a size', after: '\r\nx: y \r\n\r\n' },
    {
      name: 'with another text after a size',
      after: '2 x \r\nok\r\n0\r\n\r\n',
      want: '2x \r\nok\r\n0\r\n\r\n',
    },
    { name: 'with a bare line feed after a size', after: '2\nok\r\n0 \r\n\r\n' },
    {
      name: 'with a bare carriage return in an extension',
      after: '2;a\rb \r\nok\r\n',
      want: '2\rb \r\nok\r\n',
    },
    { name: 'with data that is too long', after: '2\r\nokay\r\n0 ;x\r\n\r\n' },
    { name: 'with a size beyond all numbers', after: `${'f'.repeat(20)} ;x\r\nok \r\n` },
  ])('$name', ({ after, want = after }) => {
    expect(normalized(CHUNKED + after)).toBe(CHUNKED + want)
    expect(normalized(CHUNKED, after)).toBe(CHUNKED + want)
    expect(normalized(...(CHUNKED + after))).toBe(CHUNKED + want)
  })

  test.each([
    { name: 'in capitals', fields: 'Transfer-Encoding: Chunked', isChunked: true },
    { name: 'after another coding', fields: 'transfer-encoding: gzip, chunked', isChunked: true },
    {
      name: 'in a second field',
      fields: 'transfer-encoding: gzip\r\nx: y\r\ntransfer-encoding:chunked',
      isChunked: true,
    },
    { name: 'on a continued line', fields: 'transfer-encoding:\r\n chunked', isChunked: true },
    { name: 'not as the last coding', fields: 'transfer-encoding: chunked, gzip', isChunked: false },
    {
      name: 'not as the last field',
      fields: 'transfer-encoding: chunked\r\ntransfer-encoding: gzip',
      isChunked: false,
    },
    { name: 'in another field', fields: 'x-transfer-encoding: chunked', isChunked: false },
    { name: 'in a value', fields: 'vary: transfer-encoding: chunked', isChunked: false },
  ])('is known by its coding: $name', ({ fields, isChunked }) => {
    const after = '0\r\nx: y \r\n\r\n'
    for (const all of [fields, `${fields}\r\nx: a\r\n b`]) {
      const bytes = `${OK}${all}\r\n\r\n${after}`
      const found = normalized(bytes)
      expect(found.endsWith(isChunked ? '0\r\nx: y\r\n\r\n' : after)).toBe(true)
      expect(normalized(...bytes)).toBe(found)
    }
  })

  test('has extensions up to a limit, in all of its chunks', () => {
    const extension = `;${'x'.repeat(1000)}`
    const small = normalized(CHUNKED, ...Array<string>(16).fill(`1${extension}\r\n-\r\n`), '0\r\n\r\n')
    expect(small).toBe(`${CHUNKED}${'1\r\n-\r\n'.repeat(16)}0\r\n\r\n`)
    expect(() => normalized(CHUNKED, ...Array<string>(17).fill(`1${extension}\r\n-\r\n`))).toThrow(
      errors.HeadersOverflowError,
    )
    expect(() => normalized(CHUNKED, '1', ...Array<string>(17).fill(extension))).toThrow(
      errors.HeadersOverflowError,
    )
  })

  const space = fc.constantFrom('', ' ', '\t', ' \t ')
  const extension = fc
    .tuple(space, space, fc.constantFrom('a', 'a=b', 'a = "b;c"', ''))
    .map(([before, after, text]) => `${before};${after}${text}`)
  const chunk = fc
    .tuple(
      fc.string({ unit: fc.constantFrom('\r', '\n', '0', ';', ' ', 'x'), minLength: 1, maxLength: 20 }),
      fc.array(extension, { maxLength: 2 }),
      space,
    )
    .map(([data, extensions, end]) => ({
      data,
      line: `${data.length.toString(16)}${extensions.join('')}${end}`,
    }))
  const field = fc
    .tuple(
      fc.constantFrom('x-a', 'digest'),
      fc.array(fc.constantFrom('b', 'c', '0'), { minLength: 1, maxLength: 3 }),
      fc.constantFrom('\r\n ', ' \r\n\t', ' '),
      space,
    )
    .map(([name, words, fold, end]) => ({
      given: `${name}: ${words.join(fold)}${end}`,
      want: `${name}: ${words.join(' ')}`,
    }))

  test('is the same body with a plain framing, however it is cut into packets', () => {
    fc.assert(
      fc.property(
        fc.array(chunk, { maxLength: 5 }),
        fc.array(extension, { maxLength: 1 }),
        fc.array(field, { maxLength: 3 }),
        fc.array(fc.nat(400), { maxLength: 10 }),
        (chunks, lastExtensions, fields, cuts) => {
          const lines = (all: readonly string[]) => all.map((line) => `${line}\r\n`).join('')
          const given = `${lines(chunks.map(({ line, data }) => `${line}\r\n${data}`))}0${lastExtensions.join('')}\r\n${lines(fields.map((one) => one.given))}\r\n`
          const want = `${lines(chunks.map(({ data }) => `${data.length.toString(16)}\r\n${data}`))}0\r\n${lines(fields.map((one) => one.want))}\r\n`
          const text = CHUNKED + given
          const at = [0, ...cuts.filter((cut) => cut <= text.length).sort((a, b) => a - b), text.length]
          const parts = at.slice(1).map((end, i) => text.slice(at[i], end))
          expect(normalized(...parts)).toBe(CHUNKED + want)
          expect(normalized(...text)).toBe(CHUNKED + want)
        },
      ),
    )
  })
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
const chunked = fc.constantFrom(CHUNKED, '2', '0', ';', ' ;x', 'ok')
const bytes = fc.array(fc.oneof(piece, chunked), { maxLength: 40 }).map((pieces) => pieces.join(''))

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
