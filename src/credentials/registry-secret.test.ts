import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { parseRegistrySecret } from './registry-secret.ts'

/** The layout in which Google offers a key for download. */
const GOOGLE_KEY = {
  type: 'service_account',
  project_id: 'acme-prod',
  private_key_id: '0123456789abcdef0123456789abcdef01234567',
  private_key: `-----BEGIN PRIVATE KEY-----\n${`${'MIIEvQIBADANBgkq'.repeat(4)}\n`.repeat(26)}-----END PRIVATE KEY-----\n`,
  client_email: 'puller@acme-prod.iam.gserviceaccount.com',
  token_uri: 'https://oauth2.googleapis.com/token',
}
const DOWNLOADED = `${JSON.stringify(GOOGLE_KEY, null, 2)}\n`
const wrapped = (text: string) => Buffer.from(text).toString('base64').replace(/.{76}/g, '$&\n')

test.each([
  { given: 'ghp_0123456789', why: 'a token' },
  { given: 'a b', why: 'a space inside' },
  { given: '%41"\\\'`$(x)', why: 'what shells and URLs take for something else' },
  { given: '{"type":"service_account","private_key":"-----BEGIN\\nKEY"}', why: 'JSON in one line' },
  { given: '{a}{b}', why: 'single braces' },
  { given: 'p\u00e4ssw\u00f6rd\u{1f511}', why: 'more than ASCII' },
  { given: 'x'.repeat(4096), why: '4,096 bytes' },
  { given: '\u{1f511}'.repeat(1024), why: '4,096 bytes of 1,024 characters' },
])('a secret with $why is taken', ({ given }) => {
  expect(parseRegistrySecret(given)).toEqual({ secret: given })
  expect(parseRegistrySecret(new TextEncoder().encode(given))).toEqual({ secret: given })
})

test.each([
  { given: DOWNLOADED, why: 'a downloaded key' },
  { given: DOWNLOADED.replaceAll('\n', '\r\n'), why: 'a key with the line ends of Windows' },
  { given: `\ufeff${DOWNLOADED}`, why: 'a key with a byte order mark' },
  { given: JSON.stringify(GOOGLE_KEY, null, '\t'), why: 'a key that is indented with tabs' },
  { given: `\n\n  ${DOWNLOADED}\n `, why: 'a key between empty lines' },
  { given: `${JSON.stringify(GOOGLE_KEY)}\n`, why: 'a key in one line that ends' },
  {
    given: DOWNLOADED.replaceAll('\n', `\n${' '.repeat(700)}`),
    why: 'a key that is too large as it is',
  },
  { given: JSON.stringify({ a: { b: [{ c: 1 }] } }, null, 2), why: 'nested objects' },
  { given: '[\n1.50,\n"\\u0041\\n  b"\n]', why: 'a list' },
])('$why becomes one line with the same meaning', ({ given }) => {
  const { secret = '' } = parseRegistrySecret(given)
  expect(secret).not.toMatch(/\p{Cc}|^\s|\s$/u)
  expect(JSON.parse(secret)).toEqual(JSON.parse(given.trim()))
  expect(parseRegistrySecret(new TextEncoder().encode(given))).toEqual({ secret })
  expect(parseRegistrySecret(secret)).toEqual({ secret })
})

test('what is in a document stays as it is written', () => {
  const given = '{\n"n": 1.50, "n":1e400,\n\t"s" : "a  \\u0022 \\\\",\n"o":{"p":{\n}\n}}'
  expect(parseRegistrySecret(given)).toEqual({
    secret: '{ "n": 1.50, "n":1e400, "s" : "a  \\u0022 \\\\", "o":{"p":{ } }}',
  })
})

test.each([
  { given: wrapped(DOWNLOADED), why: 'with broken lines' },
  { given: wrapped(DOWNLOADED).replaceAll('\n', '\r\n'), why: 'with the line ends of Windows' },
  { given: `${Buffer.from(DOWNLOADED).toString('base64')}\n`, why: 'with a newline at its end' },
  { given: wrapped(`${JSON.stringify({ a: 'x'.repeat(100) })}\n`), why: 'with padding' },
])('a key in base64 $why loses only its line ends', ({ given }) => {
  expect(parseRegistrySecret(given)).toEqual({ secret: given.replace(/\s/g, '') })
})

test.each([
  { given: 'pa}}ss', why: 'closing braces alone' },
  { given: 'pa{{ss', why: 'opening braces alone' },
  { given: '}}{{', why: 'braces that close before they open' },
  { given: '{{}', why: 'three braces' },
  { given: '{"a":{"b":1}}', why: 'JSON in JSON' },
  { given: '{"auths":{"gcr.io":{"auth":"eA=="}}}', why: 'a file of logins' },
])('a secret with $why is stored, since AWS takes it', ({ given }) => {
  expect(parseRegistrySecret(given)).toEqual({ secret: given })
})

test.each([
  { given: '', want: 'must not be empty' },
  { given: ' token', want: 'must not begin or end with whitespace' },
  { given: 'token\n', want: 'must not begin or end with whitespace' },
  { given: 'token\r\n', want: 'must not begin or end with whitespace' },
  { given: '\ufefftoken', want: 'must not begin or end with whitespace' },
  { given: '\u00a0token', want: 'must not begin or end with whitespace' },
  { given: '   ', want: 'must not begin or end with whitespace' },
  { given: 'to\nken', want: 'unless it is a JSON document' },
  { given: '-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n', want: 'control character' },
  { given: 'dG9r\nZW4=', want: 'control character' },
  { given: '"to\\nken"\n', want: 'must not begin or end with whitespace' },
  { given: '{"a":\n1', want: 'must be valid JSON' },
  { given: `${DOWNLOADED}x`, want: 'must be valid JSON' },
  { given: DOWNLOADED.replaceAll('\\n', '\n'), want: 'must be valid JSON' },
  { given: JSON.stringify({ a: 'x'.repeat(4096) }, null, 2), want: 'at most 4096 bytes' },
  { given: `{${' '.repeat(70_000)}}`, want: 'at most 4096 bytes' },
  { given: 'to\u0000ken', want: 'control character' },
  { given: 'to\tken', want: 'control character' },
  { given: 'to\u0085ken', want: 'control character' },
  { given: 'to{{ken}}', want: '{{ followed by }}' },
  { given: '{{ssm:/davit/other/rc_x}}', want: '{{ followed by }}' },
  { given: 'a{{b c}} d', want: '{{ followed by }}' },
  { given: '{{}}', want: '{{ followed by }}' },
  { given: '{"a":"{{b}}"}', want: '{{ followed by }}' },
  { given: 'x'.repeat(4097), want: 'at most 4096 bytes' },
  { given: '\u{1f511}'.repeat(1025), want: 'at most 4096 bytes' },
  { given: 'to\ud800ken', want: 'valid UTF-8 text' },
])('$given is refused: $want', ({ given, want }) => {
  expect(parseRegistrySecret(given).problem).toContain(want)
})

test('bytes that are not UTF-8 are refused', () => {
  expect(parseRegistrySecret(new Uint8Array([0x61, 0xff]))).toEqual({ problem: 'must be valid UTF-8 text' })
})

test('a refusal has no part of the secret in it', () => {
  const marked = fc
    .tuple(fc.constantFrom('', ' ', '\n', '{{}}', '{\n', '\u0000', 'x'.repeat(4097)), fc.nat(2))
    .map(([part, place]) =>
      ['Q7#', 'W9~', 'Z3^'].map((piece, i) => piece + (i === place ? part : '')).join(''),
    )
  fc.assert(
    fc.property(marked, (secret) => {
      const problem = parseRegistrySecret(secret).problem ?? ''
      for (const piece of ['Q7', 'W9', 'Z3', 'xxxx']) expect(problem).not.toContain(piece)
    }),
  )
})

test('any document, in any layout, is stored with the meaning that it has', () => {
  const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r\n'), maxLength: 4 })
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 4 }),
      space,
      space,
      (value, indent, end) => {
        const given = `${JSON.stringify(value, null, indent)}${end}`
        const { secret, problem } = parseRegistrySecret(given)
        if (problem !== undefined) expect(problem).toMatch(/4096 bytes|\{\{ followed by|control characters/)
        else expect(JSON.parse(secret)).toEqual(JSON.parse(given))
      },
    ),
  )
})
