import { describe, expect, it } from 'vitest'
import { FakeApi } from '../../test/support/fake-api.ts'
import { settle } from '../../test/support/fake-clock.ts'
import { gone, startReflector } from '../../test/support/reflector-bed.ts'

describe('the lists of a reflector', () => {
  it('lists again when the version is too old, and finds the deletion that nobody told', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.put('a')
    api.put('b')
    await settle()
    api.remove('a', { silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(consumer.calls).toEqual(['+org/a@101', '+org/b@102', '-org/a'])
    expect(api.lists).toBe(2)
    await reflector.stop()
  })

  it('begins the list anew when a page of it has expired, and loses nothing', async () => {
    const api = new FakeApi()
    for (const name of ['a', 'b', 'c', 'd']) api.put(name)
    api.listFaults.push(undefined, gone)
    const { reflector, clock, consumer } = startReflector({}, api)
    await clock.elapse(1_000)
    await reflector.synced
    expect(consumer.view.size).toBe(4)
    expect(consumer.wrong).toEqual([])
    expect(api.lists).toBe(4)
    await reflector.stop()
  })

  it('finds within some 30 minutes what a watch forgot, while the watch goes on', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.put('a')
    api.put('b', { silently: true })
    await settle()
    api.remove('a', { silently: true })
    await clock.elapse(29 * 60_000)
    expect([...consumer.view.keys()]).toEqual(['org/a'])
    await clock.elapse(5 * 60_000)
    expect([...consumer.view.keys()]).toEqual(['org/b'])
    expect(api.watches).toBe(1)
    await reflector.stop()
  })

  it('knows what was made before something that it knows, but while a list is told, in whose order of names that comes late', async () => {
    const seen: [string, boolean][] = []
    const applied = ({ key }: { key: string }) => seen.push([key, reflector.isGapless])
    const { api, clock, reflector } = startReflector({ handler: { applied } })
    await reflector.synced
    // The first is on the second page of a list.
    for (const name of ['z', 'a', 'b', 'c']) api.put(name, { silently: true })
    await clock.elapse(34 * 60_000)
    api.put('d')
    await settle()
    api.put('y', { silently: true })
    api.put('e', { silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(seen).toEqual([
      ['org/a', false],
      ['org/b', false],
      ['org/c', false],
      ['org/z', false],
      ['org/d', true],
      ['org/e', false],
      ['org/y', false],
    ])
    expect(reflector.isGapless).toBe(true)
    await reflector.stop()
  })

  it('does not know it where a comparison was given up, until the watch is as far', async () => {
    const { api, clock, reflector } = startReflector()
    await reflector.synced
    expect(reflector.isGapless).toBe(true)
    for (const name of ['z', 'a', 'b', 'c']) api.put(name, { silently: true })
    api.listFaults.push(undefined, gone)
    await clock.elapse(30 * 60_000 + 1000)
    expect([reflector.isListed, reflector.isGapless]).toEqual([true, false])
    api.put('d')
    await settle()
    expect(reflector.isGapless).toBe(true)
    await reflector.stop()
  })

  it('ends a list early where it is told to, and then infers no deletion', async () => {
    const api = new FakeApi()
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) api.put(name)
    const { reflector, clock, consumer } = startReflector({ stopListing: (page) => page.length > 0 }, api)
    await reflector.synced
    await settle()
    expect(consumer.view.size).toBe(3)
    api.remove('a', { silently: true })
    api.endWatches(gone)
    await clock.elapse(60 * 60_000)
    expect(consumer.calls.filter((call) => call.startsWith('-'))).toEqual([])
    expect(api.lists).toBe(2)
    await reflector.stop()
  })

  it('as a feed passes on each version once, in order, and holds nothing', async () => {
    const api = new FakeApi()
    for (const name of ['z', 'm', 'a', 'k']) api.put(name)
    api.listFaults.push(undefined, gone)
    const { reflector, clock, consumer } = startReflector({ streaming: true }, api)
    await clock.elapse(1_000)
    await reflector.synced
    api.put('b')
    await settle()
    api.put('c', { silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(consumer.calls).toEqual([
      '+org/z@101',
      '+org/m@102',
      '+org/a@103',
      '+org/k@104',
      '+org/b@105',
      '+org/c@106',
    ])
    await reflector.stop()
  })

  it('gives up a comparison when the version becomes too old meanwhile, and takes only the newer list', async () => {
    const api = new FakeApi()
    for (const name of ['a', 'b', 'c']) api.put(name)
    const { clock, reflector, consumer } = startReflector({}, api)
    await reflector.synced
    let open: () => void = () => undefined
    api.gate = new Promise((resolve) => {
      open = resolve
    })
    await clock.elapse(31 * 60_000)
    expect(api.lists).toBe(2)
    api.gate = undefined
    api.remove('a', { silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(consumer.calls.slice(3)).toEqual(['-org/a'])
    open()
    await clock.elapse(1_000)
    expect(consumer.calls.slice(3)).toEqual(['-org/a'])
    await reflector.stop()
  })
})
