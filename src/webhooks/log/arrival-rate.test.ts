import { expect, test } from 'vitest'
import { ArrivalRate } from './retention-loop.ts'

/** So many a second for so long, evenly. @returns the time then */
function steady(rate: ArrivalRate, perSecond: number, seconds: number, from = 0): number {
  for (let n = 0; n < perSecond * seconds; n += 1) rate.arrived(from + (n * 1000) / perSecond)
  return from + seconds * 1000
}

test('nothing comes', () => {
  expect(new ArrivalRate().perSecond(5000)).toBe(0)
})

test('what comes steadily is known after some minutes', () => {
  const rate = new ArrivalRate()
  const now = steady(rate, 50, 900)
  expect(rate.perSecond(now)).toBeGreaterThan(49)
  expect(rate.perSecond(now)).toBeLessThan(51)
})

test('what comes at once counts as if it had come over two minutes, and is forgotten slowly', () => {
  const rate = new ArrivalRate()
  for (let n = 0; n < 12_000; n += 1) rate.arrived(1000)
  expect(rate.perSecond(1000)).toBeCloseTo(100, 0)
  expect(rate.perSecond(121_000)).toBeCloseTo(100 / Math.E, 0)
  expect(rate.perSecond(3_600_000)).toBeLessThan(0.001)
})
