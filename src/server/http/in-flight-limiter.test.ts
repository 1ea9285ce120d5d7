import { expect, test } from 'vitest'
import { InFlightLimiter } from './limits.ts'

test('what was given back is there again, and giving back twice gives no more', () => {
  const load = new InFlightLimiter(2, 100)
  const leave = load.enter()
  load.enter()
  expect(() => load.enter()).toThrow(expect.objectContaining({ code: 'overloaded' }))
  leave()
  leave()
  expect(load.requests).toBe(1)
  const release = load.reserve(60)
  expect(() => load.reserve(41)).toThrow(expect.objectContaining({ code: 'overloaded' }))
  load.reserve(40)
  release()
  release()
  expect(load.bytes).toBe(40)
})
