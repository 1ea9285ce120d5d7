import { expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { QUEUE_ENDPOINT, queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { EndpointQueue } from './endpoint-queue.ts'
import { ObjectBackedDeliveries, offsetKey } from './remote-deliveries.ts'

const queue = new EndpointQueue(QUEUE_ENDPOINT)

it('finds a delivery by its place, until it is taken out', () => {
  const shown = new ObjectBackedDeliveries()
  const one = queueDelivery(queue, 7)
  shown.add(one)
  expect(shown.at({ version: 7, index: 0 })).toBe(one)
  expect(shown.has(one)).toBe(true)
  expect(shown.at({ version: 7, index: 1 })).toBeUndefined()
  shown.delete(one)
  expect(shown.at(one)).toBeUndefined()
  expect(shown.has(one)).toBe(false)
})

it('does not lose the one at a place when another of that place is taken out', () => {
  const shown = new ObjectBackedDeliveries()
  const one = queueDelivery(queue, 7)
  const other = queueDelivery(queue, 7)
  shown.add(one)
  expect(shown.has(other)).toBe(false)
  shown.delete(other)
  expect(shown.at(one)).toBe(one)
})

it('goes through them in the order in which they came, also those that come or leave meanwhile', () => {
  const shown = new ObjectBackedDeliveries()
  const [first, second, third] = [9, 3, 5].map((version) => queueDelivery(queue, version))
  if (!first || !second || !third) throw new Error('there are three')
  shown.add(first)
  shown.add(second)
  const all = shown.values()
  expect(all.next().value).toBe(first)
  shown.delete(second)
  shown.add(third)
  expect(all.next().value).toBe(third)
  expect(all.next().done).toBe(true)
})

it('has a number of its own for each place, up to versions of eleven digits', () => {
  const place = fc.record({ version: fc.integer({ min: 0, max: 99_999_999_999 }), index: fc.nat(65_535) })
  fc.assert(
    fc.property(place, place, (one, other) => {
      const isSame = one.version === other.version && one.index === other.index
      expect(offsetKey(one) === offsetKey(other)).toBe(isSame)
      expect(offsetKey({ ...one, index: (one.index + 1) % 65_536 })).not.toBe(offsetKey(one))
    }),
  )
  expect(Number.isSafeInteger(offsetKey({ version: 99_999_999_999, index: 65_535 }))).toBe(true)
})
