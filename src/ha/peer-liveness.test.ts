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

/** Seen for the first time at 0, by a list that was answered at once. */
function seeing(...records: StoredRecord[]) {
  const neighbours = new Peers({ name: 'me', shards: SHARDS, drainMs: DRAIN_MS })
  neighbours.update(records, 0, 0)
  return neighbours
}

function taken(neighbours: Peers): number[] {
  return Array.from({ length: SHARDS }, (_, shard) => shard).filter((shard) => neighbours.isClaimed(shard))
}

const ALL = [0, 1, 2, 3, 4, 5, 6, 7]

describe('who has a view', () => {
  it('is a member until its lease has ended, and has its shards for as long as something may be under way', () => {
    const record = recordOf('a')
    const neighbours = seeing(record)
    for (const at of [0, LEASE_MS - 1]) {
      neighbours.update([record], at, at)
      expect([neighbours.members(), taken(neighbours), neighbours.staleRecords()]).toEqual([['a'], ALL, []])
    }
    for (const at of [LEASE_MS, LEASE_MS + DRAIN_MS - 1]) {
      neighbours.update([record], at, at)
      expect([neighbours.members(), taken(neighbours), neighbours.staleRecords()]).toEqual([[], ALL, []])
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
