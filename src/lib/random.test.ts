import { expect, test } from 'vitest'
import { createRandom } from './time.ts'

test('fractions lie in [0, 1) and spread over it', () => {
  const random = createRandom()
  const buckets = new Array<number>(10).fill(0)
  for (let i = 0; i < 10_000; i += 1) {
    const value = random.fraction()
    expect(value >= 0 && value < 1).toBe(true)
    const bucket = Math.floor(value * 10)
    buckets[bucket] = (buckets[bucket] ?? 0) + 1
  }
  for (const count of buckets) expect(count).toBeGreaterThan(500)
})

test('bytes are as many as asked for and differ each time', () => {
  const random = createRandom()
  expect(random.bytes(24)).toHaveLength(24)
  expect(random.bytes(0)).toHaveLength(0)
  const seen = new Set(Array.from({ length: 1000 }, () => Buffer.from(random.bytes(16)).toString('hex')))
  expect(seen.size).toBe(1000)
})

test('no bytes are given out twice, whatever the lengths, also over many blocks', () => {
  const random = createRandom()
  const seen = new Set<string>()
  let values = 0
  for (let round = 0; round < 2_000; round += 1) {
    const hex = Buffer.from(random.bytes(8 + (round % 12))).toString('hex')
    // Pieces of eight bytes at any offset: an overlap of two values has some in common.
    for (let at = 0; at + 16 <= hex.length; at += 2) {
      seen.add(hex.slice(at, at + 16))
      values += 1
    }
  }
  expect(seen.size).toBe(values)
})

test('a value does not share memory with the next ones', () => {
  const random = createRandom()
  const first = random.bytes(10)
  const copy = Uint8Array.from(first)
  expect(first.buffer.byteLength).toBe(10)
  const second = random.bytes(10)
  first.fill(0)
  expect(Buffer.from(second).equals(Buffer.alloc(10))).toBe(false)
  expect(copy).not.toEqual(second)
})

test('each bit of short values is set half of the time', () => {
  const random = createRandom()
  const draws = 4_000
  const counts = new Array<number>(80).fill(0)
  for (let draw = 0; draw < draws; draw += 1)
    for (const [at, byte] of random.bytes(10).entries())
      for (let bit = 0; bit < 8; bit += 1)
        counts[at * 8 + bit] = (counts[at * 8 + bit] ?? 0) + ((byte >> bit) & 1)
  // Seven standard deviations.
  for (const count of counts) expect(Math.abs(count - draws / 2)).toBeLessThan(7 * Math.sqrt(draws / 4))
})
