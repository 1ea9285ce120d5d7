import { describe, expect, it } from 'vitest'
import { derivedName } from '../../apis/ids.ts'
import { DedupeIndex, KEY_LIFE_MS } from './idempotency-keys.ts'

function event(key?: string, namespace = 'acme') {
  return { id: 'event', namespace, receivers: 2, ...(key === undefined ? {} : { key }) }
}

const MINUTE = 60_000

describe('of several places with one key', () => {
  it('the first counts, and every other is a repeat', () => {
    const keys = new DedupeIndex()
    expect(keys.isDuplicate(event('a'), 10, 0, 0)).toBe(false)
    expect(keys.isDuplicate(event('a'), 10, 1, 0)).toBe(true)
    expect(keys.isDuplicate(event('a'), 11, 0, 0)).toBe(true)
    expect(keys.receiversOf('acme', 'a', 0)).toBe(2)
  })

  it('the first stays the first, however often it is shown', () => {
    const keys = new DedupeIndex()
    keys.isDuplicate(event('a'), 10, 3, 0)
    // Once for each of its deliveries, and again when the log is read back.
    expect(keys.isDuplicate(event('a'), 10, 3, 0)).toBe(false)
    expect(keys.isDuplicate(event('a'), 10, 3, MINUTE)).toBe(false)
  })

  it('each organization has its own', () => {
    const keys = new DedupeIndex()
    keys.isDuplicate(event('a'), 10, 0, 0)
    expect(keys.isDuplicate(event('a', 'other'), 11, 0, 0)).toBe(false)
  })

  it('none is a repeat where there is no key', () => {
    const keys = new DedupeIndex()
    expect(keys.isDuplicate(event(), 10, 0, 0)).toBe(false)
    expect(keys.isDuplicate(event(), 11, 0, 0)).toBe(false)
    expect(keys.size).toBe(0)
  })
})

describe('a key that is used again', () => {
  const AT = Date.UTC(2026, 0, 1)
  const used = (ms: number) => ({ ...event('a'), id: derivedName(AT + ms, `use ${ms}`) })

  it.each([
    { after: KEY_LIFE_MS - 1, repeat: true },
    { after: KEY_LIFE_MS, repeat: false },
  ])('$after ms after the first is a repeat: $repeat', ({ after, repeat }) => {
    const keys = new DedupeIndex()
    expect(keys.isDuplicate(used(0), 10, 0, AT)).toBe(false)
    // However late it is shown.
    expect(keys.isDuplicate(used(after), 11, 0, AT + 5 * MINUTE)).toBe(repeat)
    expect(keys.isDuplicate(used(after), 12, 0, AT + 5 * MINUTE)).toBe(true)
  })

  const HOUR = 60 * MINUTE
  const YEAR = 365 * KEY_LIFE_MS

  it.each([
    { after: KEY_LIFE_MS - HOUR, repeat: true },
    { after: KEY_LIFE_MS + HOUR, repeat: false },
  ])('$after ms after a first use by a clock a year ahead is a repeat: $repeat', ({ after, repeat }) => {
    const keys = new DedupeIndex()
    keys.segmentSeen(10, AT + YEAR)
    keys.isDuplicate(used(YEAR), 10, 0, 0)
    // The clock was set right.
    keys.segmentSeen(11, AT + 1000)
    keys.segmentSeen(20, AT + after)
    expect(keys.isDuplicate(used(after), 20, 0, 1)).toBe(repeat)
  })

  it.each([
    { order: 'first', ms: [YEAR, 0] },
    { order: 'second', ms: [0, YEAR] },
  ])('at the same time, by clocks of which the $order is a year ahead, is a repeat', ({ ms }) => {
    const keys = new DedupeIndex()
    const repeats = ms.map((ahead, at) => {
      // By the clock of the reader, which is right.
      keys.segmentSeen(10 + at, AT)
      return keys.isDuplicate(used(ahead), 10 + at, 0, at)
    })
    expect(repeats).toEqual([false, true])
  })

  it('is kept as long as any other', () => {
    const keys = new DedupeIndex()
    keys.isDuplicate(used(0), 10, 0, AT)
    keys.isDuplicate(used(KEY_LIFE_MS), 11, 0, AT + 14 * MINUTE)
    keys.isDuplicate(event('b'), 12, 0, AT + 16 * MINUTE)
    expect(keys.receiversOf('acme', 'a', 0)).toBe(2)
  })
})

describe('the index of keys', () => {
  it('forgets a key after a quarter of an hour', () => {
    const keys = new DedupeIndex()
    keys.isDuplicate(event('a'), 10, 0, 0)
    keys.isDuplicate(event('b'), 11, 0, 10 * MINUTE)
    keys.isDuplicate(event('c'), 12, 0, 16 * MINUTE)
    expect(['a', 'b', 'c'].map((key) => keys.receiversOf('acme', key, 0))).toEqual([undefined, 2, 2])
  })

  it('keeps one that is asked for again and again, and what it was the first of', () => {
    const keys = new DedupeIndex()
    keys.isDuplicate(event('a'), 10, 0, 0)
    for (let minute = 1; minute < 60; minute += 1) {
      keys.isDuplicate(event(`other-${minute}`), 10 + minute, 0, minute * MINUTE)
      if (minute % 10 === 0) expect(keys.receiversOf('acme', 'a', minute * MINUTE)).toBe(2)
    }
    expect(keys.isDuplicate(event('a'), 10, 0, 60 * MINUTE)).toBe(false)
    expect(keys.isDuplicate(event('a'), 99, 0, 60 * MINUTE)).toBe(true)
  })

  it('remembers the newest of more keys than it may hold', () => {
    const keys = new DedupeIndex(3)
    for (let i = 0; i < 10; i += 1) keys.isDuplicate(event(`key-${i}`), 10 + i, 0, 0)
    expect(keys.size).toBe(3)
    expect(keys.receiversOf('acme', 'key-6', 0)).toBeUndefined()
    expect(keys.isDuplicate(event('key-7'), 30, 0, 0)).toBe(true)
  })
})
