import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WritePace } from './write-pace.ts'

it('lets a burst begin at once, and then one each interval', () => {
  const pace = new WritePace({ perSecond: 100, burst: 3 })
  const waits: number[] = []
  for (let write = 0; write < 5; write += 1) {
    waits.push(pace.waitMs(1000))
    pace.begun(1000)
  }
  expect(waits).toEqual([0, 0, 0, 10, 20])
  expect(pace.waitMs(1020)).toBe(10)
  expect(pace.waitMs(2000)).toBe(0)
})

it('never lets more begin in any time than the burst and the rate, and keeps none longer than it must', () => {
  const pauses = fc.array(fc.double({ min: 0, max: 50, noNaN: true }), { maxLength: 200 })
  fc.assert(
    fc.property(
      pauses,
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 1, max: 20 }),
      (given, rate, burst) => {
        const pace = new WritePace({ perSecond: rate, burst })
        const begun: number[] = []
        let now = 0
        for (const ms of given) {
          now += ms
          now += pace.waitMs(now)
          pace.begun(now)
          begun.push(now)
        }
        begun.forEach((from, first) => {
          begun.slice(first).forEach((to, more) => {
            expect(more + 1).toBeLessThanOrEqual(burst + ((to - from) * rate) / 1000 + 1e-6)
          })
        })
      },
    ),
  )
})
