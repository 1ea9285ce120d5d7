import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { OpenBodies } from './open-bodies.ts'

test('a body counts once, until the last of its deliveries has ended', () => {
  const open = new OpenBodies()
  open.add('acme', { id: 'one', bytes: 10 })
  open.add('acme', { id: 'one', bytes: 10 })
  open.add('acme', { bytes: 5 })
  open.add('other', { bytes: 7 })
  expect([open.of('acme'), open.of('other'), open.total]).toEqual([15, 7, 22])
  open.remove('acme', { id: 'one', bytes: 10 })
  expect(open.of('acme')).toBe(15)
  open.remove('acme', { id: 'one', bytes: 10 })
  expect([open.of('acme'), open.total]).toEqual([5, 12])
})

test('whatever opens and ends in whatever order, the sum is that of the bodies that are open', () => {
  const events = fc.array(
    fc.record({ receivers: fc.integer({ min: 1, max: 4 }), bytes: fc.nat({ max: 99 }) }),
    {
      maxLength: 8,
    },
  )
  fc.assert(
    fc.property(events, fc.array(fc.nat(), { maxLength: 60 }), (given, steps) => {
      const open = new OpenBodies()
      const deliveries = given.flatMap(({ receivers, bytes }, event) =>
        Array.from({ length: receivers }, () => ({
          event,
          isOpen: false,
          id: receivers > 1 ? `${event}` : undefined,
          bytes,
        })),
      )
      for (const step of steps) {
        const one = deliveries[step % Math.max(1, deliveries.length)]
        if (!one) continue
        if (one.isOpen) open.remove('acme', one)
        else open.add('acme', one)
        one.isOpen = !one.isOpen
        const ids = new Set(deliveries.filter(({ isOpen }) => isOpen).map(({ event }) => event))
        expect(open.total).toBe([...ids].reduce((sum, event) => sum + (given[event]?.bytes ?? 0), 0))
      }
    }),
  )
})
