import { describe, expect, it } from 'vitest'
import { AdaptivePageSize } from './resources.ts'

describe('the size of a page', () => {
  it('is small until the first page has told how large the objects are', () => {
    const size = new AdaptivePageSize()
    expect(size.limit('things', 500)).toBe(64)
    expect(size.limit('things', 20)).toBe(20)
    size.learn('things', { objects: 64, bytes: 64 * 1_600 })
    expect(size.limit('things', 500)).toBe(500)
    expect(size.limit('others', 500)).toBe(64)
  })

  it('keeps a page of large objects near 4 MiB, and has at least one', () => {
    const size = new AdaptivePageSize()
    size.learn('segments', { objects: 10, bytes: 10 * 256 * 1024 })
    expect(size.limit('segments', 500)).toBe(16)
    size.learn('giants', { objects: 1, bytes: 100_000_000 })
    expect(size.limit('giants', 500)).toBe(1)
  })

  it('learns nothing from an empty page', () => {
    const size = new AdaptivePageSize()
    size.learn('things', { objects: 0, bytes: 200 })
    expect(size.limit('things', 500)).toBe(64)
  })
})
