import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { deriveKey, keyedHash } from './text.ts'

const KEY = new Uint8Array(32).fill(7)

test('a hash is 26 characters that fit a word of the log', () => {
  expect(keyedHash(KEY, ['acme', 'publish', 'order-1'])).toMatch(/^[0-9a-hjkmnp-tv-z]{26}$/)
})

test('other parts, or the same text parted elsewhere, give another hash', () => {
  const parts = fc.array(fc.string({ maxLength: 6 }), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      const same = JSON.stringify(a) === JSON.stringify(b)
      expect(keyedHash(KEY, a) === keyedHash(KEY, b)).toBe(same)
    }),
  )
  expect(keyedHash(KEY, ['ab', 'c'])).not.toBe(keyedHash(KEY, ['a', 'bc']))
})

test('another installation, or another purpose, gives another hash', () => {
  const other = new Uint8Array(32).fill(8)
  const hashes = [deriveKey('a', KEY), deriveKey('b', KEY), deriveKey('a', other)].map((key) =>
    keyedHash(key, ['x']),
  )
  expect(new Set(hashes).size).toBe(3)
})
