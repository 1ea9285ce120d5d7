import { expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { LeaseValidity } from './own-lease.ts'

const HOLDS_MS = 6000

function renewedLease() {
  const clock = new FakeClock()
  const lease = new LeaseValidity(clock, HOLDS_MS)
  lease.renewed(lease.moment())
  return { clock, lease }
}

it('is not valid before it was renewed', () => {
  const lease = new LeaseValidity(new FakeClock(), HOLDS_MS)
  expect(lease.isValid).toBe(false)
  expect(lease.ageMs).toBe(Number.POSITIVE_INFINITY)
})

it('holds until its time is over, from when the renewal was asked for', () => {
  const { clock, lease } = renewedLease()
  const asked = lease.moment()
  clock.advance(2000)
  lease.renewed(asked)
  expect(lease.ageMs).toBe(2000)
  clock.advance(HOLDS_MS - 2001)
  expect(lease.isValid).toBe(true)
  clock.advance(1)
  expect(lease.isValid).toBe(false)
})

it('ends by the wall clock where the monotonic one stood still, as on a machine that slept', () => {
  const { clock, lease } = renewedLease()
  clock.setWallBy(HOLDS_MS)
  expect(lease.isValid).toBe(false)
  expect(lease.ageMs).toBe(HOLDS_MS)
})

it('ends by the monotonic clock where the wall clock was set back', () => {
  const { clock, lease } = renewedLease()
  clock.setWallBy(-3_600_000)
  expect(lease.isValid).toBe(true)
  clock.advance(HOLDS_MS)
  expect(lease.isValid).toBe(false)
  expect(lease.ageMs).toBe(HOLDS_MS)
})

it('is as old as the clock says that tells more, however long the process has run before', () => {
  const clock = new FakeClock()
  clock.advance(50_000)
  const lease = new LeaseValidity(clock, HOLDS_MS)
  lease.renewed(lease.moment())
  clock.advance(1000)
  expect(lease.ageMs).toBe(1000)
  clock.setWallBy(-500)
  expect(lease.ageMs).toBe(1000)
  clock.setWallBy(1500)
  expect(lease.ageMs).toBe(2000)
})
