import { expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { createSyncedClock } from './time.ts'

const HOUR = 3_600_000

function dateOf(ms: number): string {
  return new Date(ms).toUTCString()
}

test('is the clock of the machine before anything was heard, and while that is not behind', () => {
  const machine = new FakeClock()
  const clock = createSyncedClock(machine)
  expect(clock.now()).toBe(machine.now())
  clock.observeServerDate(dateOf(machine.now() - HOUR))
  expect(clock.now()).toBe(machine.now())
  clock.observeServerDate(dateOf(machine.now() + 1000))
  expect(clock.now()).toBe(machine.now())
})

test('goes by the API server where the machine is behind, from then on, however that is set back', () => {
  const machine = new FakeClock()
  const clock = createSyncedClock(machine)
  const theirs = Math.ceil(machine.now() / 1000) * 1000 + HOUR
  clock.observeServerDate(dateOf(theirs))
  expect(clock.now()).toBe(theirs)
  machine.advance(5000)
  expect(clock.now()).toBe(theirs + 5000)
  machine.setWallBy(-10 * HOUR)
  expect(clock.now()).toBe(theirs + 5000)
  // An answer that was long on its way.
  clock.observeServerDate(dateOf(theirs))
  expect(clock.now()).toBe(theirs + 5000)
})

test('is set back with the API server, and takes nothing for a time that is none', () => {
  const machine = new FakeClock()
  const clock = createSyncedClock(machine)
  clock.observeServerDate(dateOf(machine.now() + HOUR))
  clock.observeServerDate('soon')
  clock.observeServerDate(dateOf(machine.now() - HOUR))
  expect(clock.now()).toBe(machine.now())
})

test('goes by the API server where the machine is farther ahead than it may be', () => {
  const machine = new FakeClock()
  const clock = createSyncedClock(machine, { aheadMs: 60_000 })
  const theirs = Math.floor(machine.now() / 1000) * 1000
  clock.observeServerDate(dateOf(theirs))
  machine.setWallBy(59_000)
  expect(clock.now()).toBe(machine.now())
  machine.setWallBy(24 * HOUR)
  expect(clock.now()).toBe(theirs)
  machine.advance(5000)
  expect(clock.now()).toBe(theirs + 5000)
  machine.setWallBy(-24 * HOUR)
  expect(clock.now()).toBe(machine.now())
})

test('tells whole milliseconds, as the stamps that it is compared with', () => {
  const machine = new FakeClock()
  const clock = createSyncedClock(machine)
  const theirs = Math.ceil(machine.now() / 1000) * 1000 + HOUR
  clock.observeServerDate(dateOf(theirs))
  machine.advance(10.75)
  expect(clock.now()).toBe(theirs + 10)
})
