import { expect, it } from 'vitest'
import { ShardClaims } from './fencing.ts'

it('believes everybody of a shard that nobody has claimed', () => {
  const claims = new ShardClaims()
  expect(claims.isFenced(3, 100, 'a')).toBe(false)
  expect(claims.isHeldBy([3], 'a')).toBe(false)
})

it('makes void what the one before says after a claim, and not what was said before', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3, 4], { version: 10, writer: 'a' })
  claims.recordClaim([3], { version: 20, writer: 'b' })
  expect(claims.isFenced(3, 19, 'a')).toBe(false)
  expect(claims.isFenced(3, 20, 'a')).toBe(true)
  expect(claims.isFenced(3, 25, 'a')).toBe(true)
  expect(claims.isFenced(3, 25, 'b')).toBe(false)
  expect(claims.isFenced(3, 15, 'b')).toBe(true)
  expect(claims.isFenced(4, 25, 'a')).toBe(false)
})

it('says that shards are held only where the last claim to each of them is the own one', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3, 4], { version: 10, writer: 'a' })
  expect(claims.isHeldBy([3, 4], 'a')).toBe(true)
  claims.recordClaim([4], { version: 11, writer: 'b' })
  expect(claims.isHeldBy([3, 4], 'a')).toBe(false)
  expect(claims.isHeldBy([3], 'a')).toBe(true)
  claims.recordClaim([4], { version: 12, writer: 'a' })
  expect(claims.isHeldBy([3, 4], 'a')).toBe(true)
})

it('keeps the first of two claims of one writer in a row, so that nothing between them becomes void', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3], { version: 10, writer: 'a' })
  claims.recordClaim([3], { version: 30, writer: 'a' })
  expect(claims.isFenced(3, 20, 'a')).toBe(false)
  expect(claims.isFenced(3, 20, 'b')).toBe(true)
})

it('knows the newest claims, however many there were', () => {
  const claims = new ShardClaims()
  for (let n = 1; n <= 50; n += 1) claims.recordClaim([3], { version: n, writer: `w${n}` })
  expect(claims.isHeldBy([3], 'w50')).toBe(true)
  expect(claims.isFenced(3, 49, 'w49')).toBe(false)
  expect(claims.isFenced(3, 50, 'w49')).toBe(true)
})

it('counts owners that have ended in a row, until one lives for long or hands over', () => {
  const claims = new ShardClaims()
  const MINUTE = 60_000
  const ends = (writer: string, minutes: number) => claims.endsBefore(3, writer, minutes * MINUTE)
  const claim = (writer: string, version: number, minutes: number) =>
    claims.apply(
      { kind: 'claim', shards: [3], after: version - 1, ends: ends(writer, minutes) },
      { version, writer, createdAt: minutes * MINUTE },
      0,
    )
  expect(ends('a', 0)).toBe(0)
  claim('a', 10, 0)
  expect([ends('a', 1), ends('b', 1)]).toEqual([0, 1])
  claim('b', 20, 1)
  claim('c', 30, 2)
  expect([claims.endsOf(3), ends('c', 3), ends('d', 3), ends('d', 12)]).toEqual([2, 2, 3, 1])
  const calm = { kind: 'calm', shards: [3], after: 29 } as const
  claims.apply(calm, { version: 31, writer: 'b' }, 0)
  claims.apply(calm, { version: 32, writer: 'c' }, 0)
  expect(claims.endsOf(3)).toBe(2)
  claims.apply({ ...calm, after: 30 }, { version: 33, writer: 'c' }, 0)
  expect([claims.endsOf(3), ends('d', 3)]).toEqual([0, 1])
  claims.apply({ ...calm, kind: 'release', after: 33 }, { version: 34, writer: 'c' }, 0)
  expect(ends('d', 3)).toBe(0)
})

it('counts an end after a claim that it cannot verify as well', () => {
  const claims = new ShardClaims()
  const claim = { kind: 'claim', shards: [3], after: 5, ends: 2 } as const
  claims.apply(claim, { version: 10, writer: 'a', createdAt: 0 }, 6)
  expect([claims.endsBefore(3, 'a', 0), claims.endsBefore(3, 'b', 0)]).toEqual([2, 3])
  claims.apply({ kind: 'calm', shards: [3], after: 10 }, { version: 11, writer: 'a' }, 6)
  expect(claims.endsBefore(3, 'b', 0)).toBe(1)
  claims.apply({ kind: 'release', shards: [3], after: 11 }, { version: 12, writer: 'a' }, 6)
  expect(claims.endsBefore(3, 'b', 0)).toBe(0)
})

it('knows whether the one before had handed the shard over before the last claim', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3, 4], { version: 10, writer: 'a' })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
  claims.recordRelease([3], { version: 20, writer: 'a' })
  claims.recordClaim([3, 4], { version: 30, writer: 'b' })
  expect([claims.wasReleasedCleanly(3), claims.wasReleasedCleanly(4)]).toEqual([true, false])
  // What it had taken in order it has not handed over.
  claims.recordClaim([3], { version: 40, writer: 'c' })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
})

it('knows so of a writer that takes back what it has handed over', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3], { version: 10, writer: 'a' })
  claims.recordClaim([3], { version: 11, writer: 'a' })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
  claims.recordRelease([3], { version: 20, writer: 'a' })
  claims.recordClaim([3], { version: 30, writer: 'a' })
  expect(claims.wasReleasedCleanly(3)).toBe(true)
  // Not handed over since: what was begun meanwhile may have been given up unanswered.
  claims.recordClaim([3], { version: 31, writer: 'a' })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
})

it('takes a claim that was written twice, or by one who has not read his last one, for no new beginning', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3], { version: 10, writer: 'a' })
  claims.recordRelease([3], { version: 20, writer: 'a' })
  claims.recordClaim([3], { version: 30, writer: 'b', after: 20 })
  claims.recordClaim([3], { version: 31, writer: 'b', after: 20 })
  claims.recordClaim([3], { version: 32, writer: 'b', after: 30 })
  expect(claims.wasReleasedCleanly(3)).toBe(true)
  claims.recordClaim([3], { version: 33, writer: 'b', after: 32 })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
  claims.recordClaim([3], { version: 34, writer: 'b', after: 32 })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
})

it('believes nobody who hands over what another one has claimed', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3], { version: 10, writer: 'a' })
  claims.recordClaim([3], { version: 20, writer: 'b' })
  claims.recordRelease([3], { version: 30, writer: 'a' })
  claims.recordClaim([3], { version: 40, writer: 'c' })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
})

it('believes whoever hands over what it has claimed so long ago that the log does not show it any more', () => {
  const claims = new ShardClaims()
  claims.recordRelease([3], { version: 30, writer: 'a' })
  claims.recordClaim([3], { version: 40, writer: 'b' })
  expect(claims.wasReleasedCleanly(3)).toBe(true)
  expect(claims.isFenced(3, 50, 'a')).toBe(true)
  expect(claims.since(3)).toBe(40)
  expect(claims.since(4)).toBe(0)
})

it('takes a claim for late whose writer did not know of the claim of another one, and for good once it does', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3, 4], { version: 10, writer: 'a', after: 9 })
  expect(claims.recordClaim([3], { version: 20, writer: 'b', after: 10 })).toEqual([3])
  expect(claims.recordClaim([3, 4], { version: 30, writer: 'c', after: 19 })).toEqual([4])
  expect(claims.isHeldBy([3], 'b')).toBe(true)
  expect(claims.isFenced(3, 31, 'b')).toBe(false)
  expect(claims.isFenced(3, 31, 'c')).toBe(true)
  expect(claims.recordClaim([3], { version: 40, writer: 'c', after: 30 })).toEqual([3])
  expect(claims.isFenced(3, 41, 'b')).toBe(true)
})

it('takes a claim for late though the one that came before it has been released meanwhile', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3], { version: 20, writer: 'b', after: 10 })
  claims.recordRelease([3], { version: 25, writer: 'b', after: 20 })
  expect(claims.recordClaim([3], { version: 30, writer: 'c', after: 19 })).toEqual([])
  expect(claims.recordClaim([3], { version: 31, writer: 'c', after: 20 })).toEqual([3])
  expect(claims.wasReleasedCleanly(3)).toBe(true)
})

it('takes a release for late whose writer has claimed the shard again since', () => {
  const claims = new ShardClaims()
  claims.recordClaim([3], { version: 10, writer: 'a', after: 9 })
  claims.recordClaim([3], { version: 20, writer: 'a', after: 19 })
  claims.recordRelease([3], { version: 30, writer: 'a', after: 10 })
  claims.recordClaim([3], { version: 40, writer: 'b', after: 30 })
  expect(claims.wasReleasedCleanly(3)).toBe(false)
  claims.recordRelease([3], { version: 50, writer: 'b', after: 40 })
  claims.recordClaim([3], { version: 60, writer: 'c', after: 50 })
  expect(claims.wasReleasedCleanly(3)).toBe(true)
})

it('takes a claim for no late one whose writer knew the claim, and not the release, of a shard that is free', () => {
  const claims = new ShardClaims()
  claims.recordRelease([3], { version: 30, writer: 'a', after: 20 })
  expect(claims.recordClaim([3], { version: 40, writer: 'b', after: 25 })).toEqual([3])
  expect(claims.wasReleasedCleanly(3)).toBe(true)
})

it('believes everybody again where one who knew less has claimed what another one, whose claim is not known, has handed over', () => {
  const claims = new ShardClaims()
  claims.recordRelease([1], { version: 10, writer: 'a', after: 9 })
  claims.recordClaim([2], { version: 11, writer: 'a', after: 9 })
  claims.markUnverifiable([1, 2], { version: 20, writer: 'b' })
  expect(claims.isFenced(1, 20, 'b')).toBe(false)
  expect(claims.wasReleasedCleanly(1)).toBe(false)
  // A claim that is known came after all that the other one knew.
  expect(claims.isFenced(2, 20, 'b')).toBe(true)
})

it('believes everybody after a claim that cannot be judged, until somebody claims the shard who knew of it', () => {
  const claims = new ShardClaims()
  // That of b may have been good: then a's is late, as it says, and so is its release.
  claims.markUnverifiable([1], { version: 20, writer: 'b' })
  expect(claims.recordClaim([1], { version: 30, writer: 'a', after: 15 })).toEqual([])
  claims.recordRelease([1], { version: 31, writer: 'a', after: 15 })
  expect(claims.isFenced(1, 40, 'b')).toBe(false)
  expect(claims.isFenced(1, 40, 'a')).toBe(false)
  // Whoever has not known of a's claim cannot be judged either.
  expect(claims.recordClaim([1], { version: 41, writer: 'c', after: 29 })).toEqual([])
  expect(claims.recordClaim([1], { version: 50, writer: 'c', after: 41 })).toEqual([1])
  expect(claims.isFenced(1, 60, 'b')).toBe(true)
  expect(claims.isFenced(1, 45, 'b')).toBe(false)
})
