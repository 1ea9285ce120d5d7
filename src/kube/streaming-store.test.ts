import { describe, expect, it } from 'vitest'
import { StreamingStore } from './store.ts'

function start() {
  const told: string[] = []
  const feed = new StreamingStore<string>({
    applied: (_, object) => void told.push(object),
    gone: (key) => void told.push(`-${key}`),
  })
  const apply = (version: number, source: 'list' | 'event') => {
    const identity = { key: `log/${version}`, uid: `u${version}`, version }
    if (feed.isNews(identity, source)) feed.apply(identity, String(version))
  }
  const endList = (version: number) => {
    for (const _ of feed.endList(version));
  }
  return { feed, told, apply, endList }
}

describe('an object feed', () => {
  it('passes on a list at its end, in the order of versions, then what events bring, and holds nothing', () => {
    const { feed, told, apply, endList } = start()
    feed.beginList()
    apply(3, 'list')
    apply(1, 'list')
    expect(told).toEqual([])
    endList(5)
    apply(6, 'event')
    expect(told).toEqual(['1', '3', '6'])
  })

  it('passes each version on once, however often a list is begun again', () => {
    const { feed, told, apply, endList } = start()
    feed.beginList()
    apply(3, 'list')
    feed.abandonList()
    feed.beginList()
    apply(3, 'list')
    feed.beginList()
    apply(3, 'list')
    apply(1, 'list')
    endList(5)
    apply(4, 'event')
    apply(6, 'event')
    apply(6, 'event')
    feed.seenUpTo(6)
    feed.beginList()
    apply(3, 'list')
    apply(6, 'list')
    apply(7, 'list')
    endList(8)
    expect(told).toEqual(['1', '3', '6', '7'])
  })

  it('passes on a deletion by its key, whatever the event carried', () => {
    const { feed, told } = start()
    feed.delete({ key: 'log/1', uid: 'u', version: 9 })
    expect(told).toEqual(['-log/1'])
  })

  it('takes anything from a store that was set back', () => {
    const { feed, told, apply, endList } = start()
    endList(100)
    feed.age()
    apply(50, 'event')
    expect(told).toEqual(['50'])
  })
})
