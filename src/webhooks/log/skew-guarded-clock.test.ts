import { expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { SkewGuardedClock } from './retention-loop.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

test('time goes on as the clock does', () => {
  const clock = new FakeClock()
  const time = new SkewGuardedClock(clock)
  clock.advance(3 * DAY)
  expect(time.now()).toBe(clock.now())
})

test('a clock that is set a day ahead and mended within the hour makes nothing older', () => {
  const clock = new FakeClock()
  const time = new SkewGuardedClock(clock)
  const before = time.now()
  clock.setWallBy(DAY)
  expect(time.now()).toBe(before)
  clock.advance(HOUR - 1)
  expect(time.now()).toBe(before + HOUR - 1)
  clock.setWallBy(-DAY)
  expect(time.now()).toBe(clock.now())
  clock.setWallBy(DAY)
  expect(time.now()).toBe(before + HOUR - 1)
})

test('a time that has stood for an hour is believed: the machine may have slept, also now and then', () => {
  const clock = new FakeClock()
  const time = new SkewGuardedClock(clock)
  clock.setWallBy(DAY)
  const before = time.now()
  for (let minutes = 5; minutes < 60; minutes += 5) {
    clock.advance(5 * MINUTE)
    if (minutes === 30) clock.setWallBy(2 * MINUTE)
    expect(time.now()).toBe(before + minutes * MINUTE)
  }
  clock.advance(5 * MINUTE)
  expect(time.now()).toBe(clock.now() - 2 * MINUTE)
})

test('a doubt of days ago says nothing of a clock that is ahead now, by another time', () => {
  const clock = new FakeClock()
  const time = new SkewGuardedClock(clock)
  clock.setWallBy(DAY)
  const before = time.now()
  clock.setWallBy(-DAY)
  clock.advance(3 * DAY)
  clock.setWallBy(2 * DAY)
  expect(time.now()).toBe(before + 3 * DAY)
})

test('small corrections, and a clock that is set back, are taken at once', () => {
  const clock = new FakeClock()
  const time = new SkewGuardedClock(clock)
  clock.setWallBy(MINUTE)
  expect(time.now()).toBe(clock.now())
  clock.setWallBy(-DAY)
  expect(time.now()).toBe(clock.now())
})
