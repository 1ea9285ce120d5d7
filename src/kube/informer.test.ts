import { describe, expect, it } from 'vitest'
import { FakeApi } from '../../test/support/fake-api.ts'
import { settle } from '../../test/support/fake-clock.ts'
import { gone, startReflector, type Thing } from '../../test/support/reflector-bed.ts'
import type { RawObject } from './client.ts'

describe('a reflector', () => {
  it('is synced when it has listed all pages, and then follows the watch', async () => {
    const api = new FakeApi()
    for (const name of ['a', 'b', 'c', 'd']) api.put(name)
    const { reflector, consumer } = startReflector({}, api)
    await reflector.synced
    expect(api.lists).toBe(2)
    expect([...consumer.view.keys()]).toEqual(['org/a', 'org/b', 'org/c', 'org/d'])
    expect(reflector.version).toBe(104)
    api.put('e')
    api.remove('a')
    await settle()
    expect(consumer.calls.slice(4)).toEqual(['+org/e@105', '-org/a'])
    expect(consumer.view.get('org/e')?.version).toBe(105)
    expect(consumer.view.get('org/a')).toBeUndefined()
    expect([consumer.view.size, reflector.version]).toEqual([4, 106])
    await reflector.stop()
  })

  it('counts and logs once an object that cannot be decoded, and goes on with the others', async () => {
    const { api, reflector, consumer, lines } = startReflector()
    await reflector.synced
    api.put('a', { fields: { poison: 'throw' } })
    api.put('a', { fields: { poison: 'undefined' } })
    api.put('b')
    await settle()
    expect(consumer.calls).toEqual(['+org/b@103'])
    expect(lines).toEqual(['skipped an invalid object'])
    expect(reflector.troubles).toEqual({ poisoned: 2, handlerErrors: 0 })
    api.put('a')
    await settle()
    expect(consumer.calls).toEqual(['+org/b@103', '+org/a@104'])
    await reflector.stop()
  })

  it('keeps what it knew of an object whose new version cannot be decoded, also through a list', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.put('a')
    api.put('a', { fields: { poison: 'throw' } })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(consumer.view.get('org/a')?.version).toBe(101)
    api.remove('a')
    await settle()
    expect(consumer.calls).toEqual(['+org/a@101', '-org/a'])
    await reflector.stop()
  })

  it('survives handlers that throw or reject', async () => {
    const seen: string[] = []
    const removed: string[] = []
    const { api, reflector, lines } = startReflector({
      handler: {
        applied: ((thing: Thing) => {
          seen.push(thing.key)
          if (thing.key === 'org/a') throw new Error('sync')
          return Promise.reject(new Error('async'))
        }) as (thing: Thing) => void,
        deleted: ({ key }) => {
          removed.push(key)
          throw new Error('sync')
        },
      },
    })
    await reflector.synced
    api.put('a')
    api.put('b')
    api.remove('a')
    api.put('c')
    await settle()
    expect(seen).toEqual(['org/a', 'org/b', 'org/c'])
    expect(reflector.troubles.handlerErrors).toBe(4)
    expect(lines).toHaveLength(4)
    for (const name of ['a', 'b', 'c']) api.remove(name)
    await settle()
    expect(removed).toEqual(['org/a', 'org/b', 'org/c'])
    await reflector.stop()
  })

  it('tells of a recreated object as deleted and applied, even when both happened unseen', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.put('a')
    await settle()
    api.put('a', { again: true, silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(consumer.calls).toEqual(['+org/a@101', '-org/a', '+org/a@102'])
    await reflector.stop()
  })

  it('tells who decodes how long an object is as JSON, where the watch has told it', async () => {
    const lengths: [string, number | undefined][] = []
    const decode = ({ metadata: { name } }: RawObject, bytes?: number) => {
      lengths.push([name, bytes])
      return undefined
    }
    const api = new FakeApi()
    api.put('listed')
    const { reflector } = startReflector({ decode }, api)
    await reflector.synced
    await settle()
    const object = api.objects.get('listed') as RawObject
    const metadata = { ...object.metadata, name: 'watched', uid: 'other', resourceVersion: '900' }
    api.tell({ type: 'ADDED', object: { ...object, metadata }, bytes: 321 })
    await settle()
    expect(lengths).toEqual([
      ['listed', undefined],
      ['watched', 321],
    ])
    await reflector.stop()
  })

  it('ignores a late word of the end of an earlier incarnation', async () => {
    const { api, reflector, consumer } = startReflector()
    await reflector.synced
    api.put('a')
    await settle()
    const before = api.objects.get('a') as RawObject
    api.put('a', { again: true })
    api.put('b')
    api.tell({ type: 'DELETED', object: before })
    await settle()
    expect(consumer.calls.slice(1)).toEqual(['-org/a', '+org/a@102', '+org/b@103'])
    await reflector.stop()
  })

  it('takes in nothing of a page that comes after stop', async () => {
    const api = new FakeApi()
    api.put('a')
    let open: () => void = () => undefined
    api.gate = new Promise((resolve) => {
      open = resolve
    })
    const { reflector, consumer } = startReflector({}, api)
    await settle()
    const stopped = reflector.stop()
    open()
    await stopped
    expect(consumer.calls).toEqual([])
  })

  it('takes in nothing of a watch that goes on after stop', async () => {
    const api = new FakeApi()
    const metadata = { name: 'late', namespace: 'org', uid: 'u', resourceVersion: '900' }
    api.watch = async function* (_type, _query, _from, signal) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      yield [{ type: 'ADDED', object: { metadata } }]
    }
    const { reflector, consumer } = startReflector({}, api)
    await reflector.synced
    await settle()
    await reflector.stop()
    expect(consumer.calls).toEqual([])
  })

  it('calls nobody after stop', async () => {
    const { api, reflector, consumer } = startReflector()
    await reflector.synced
    await reflector.stop()
    api.put('a')
    await settle()
    expect(consumer.calls).toEqual([])
    expect(api.open).toBe(0)
  })

  it('gives the event loop a turn while it takes in a large list', async () => {
    const api = new FakeApi()
    api.pageSize = 10_000
    for (let index = 0; index < 10_000; index += 1) api.put(`n${index}`)
    let turns = 0
    let synced = false
    const { reflector, consumer } = startReflector({}, api)
    void reflector.synced.then(() => {
      synced = true
    })
    await settle(3)
    while (!synced) {
      await settle(1)
      turns += 1
    }
    expect(consumer.view.size).toBe(10_000)
    expect(turns).toBeGreaterThan(40)
    await reflector.stop()
  })
})
