import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { registrySecretProblem } from './spec.ts'

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
  expect(registrySecretProblem(given)).toBeUndefined()
  expect(registrySecretProblem(new TextEncoder().encode(given))).toBeUndefined()
})

test.each([
  { given: '', want: 'must not be empty' },
  { given: ' token', want: 'must not begin or end with whitespace' },
  { given: 'token\n', want: 'must not begin or end with whitespace' },
  { given: 'token\r\n', want: 'must not begin or end with whitespace' },
  { given: '\ufefftoken', want: 'must not begin or end with whitespace' },
  { given: '\u00a0token', want: 'must not begin or end with whitespace' },
  { given: '   ', want: 'must not begin or end with whitespace' },
  { given: 'to\nken', want: 'control character' },
  { given: 'to\u0000ken', want: 'control character' },
  { given: 'to\tken', want: 'control character' },
  { given: 'to\u0085ken', want: 'control character' },
  { given: 'to{{ken', want: '{{ or }}' },
  { given: '{{ssm:/davit/other/rc_x}}', want: '{{ or }}' },
  { given: '{"a":{"b":1}}', want: '{{ or }}' },
  { given: 'x'.repeat(4097), want: 'at most 4096 bytes' },
  { given: '\u{1f511}'.repeat(1025), want: 'at most 4096 bytes' },
  { given: 'to\ud800ken', want: 'valid UTF-8 text' },
])('$given is refused: $want', ({ given, want }) => {
  expect(registrySecretProblem(given)).toContain(want)
})

test('bytes that are not UTF-8 are refused', () => {
  expect(registrySecretProblem(new Uint8Array([0x61, 0xff]))).toBe('must be valid UTF-8 text')
})

test('a refusal has no part of the secret in it', () => {
  const marked = fc
    .tuple(fc.constantFrom('', ' ', '\n', '{{', '\u0000', 'x'.repeat(4097)), fc.nat(2))
    .map(([part, place]) =>
      ['Q7#', 'W9~', 'Z3^'].map((piece, i) => piece + (i === place ? part : '')).join(''),
    )
  fc.assert(
    fc.property(marked, (secret) => {
      const problem = registrySecretProblem(secret) ?? ''
      for (const piece of ['Q7', 'W9', 'Z3', 'xxxx']) expect(problem).not.toContain(piece)
    }),
  )
})
