import { expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { ByteWindow } from './quota.ts'

const MINUTE = 60_000

it('sums what was added over the last minutes, by key and in all', async () => {
  const clock = new FakeClock()
  const window = new ByteWindow(clock, 10)
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

it('agrees with a sum over everything that was added', async () => {
  const step = fc.record({
    wait: fc.nat({ max: 3 * MINUTE }),
    key: fc.constantFrom('a', 'b'),
    bytes: fc.nat(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 50 }), async (steps) => {
      const clock = new FakeClock()
      const window = new ByteWindow(clock, 4)
      const added: { minute: number; key: string; bytes: number }[] = []
      const minuteNow = () => Math.floor(clock.monotonic() / MINUTE)
      const sum = (wanted: (key: string) => boolean) =>
        added
          .filter(({ minute, key }) => minute > minuteNow() - 4 && wanted(key))
          .reduce((total, { bytes }) => total + bytes, 0)
      for (const { wait, key, bytes } of steps) {
        await clock.elapse(wait)
        window.add(key, bytes)
        added.push({ minute: minuteNow(), key, bytes })
        expect(window.bytesOf('a')).toBe(sum((key) => key === 'a'))
        expect(window.total).toBe(sum(() => true))
      }
    }),
  )
})
