import { beforeEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { StickyAllowCache } from './auth.ts'

let clock: FakeClock
let known: StickyAllowCache

beforeEach(() => {
  clock = new FakeClock()
  known = new StickyAllowCache(clock, 2, 1000)
})

test('a refusal of what was good is doubted until it has lasted, and then believed', () => {
  known.accepted('a')
  expect(known.refused('a')).toBe(true)
  clock.advance(999)
  expect(known.refused('a')).toBe(true)
  clock.advance(1)
  expect(known.refused('a')).toBe(false)
  expect(known.has('a')).toBe(false)
})

test('an acceptance ends the doubt', () => {
  known.accepted('a')
  known.refused('a')
  clock.advance(900)
  known.accepted('a')
  clock.advance(900)
  expect(known.refused('a')).toBe(true)
})

test('what was never good is refused, and so is what was good an hour ago', () => {
  expect(known.refused('a')).toBe(false)
  known.accepted('a')
  clock.advance(3_600_001)
  expect(known.refused('a')).toBe(false)
})

test('no more are remembered than may be: those that came up last', () => {
  for (const name of ['a', 'b', 'c']) known.accepted(name)
  expect(['a', 'b', 'c'].map((name) => known.has(name))).toEqual([false, true, true])
})
