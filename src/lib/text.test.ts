import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { counted, decodeBase32Number, encodeBase32, encodeBase32Number, listed, withPeriod } from './text.ts'

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const BELOW_2_50 = { min: 0, max: 2 ** 50 - 1 }

test('a number that was encoded is decoded the same', () => {
  fc.assert(
    fc.property(fc.integer(BELOW_2_50), (given) => {
      expect(decodeBase32Number(encodeBase32Number(given, 10))).toBe(given)
    }),
  )
})

test('texts of numbers are in the order of the numbers', () => {
  fc.assert(
    fc.property(fc.integer(BELOW_2_50), fc.integer(BELOW_2_50), (a, b) => {
      expect(encodeBase32Number(a, 10) < encodeBase32Number(b, 10)).toBe(a < b)
    }),
  )
})

test.each([
  { given: 0, want: '0000000000' },
  { given: 31, want: '000000000z' },
  { given: 32, want: '0000000010' },
  { given: 2 ** 48 - 1, want: '7zzzzzzzzz' },
  { given: 2 ** 50 - 1, want: 'zzzzzzzzzz' },
])('$given is $want', ({ given, want }) => {
  expect(encodeBase32Number(given, 10)).toBe(want)
})

/** The same bits by way of one big number: slow, and plainly right. */
function referenceOf(bytes: Uint8Array, characters: number): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  return Array.from({ length: characters }, (_, i) =>
    ALPHABET.charAt(Number.parseInt(bits.slice(5 * i, 5 * i + 5), 2)),
  ).join('')
}

test('bytes are encoded five bits at a time, first bits first', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), (given) => {
      const characters = Math.floor((given.length * 8) / 5)
      expect(encodeBase32(given, characters)).toBe(referenceOf(given, characters))
    }),
  )
})

test('every character stands for its place in the alphabet, and every other one for none', () => {
  for (let code = 0; code < 0x250; code += 1) {
    const character = String.fromCharCode(code)
    const place = ALPHABET.indexOf(character)
    expect(decodeBase32Number(character)).toBe(place < 0 ? Number.NaN : place)
  }
})

test('a count has its noun, and thousands a comma', () => {
  expect([counted(0, 'owner'), counted(1, 'owner'), counted(1200, 'owner')]).toEqual([
    '0 owners',
    '1 owner',
    '1,200 owners',
  ])
  expect([counted(1, 'delivery', 'deliveries'), counted(2, 'delivery', 'deliveries')]).toEqual([
    '1 delivery',
    '2 deliveries',
  ])
})

test('words are listed as in a sentence', () => {
  expect([['url'], ['url', 'ordered'], ['url', 'ordered', 'concurrency']].map(listed)).toEqual([
    'url',
    'url and ordered',
    'url, ordered, and concurrency',
  ])
})

test.each([
  { given: 'access denied', want: 'access denied.' },
  { given: 'Access denied.', want: 'Access denied.' },
  { given: 'Who is it?', want: 'Who is it?' },
  { given: 'access denied \n', want: 'access denied.' },
])('"$given" ends as a sentence', ({ given, want }) => {
  expect(withPeriod(given)).toBe(want)
})
