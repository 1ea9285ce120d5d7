import { describe, expect, it } from 'vitest'
import type { SegmentEvent } from '../../api/delivery-segment.ts'
import { KeyIndex } from './key-index.ts'

function event(key?: string, namespace = 'acme'): SegmentEvent {
  return { id: 'event', namespace, type: 'test.event', payload: '{}', ...(key === undefined ? {} : { key }) }
}

const MINUTE = 60_000

describe('of several places with one key', () => {
  it('the first counts, and every other is a repeat', () => {
    const keys = new KeyIndex()
    expect(keys.isRepeat(event('a'), 10, 0, 0)).toBe(false)
    expect(keys.isRepeat(event('a'), 10, 1, 0)).toBe(true)
    expect(keys.isRepeat(event('a'), 11, 0, 0)).toBe(true)
    expect(keys.has('acme', 'a')).toBe(true)
  })

  it('the first stays the first, however often it is shown', () => {
    const keys = new KeyIndex()
    keys.isRepeat(event('a'), 10, 3, 0)
    // Once for each of its deliveries, and again when the log is read back.
    expect(keys.isRepeat(event('a'), 10, 3, 0)).toBe(false)
    expect(keys.isRepeat(event('a'), 10, 3, MINUTE)).toBe(false)
  })

  it('each organization has its own', () => {
    const keys = new KeyIndex()
    keys.isRepeat(event('a'), 10, 0, 0)
    expect(keys.isRepeat(event('a', 'other'), 11, 0, 0)).toBe(false)
  })

  it('none is a repeat where there is no key', () => {
    const keys = new KeyIndex()
    expect(keys.isRepeat(event(), 10, 0, 0)).toBe(false)
    expect(keys.isRepeat(event(), 11, 0, 0)).toBe(false)
    expect(keys.size).toBe(0)
  })
})

describe('the index of keys', () => {
  it('forgets a key after a quarter of an hour', () => {
    const keys = new KeyIndex()
    keys.isRepeat(event('a'), 10, 0, 0)
    keys.isRepeat(event('b'), 11, 0, 10 * MINUTE)
    keys.isRepeat(event('c'), 12, 0, 16 * MINUTE)
    expect([keys.has('acme', 'a'), keys.has('acme', 'b'), keys.has('acme', 'c')]).toEqual([false, true, true])
  })

  it('remembers the newest of more keys than it may hold', () => {
    const keys = new KeyIndex(3)
    for (let i = 0; i < 10; i += 1) keys.isRepeat(event(`key-${i}`), 10 + i, 0, 0)
    expect(keys.size).toBe(3)
    expect(keys.has('acme', 'key-6')).toBe(false)
    expect(keys.isRepeat(event('key-7'), 30, 0, 0)).toBe(true)
  })
})
