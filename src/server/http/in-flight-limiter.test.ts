import { expect, test } from 'vitest'
import { InFlightLimiter } from './limits.ts'

const overloaded = expect.objectContaining({ code: 'overloaded' })
const LIMITS = {
  requests: 2,
  requestsPerOrganization: 2,
  bytesInFlight: 1_000,
  bytesPerOrganization: 500,
  bodyBytes: 1,
}

test('what was given back is there again, and giving back twice gives no more', () => {
  const load = new InFlightLimiter(LIMITS)
  const leave = load.enter()
  load.enter()
  expect(() => load.enter()).toThrow(overloaded)
  leave()
  leave()
  expect(load.requests).toBe(1)
  const first = load.reserve('acme', 300)
  expect(() => load.reserve('acme', 201)).toThrow(overloaded)
  load.reserve('acme', 200)
  first.release()
  first.release()
  expect(load.bytes).toBe(200)
})

test('a reservation shrinks to what was needed, and does not grow', () => {
  const load = new InFlightLimiter(LIMITS)
  const reservation = load.reserve('acme', 500)
  reservation.shrinkTo(20)
  expect(load.bytes).toBe(20)
  reservation.shrinkTo(400)
  expect(load.bytes).toBe(20)
  reservation.release()
  reservation.shrinkTo(10)
  expect(load.bytes).toBe(0)
})

test('a reservation grows where there is room, and holds beyond that only what must be held', () => {
  const load = new InFlightLimiter(LIMITS)
  const reservation = load.reserve('acme', 100)
  reservation.resizeTo(500)
  expect(load.bytes).toBe(500)
  expect(() => reservation.resizeTo(501)).toThrow(overloaded)
  expect(load.bytes).toBe(500)
  reservation.resizeTo(10)
  reservation.hold(2_000)
  expect(load.bytes).toBe(2_000)
  reservation.release()
  expect(load.bytes).toBe(0)
})

test('organizations that take their whole share leave memory to those that use little', () => {
  const load = new InFlightLimiter(LIMITS)
  load.reserve('acme', 500)
  expect(() => load.reserve('acme', 1)).toThrow(overloaded)
  load.reserve('umbrella', 400)
  // A tenth is left, for shares of a twentieth of it.
  expect(() => load.reserve('umbrella', 6)).toThrow(overloaded)
  expect(() => load.reserve('globex', 6)).toThrow(overloaded)
  load.reserve('globex', 5)
  expect(load.bytes).toBe(905)
})

test('one organization that holds more than its share takes nothing from the others', () => {
  const load = new InFlightLimiter(LIMITS)
  load.reserve('acme', 10).hold(5_000)
  load.reserve('umbrella', 400)
  expect(() => load.reserve('umbrella', 101)).toThrow(overloaded)
  expect(() => load.reserve('acme', 1)).toThrow(overloaded)
})

test('a share of the reserve is enough for one event of the largest size', () => {
  const load = new InFlightLimiter({ ...LIMITS, bodyBytes: 10 })
  for (const organization of ['acme', 'umbrella']) load.reserve(organization, 450)
  load.reserve('globex', 40)
  expect(() => load.reserve('globex', 1)).toThrow(overloaded)
  load.reserve('initech', 40)
  expect(() => load.reserve('hooli', 40)).toThrow(overloaded)
  load.reserve('hooli', 20)
  expect(load.bytes).toBe(1_000)
})

test('requests of one organization are not more than its share', () => {
  const load = new InFlightLimiter({ ...LIMITS, requests: 100, requestsPerOrganization: 50 })
  const admit = (organization: string, count: number) =>
    Array.from({ length: count }, () => load.admit(organization))
  const [leave] = admit('acme', 50)
  expect(() => load.admit('acme')).toThrow(overloaded)
  admit('umbrella', 39)
  leave?.()
  leave?.()
  load.admit('acme')
  expect(() => load.admit('acme')).toThrow(overloaded)
  load.admit('umbrella')
  expect(() => load.admit('umbrella')).toThrow(overloaded)
  load.admit('globex')
})
