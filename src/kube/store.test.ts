import { describe, expect, it } from 'vitest'
import { CachingStore, type ObjectIdentity } from './store.ts'

function start() {
  const told: string[] = []
  const held = new Map<string, string>()
  const cache = new CachingStore<string>({
    applied: (key, object, previous) => {
      told.push(`+${key} ${object}${previous ? ` after ${previous}` : ''}`)
      held.set(key, object)
    },
    deleted: (key, last) => {
      told.push(`-${key} ${last}`)
      held.delete(key)
    },
  })
  return { cache, told, held }
}

const id = (version: number, uid = 'u1', key = 'org/a'): ObjectIdentity => ({ key, uid, version })

function apply(
  cache: CachingStore<string>,
  identity: ObjectIdentity,
  object: string,
  source: 'list' | 'event' = 'event',
) {
  if (cache.isNews(identity, source)) cache.apply(identity, object)
}

function remove(cache: CachingStore<string>, identity: ObjectIdentity) {
  if (cache.isNews(identity, 'event')) cache.delete(identity)
}

/** Reads a list of these to its end. */
function list(cache: CachingStore<string>, version: number, items: [ObjectIdentity, string][]) {
  cache.beginList()
  for (const [identity, object] of items) apply(cache, identity, object, 'list')
  for (const _ of cache.endList(version, true));
}

describe('an object cache', () => {
  it('tells of an object, of its change with what was before, and of its end', () => {
    const { cache, told, held } = start()
    apply(cache, id(1), 'one')
    apply(cache, id(2), 'two')
    expect(held.get('org/a')).toBe('two')
    remove(cache, id(3))
    expect(told).toEqual(['+org/a one', '+org/a two after one', '-org/a two'])
    expect(held.size).toBe(0)
  })

  it('compares versions as numbers and never takes the same or an older one', () => {
    const { cache, told, held } = start()
    apply(cache, id(10), 'ten')
    apply(cache, id(9), 'nine')
    apply(cache, id(10), 'ten again')
    remove(cache, id(9))
    expect([...held.values()]).toEqual(['ten'])
    expect(told).toEqual(['+org/a ten'])
  })

  it('tells of an object that was made again under its name as deleted, then applied', () => {
    const { cache, told } = start()
    apply(cache, id(1, 'u1'), 'first')
    apply(cache, id(5, 'u2'), 'second')
    remove(cache, id(4, 'u1'))
    expect(told).toEqual(['+org/a first', '-org/a first', '+org/a second'])
  })

  it('finds by comparison with a list what was deleted without a word', () => {
    const { cache, told } = start()
    list(cache, 10, [
      [id(1), 'a'],
      [id(2, 'u2', 'org/b'), 'b'],
    ])
    list(cache, 20, [[id(2, 'u2', 'org/b'), 'b']])
    expect(told.slice(2)).toEqual(['-org/a a'])
  })

  it('infers no deletion from a list that ended early', () => {
    const { cache, held } = start()
    apply(cache, id(1), 'a')
    cache.beginList()
    for (const _ of cache.endList(20, false));
    expect(held.size).toBe(1)
  })

  it('is told by the list of what an event brought and the list does not show any more', () => {
    const { cache, told } = start()
    cache.beginList()
    apply(cache, id(19), 'made meanwhile')
    apply(cache, id(20, 'u2', 'org/b'), 'at the same time')
    for (const _ of cache.endList(20, true));
    expect(told.slice(2)).toEqual(['-org/a made meanwhile', '-org/b at the same time'])
  })

  it('infers nothing from a list that was abandoned', () => {
    const { cache, held } = start()
    apply(cache, id(1), 'a')
    cache.beginList()
    cache.abandonList()
    for (const _ of cache.endList(20, true));
    expect(held.size).toBe(1)
  })

  it('does not delete what came after the version of the list', () => {
    const { cache, held } = start()
    cache.beginList()
    apply(cache, id(21), 'made meanwhile')
    for (const _ of cache.endList(20, true));
    expect(held.size).toBe(1)
  })

  it('does not bring back what an event deleted while the list was being read', () => {
    const { cache, told } = start()
    apply(cache, id(1), 'a')
    cache.beginList()
    remove(cache, id(30))
    apply(cache, id(1), 'a', 'list')
    for (const _ of cache.endList(20, true));
    expect(told).toEqual(['+org/a a', '-org/a a'])
  })

  it('does not bring back by a late event what a list did not show any more', () => {
    const { cache, told } = start()
    apply(cache, id(1), 'a')
    list(cache, 15, [])
    apply(cache, id(10), 'late')
    apply(cache, id(15), 'as late as the list')
    apply(cache, id(16), 'made again')
    expect(told).toEqual(['+org/a a', '-org/a a', '+org/a made again'])
  })

  it('takes anything from a store that was set back', () => {
    const { cache, held } = start()
    list(cache, 500, [[id(400), 'new']])
    cache.age()
    list(cache, 90, [[id(80), 'restored']])
    apply(cache, id(91), 'and on')
    expect([...held.values()]).toEqual(['and on'])
  })
})
