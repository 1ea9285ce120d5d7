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
