import { expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { ByteWindow } from './written-bytes.ts'

const MINUTE = 60_000
const MAX = 1000

it('sums what was added over the last minutes, by key and in all', async () => {
  const clock = new FakeClock()
  const window = new ByteWindow(clock, { minutes: 10 })
  window.add('acme', 100)
  await clock.elapse(5 * MINUTE)
  window.add('acme', 10)
  window.add('other', 1)
  expect([window.bytesOf('acme'), window.bytesOf('other'), window.bytesOf('nobody'), window.total]).toEqual([
    110, 1, 0, 111,
  ])
  await clock.elapse(5 * MINUTE)
  expect([window.bytesOf('acme'), window.total]).toEqual([10, 11])
  await clock.elapse(5 * MINUTE)
  expect([window.bytesOf('acme'), window.bytesOf('other'), window.total]).toEqual([0, 0, 0])
})

it('counts what was written earlier until it is as old as the rest', async () => {
  const clock = new FakeClock()
  await clock.elapse(30 * MINUTE)
  const window = new ByteWindow(clock, { minutes: 10 })
  window.add('acme', 1)
  window.add('acme', 10, 9 * MINUTE)
  window.add('acme', 100, 5 * MINUTE)
  window.add('acme', 1000, 10 * MINUTE)
  // By a clock that is ahead.
  window.add('acme', 10_000, -60 * MINUTE)
  expect(window.total).toBe(10_111)
  await clock.elapse(MINUTE)
  expect(window.total).toBe(10_101)
  await clock.elapse(4 * MINUTE)
  expect(window.total).toBe(10_001)
  await clock.elapse(5 * MINUTE)
  expect(window.total).toBe(0)
})

it('agrees with a sum over everything that was added', async () => {
  const step = fc.record({
    wait: fc.nat({ max: 3 * MINUTE }),
    age: fc.constantFrom(0, MINUTE, 3 * MINUTE),
    key: fc.constantFrom('a', 'b'),
    bytes: fc.nat({ max: 600 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 50 }), async (steps) => {
      const clock = new FakeClock()
      const window = new ByteWindow(clock, { minutes: 4, maxPerKey: MAX })
      const added: { minute: number; key: string; bytes: number }[] = []
      const minuteNow = () => Math.floor(clock.monotonic() / MINUTE)
      const sum = (wanted: (key: string) => boolean) =>
        added
          .filter(({ minute, key }) => minute > minuteNow() - 4 && wanted(key))
          .reduce((total, { bytes }) => total + bytes, 0)
      for (const { wait, age, key, bytes } of steps) {
        await clock.elapse(wait)
        window.add(key, bytes, age)
        added.push({ minute: minuteNow() - age / MINUTE, key, bytes })
        expect(window.bytesOf('a')).toBe(sum((key) => key === 'a'))
        expect(window.total).toBe(sum(() => true))
        const fair = ['a', 'b'].map((name) =>
          Math.min(
            MAX,
            sum((one) => one === name),
          ),
        )
        expect(window.fairTotal).toBe(fair.reduce((total, some) => total + some, 0))
      }
    }),
  )
})
