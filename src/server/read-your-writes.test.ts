import { expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { ReadYourWritesMonitor } from './watches.ts'

/** Its timers come late. */
class LateClock extends FakeClock {
  lateMs = 0

  override monotonic(): number {
    return super.monotonic() + this.lateMs
  }
}

function bed() {
  const clock = new LateClock()
  const watch = { version: 100, reopened: 0 }
  const check = new ReadYourWritesMonitor(
    clock,
    () => watch.version,
    () => {
      watch.reopened += 1
    },
  )
  return { clock, watch, check }
}

test('a watch that shows what was appended is left alone, and nothing is looked at any more', () => {
  const { clock, watch, check } = bed()
  check.appended(101)
  watch.version = 101
  clock.advance(10_000)
  expect(watch.reopened).toBe(0)
  expect(check.isBehind).toBe(false)
  expect(clock.pending).toBe(0)
})

test('a watch that shows nothing of it for two seconds is opened anew, and again until it does', () => {
  const { clock, watch, check } = bed()
  check.appended(101)
  clock.advance(1999)
  expect([watch.reopened, check.isBehind]).toEqual([0, false])
  clock.advance(1)
  expect([watch.reopened, check.isBehind]).toEqual([1, true])
  clock.advance(4000)
  expect(watch.reopened).toBe(2)
  watch.version = 105
  expect(check.isBehind).toBe(false)
  clock.advance(2000)
  expect(watch.reopened).toBe(2)
  expect(clock.pending).toBe(0)
})

test('a watch that gets on too slowly is behind, and goes on', () => {
  const { clock, watch, check } = bed()
  for (let second = 0; second < 20; second += 1) {
    check.appended(200 + 10 * second)
    watch.version += 1
    clock.advance(1000)
  }
  expect([watch.reopened, check.isBehind]).toEqual([0, true])
  watch.version = 400
  expect(check.isBehind).toBe(false)
})

test('appends that come all the time do not put off the look at those before', () => {
  const { clock, watch, check } = bed()
  for (let append = 0; append < 50; append += 1) {
    check.appended(101 + append)
    clock.advance(100)
  }
  expect(watch.reopened).toBe(1)
})

test('a watch that is opened anew gets twice the time before, so that one that is slow to begin comes to its beginning', () => {
  const { clock, watch, check } = bed()
  const opened: number[] = []
  for (let second = 1; second <= 130; second += 1) {
    check.appended(100 + second)
    clock.advance(1000)
    while (opened.length < watch.reopened) opened.push(second)
  }
  expect(opened).toEqual([2, 6, 14, 30, 62, 94, 126])
  watch.version = 300
  clock.advance(60_000)
  check.appended(301)
  clock.advance(2000)
  expect([watch.reopened, check.isBehind]).toEqual([8, true])
})

test('a process that stood still looks again, before it takes the watch for dead', () => {
  const { clock, watch, check } = bed()
  check.appended(101)
  clock.lateMs = 3000
  clock.advance(2000)
  expect([watch.reopened, check.isBehind]).toEqual([0, false])
  clock.advance(2000)
  expect([watch.reopened, check.isBehind]).toEqual([1, true])
})
