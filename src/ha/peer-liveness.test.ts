import { describe, expect, it } from 'vitest'
import { assignShards } from './assignment.ts'
import { Peers } from './peer-liveness.ts'
import type { StoredRecord } from './replica-leases.ts'

const LEASE_MS = 9000
const DRAIN_MS = 21_000
const SHARDS = 8

function recordOf(name: string, more: Partial<StoredRecord> = {}): StoredRecord {
  return { name, session: `${name}.1`, view: [name], draining: [], leaseMs: LEASE_MS, version: '1', ...more }
}

const ALL = Array.from({ length: SHARDS }, (_, shard) => shard)

/** Seen for the first time at 0, by a list that was answered at once. */
function seeing(...records: StoredRecord[]) {
  const neighbours = new Peers({ name: 'me', shards: SHARDS, drainMs: DRAIN_MS })
  neighbours.update(records, 0, 0)
  return neighbours
}

/** Shards that somebody has, or may have work in progress of. */
function taken(neighbours: Peers): number[] {
  return ALL.filter((shard) => neighbours.claimOf(shard) !== 'none')
}

describe('who has a view', () => {
  it('is a member until its lease has ended, and has its shards for as long as something may be under way', () => {
    const record = recordOf('a')
    const neighbours = seeing(record)
    for (const at of [0, LEASE_MS - 1]) {
      neighbours.update([record], at, at)
      expect([neighbours.members(), taken(neighbours), neighbours.staleRecords()]).toEqual([['a'], ALL, []])
      expect(neighbours.claimOf(0)).toBe('live')
    }
    for (const at of [LEASE_MS, LEASE_MS + DRAIN_MS - 1]) {
      neighbours.update([record], at, at)
      expect([neighbours.members(), taken(neighbours), neighbours.staleRecords()]).toEqual([[], ALL, []])
      expect(neighbours.claimOf(0)).toBe('expired')
    }
    const at = LEASE_MS + DRAIN_MS
    neighbours.update([record], at, at)
    expect([neighbours.members(), taken(neighbours)]).toEqual([[], []])
    expect(neighbours.staleRecords()).toEqual([record])
  })

  it('is there again with each renewal', () => {
    const neighbours = seeing(recordOf('a'))
    neighbours.update([recordOf('a', { version: '2' })], LEASE_MS - 1, LEASE_MS - 1)
    neighbours.update([recordOf('a', { version: '2' })], LEASE_MS + 100, LEASE_MS + 100)
    expect(neighbours.members()).toEqual(['a'])
  })

  it('has what its own view gives to it, and no more', () => {
    const view = ['a', 'me']
    const neighbours = seeing(recordOf('a', { view }))
    const owners = assignShards(view, SHARDS)
    expect(taken(neighbours)).toEqual(ALL.filter((shard) => owners[shard] === 'a'))
  })
})

describe('the time of a record', () => {
  it('begins when the list was there, since it may have been written until then', () => {
    const neighbours = new Peers({ name: 'me', shards: SHARDS, drainMs: DRAIN_MS })
    const record = recordOf('a')
    neighbours.update([record], 0, 5000)
    const at = LEASE_MS + DRAIN_MS
    neighbours.update([record], at, at)
    expect(taken(neighbours)).toEqual(ALL)
    neighbours.update([record], at + 5000, at + 5000)
    expect(taken(neighbours)).toEqual([])
  })

  it('ends by when a list was asked for, since nothing that was written later is in it', () => {
    const record = recordOf('a')
    const neighbours = seeing(record)
    neighbours.update([record], LEASE_MS - 1, LEASE_MS + DRAIN_MS + 1)
    expect(neighbours.members()).toEqual(['a'])
  })
})

describe('what the watch shows ahead of a list', () => {
  const next = recordOf('a', { version: '2' })

  it('says from when on the lease of that version is timed', () => {
    const neighbours = seeing(recordOf('a'))
    neighbours.hear(next, 500)
    neighbours.update([next], 1900, 2000)
    neighbours.update([next], 500 + LEASE_MS - 1, 500 + LEASE_MS - 1)
    expect(neighbours.members()).toEqual(['a'])
    neighbours.update([next], 500 + LEASE_MS, 500 + LEASE_MS)
    expect(neighbours.members()).toEqual([])
  })

  it('changes nothing else, and is forgotten with a version that no list has', () => {
    const neighbours = seeing(recordOf('a'))
    neighbours.hear(recordOf('a', { version: '2', view: [], draining: [] }), 500)
    expect(taken(neighbours)).toEqual(ALL)
    neighbours.update([recordOf('a', { version: '3' })], 1000, 1000)
    neighbours.update([recordOf('a', { version: '3' })], 1000 + LEASE_MS - 1, 1000 + LEASE_MS - 1)
    expect(neighbours.members()).toEqual(['a'])
  })

  it.each([
    { what: 'a replica that is new', record: recordOf('b'), isNews: true },
    { what: 'another view', record: recordOf('a', { version: '2', view: ['a', 'me'] }), isNews: true },
    {
      what: 'other shards in progress',
      record: recordOf('a', { version: '2', draining: [1] }),
      isNews: true,
    },
    {
      what: 'another process of that name',
      record: recordOf('a', { version: '2', session: 'a.2' }),
      isNews: true,
    },
    { what: 'the first renewal, which a newcomer waits for', record: next, isNews: true },
    { what: 'what is listed', record: recordOf('a'), isNews: false },
    { what: 'the own record', record: recordOf('me', { version: '2' }), isNews: false },
  ])('is a reason to list if it is $what: $isNews', ({ record, isNews }) => {
    expect(seeing(recordOf('a')).hear(record, 100)).toBe(isNews)
  })

  it('is none for a later renewal of the same claims', () => {
    const neighbours = seeing(recordOf('a'))
    neighbours.update([next], 2000, 2000)
    expect(neighbours.hear(recordOf('a', { version: '3' }), 4000)).toBe(false)
  })
})

it('the next moment to look at is when a lease expires, then when its work has certainly ended', () => {
  const records = [recordOf('a'), recordOf('b', { leaseMs: 2 * LEASE_MS }), recordOf('c', { view: [] })]
  const neighbours = seeing(...records)
  const moments: number[] = []
  for (let at = neighbours.changesAt; Number.isFinite(at); at = neighbours.changesAt) {
    moments.push(at)
    neighbours.update(records, at, at)
  }
  expect(moments).toEqual([LEASE_MS, 2 * LEASE_MS, LEASE_MS + DRAIN_MS, 2 * LEASE_MS + DRAIN_MS])
})

describe('a record that somebody has removed', () => {
  it('may have claimed any shard since it was seen', () => {
    const record = recordOf('a', { view: ['a', 'me'] })
    const neighbours = seeing(record)
    neighbours.update([], 1000, 1000)
    expect(taken(neighbours)).toEqual(ALL)
    neighbours.update([{ ...record, version: '9' }], 2000, 2000)
    expect(taken(neighbours)).not.toEqual(ALL)
  })

  it('stands for what it stood for until nothing of it can be under way, and makes nobody a member', () => {
    const neighbours = seeing(recordOf('a'))
    neighbours.update([], 100, 100)
    expect([neighbours.members(), taken(neighbours), neighbours.staleRecords()]).toEqual([[], ALL, []])
    const at = LEASE_MS + DRAIN_MS
    neighbours.update([], at, at)
    neighbours.update([], at + 1, at + 1)
    expect(taken(neighbours)).toEqual([])
  })

  it('is a member again when it is written again', () => {
    const neighbours = seeing(recordOf('a'))
    neighbours.update([], 100, 100)
    neighbours.update([recordOf('a', { version: '2' })], 200, 200)
    expect(neighbours.members()).toEqual(['a'])
  })
})

describe('who leaves or comes', () => {
  it('has what it drains, and no other shard', () => {
    const neighbours = seeing(recordOf('a', { view: [], draining: [3, 5] }))
    expect([neighbours.members(), taken(neighbours)]).toEqual([[], [3, 5]])
  })

  it('with nothing left is taken away when its lease has ended', () => {
    const record = recordOf('a', { view: [] })
    const neighbours = seeing(record)
    neighbours.update([record], LEASE_MS - 1, LEASE_MS - 1)
    expect(neighbours.staleRecords()).toEqual([])
    neighbours.update([record], LEASE_MS, LEASE_MS)
    expect(neighbours.staleRecords()).toEqual([record])
  })
})

it('the own record is no neighbour’s', () => {
  const neighbours = seeing(recordOf('me', { draining: ALL }))
  expect([neighbours.members(), taken(neighbours)]).toEqual([[], []])
})

describe('a newcomer', () => {
  const renewed = (name: string, version: string) => recordOf(name, { version })

  it('is unsure while somebody who claims something was not heard of, and others were', () => {
    const neighbours = seeing(recordOf('a'), recordOf('b'))
    expect(neighbours.hasUnverifiedClaim).toBe(true)
    neighbours.update([renewed('a', '2'), recordOf('b')], 2000, 2000)
    expect(neighbours.hasUnverifiedClaim).toBe(true)
    neighbours.update([renewed('a', '2'), renewed('b', '2')], 2000, 2000)
    expect(neighbours.hasUnverifiedClaim).toBe(false)
  })

  it('is unsure beside those who were heard of until the silent one has been counted out', () => {
    const neighbours = seeing(recordOf('a'), recordOf('b'))
    const at = LEASE_MS + DRAIN_MS
    neighbours.update([renewed('a', '2'), recordOf('b')], at - 1, at - 1)
    expect(neighbours.hasUnverifiedClaim).toBe(true)
    neighbours.update([renewed('a', '2'), recordOf('b')], at, at)
    expect(neighbours.hasUnverifiedClaim).toBe(false)
  })

  it('where nobody was heard of is sure after a lease', () => {
    const neighbours = seeing(recordOf('a'), recordOf('b'))
    neighbours.update([recordOf('a'), recordOf('b')], LEASE_MS - 1, LEASE_MS - 1)
    expect(neighbours.hasUnverifiedClaim).toBe(true)
    neighbours.update([recordOf('a'), recordOf('b')], LEASE_MS, LEASE_MS)
    expect(neighbours.hasUnverifiedClaim).toBe(false)
  })

  it('waits for nobody who claims nothing', () => {
    expect(seeing(recordOf('a', { view: [] })).hasUnverifiedClaim).toBe(false)
    expect(seeing().hasUnverifiedClaim).toBe(false)
  })
})

it('a removed record that claimed nothing, or whose time is over, is forgotten', () => {
  const idle = seeing(recordOf('a', { view: [] }))
  idle.update([], 100, 100)
  idle.update([recordOf('a', { view: [], version: '1' })], 200, 200)
  expect(idle.staleRecords()).toEqual([])
  const at = LEASE_MS + DRAIN_MS
  const dead = seeing(recordOf('a'))
  dead.update([], at, at)
  dead.update([], at, at)
  // Whoever is there again under that name is new: nothing is known of it.
  dead.update([recordOf('a')], at + 100, at + 100)
  expect([dead.members(), dead.staleRecords()]).toEqual([['a'], []])
})
