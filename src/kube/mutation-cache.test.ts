import { describe, expect, test } from 'vitest'
import { MutationCache } from './mutation-cache.ts'

type Thing = {
  metadata: { namespace: string; name: string; uid: string; resourceVersion: string }
  what: string
}

function thing(version: number, what = '', uid = 'u-1', name = 'one'): Thing {
  return { metadata: { namespace: 'acme', name, uid, resourceVersion: String(version) }, what }
}

function book(...things: Thing[]) {
  const held = new MutationCache<Thing>()
  for (const one of things) held.apply(one)
  const told: [string, string | undefined][] = []
  held.listen((object, before) => told.push([object.what, before?.what]))
  return { held, told, what: () => held.get('acme', 'one')?.what }
}

describe('a book of versions', () => {
  test('holds what the watch shows, and tells of each change once', () => {
    const { held, told, what } = book()
    held.apply(thing(1, 'new'))
    held.apply(thing(2, 'changed'))
    held.apply(thing(2, 'changed'))
    expect(what()).toBe('changed')
    expect(told).toEqual([
      ['new', undefined],
      ['changed', 'new'],
    ])
  })

  test('does not go back from an own write to what the watch shows late, and tells nobody of that', () => {
    const { held, told, what } = book(thing(1, 'first'))
    held.learn(thing(3, 'written'))
    held.apply(thing(2, 'late'))
    held.apply(thing(3, 'written'))
    expect(what()).toBe('written')
    expect(told).toEqual([])
    held.apply(thing(4, 'by somebody'))
    expect(told).toEqual([['by somebody', 'written']])
  })

  test('tells of an own write where that is asked for', () => {
    const { held, told } = book(thing(1, 'first'))
    held.announce(thing(2, 'written'))
    held.announce(thing(2, 'written'))
    held.apply(thing(2, 'written'))
    expect(told).toEqual([['written', 'first']])
  })

  test('shows observers all that is new, also own writes, and nothing twice', () => {
    const { held } = book(thing(1, 'first'))
    const seen: string[] = []
    held.observe(({ what }) => seen.push(what))
    held.learn(thing(2, 'written'))
    held.learn(thing(2, 'written'))
    held.announce(thing(3, 'announced'))
    held.apply(thing(3, 'announced'))
    held.apply(thing(4, 'by somebody'))
    held.remove(thing(5, 'gone'))
    expect(seen).toEqual(['written', 'announced', 'by somebody', 'by somebody'])
  })

  test('has all of them, and those of a namespace', () => {
    const { held } = book(thing(1, 'a'), thing(2, 'b', 'u-2', 'two'))
    held.apply({ ...thing(3, 'c'), metadata: { ...thing(3).metadata, namespace: 'other' } })
    expect([...held.all()].map(({ what }) => what)).toEqual(['a', 'b', 'c'])
    expect(held.in('acme').map(({ what }) => what)).toEqual(['a', 'b'])
    expect(held.in('nobody')).toEqual([])
    expect(held.get('nobody', 'one')).toBeUndefined()
  })

  test('has those of the cluster, which have no namespace', () => {
    const held = new MutationCache<{ metadata: { name: string; uid: string; resourceVersion: string } }>()
    const one = { metadata: { name: 'one', uid: 'u-1', resourceVersion: '1' } }
    held.apply(one)
    expect([held.get('', 'one'), held.in('')]).toEqual([one, [one]])
    held.learn({ metadata: { ...one.metadata, resourceVersion: '2' } })
    expect(held.get('', 'one')?.metadata.resourceVersion).toBe('2')
    held.remove(one)
    expect([held.size, held.in('')]).toEqual([0, []])
  })

  test('learns no older version', () => {
    const { held, what } = book(thing(5, 'newest'))
    held.learn(thing(4, 'older'))
    expect(what()).toBe('newest')
  })

  test('does not bring back what is gone when the answer to a write comes late', () => {
    const { held, told } = book(thing(1))
    held.remove(thing(2))
    held.learn(thing(3, 'late'))
    held.announce(thing(4, 'later'))
    expect(held.size).toBe(0)
    expect(held.in('acme')).toEqual([])
    expect(told).toHaveLength(1)
  })

  test('does not take the answer about an object for that about the next one of its name', () => {
    const { held, what } = book(thing(1), thing(5, 'the next', 'u-2'))
    held.learn(thing(9, 'the one before', 'u-1'))
    expect(what()).toBe('the next')
  })

  test('tells of one that was made again under its name, though its version were lower', () => {
    const { held, told, what } = book(thing(9, 'before'))
    held.apply(thing(2, 'again', 'u-2'))
    expect(what()).toBe('again')
    expect(told).toEqual([['again', 'before']])
  })

  test('forgets what is gone, unless another one has its name by now', () => {
    const { held, told } = book(thing(1, 'before'), thing(2, 'again', 'u-2'), thing(3, 'other', 'u-3', 'two'))
    held.remove(thing(1, 'before'))
    expect(held.size).toBe(2)
    held.remove(thing(4, 'again', 'u-2'))
    expect(held.in('acme').map(({ what }) => what)).toEqual(['other'])
    expect(told).toEqual([['again', 'again']])
    held.remove(thing(4, 'again', 'u-2'))
    expect(told).toHaveLength(1)
  })

  test('follows a store that was set back', () => {
    const { held, what } = book(thing(7, 'of today'))
    held.learn(thing(8, 'written'))
    held.apply(thing(5, 'of yesterday'))
    expect(what()).toBe('of yesterday')
  })
})
