import { describe, expect, it } from 'vitest'
import { settle } from '../../test/support/fake-clock.ts'
import { down, gone, startReflector } from '../../test/support/reflector-bed.ts'

describe('a reflector of a store that was set back', () => {
  it('takes the state of a store that was restored from a backup', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.version = 5_000
    api.put('a')
    api.put('b')
    await settle()
    api.restore(300)
    api.put('a', { silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect([...consumer.view.values()].map(({ key, version }) => `${key}@${version}`)).toEqual(['org/a@301'])
    api.put('c')
    await settle()
    expect(reflector.version).toBe(302)
    await reflector.stop()
  })

  it('finds out on its return that the store was set back, where a watch would be silent', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.version = 5_000
    api.put('a')
    await settle()
    api.restore(300)
    api.put('b', { silently: true })
    api.endWatches(down)
    await clock.elapse(1_000)
    expect([...consumer.view.values()].map((thing) => thing.key)).toEqual(['org/b'])
    await reflector.stop()
  })

  it('finds out by a comparison that the store was set back while its watch stayed open', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.version = 5_000
    api.put('a')
    await settle()
    api.restore(300)
    api.put('b', { silently: true })
    await clock.elapse(34 * 60_000)
    expect([...consumer.view.values()].map((thing) => thing.key)).toEqual(['org/b'])
    api.put('c')
    await settle()
    expect(reflector.version).toBe(302)
    await reflector.stop()
  })

  it('tells so before it hands on what there is now, and never where the store is the same', async () => {
    const said: string[] = []
    const { api, clock, reflector } = startReflector({
      onStoreRestored: () => void said.push('set back'),
      handler: { applied: ({ key }) => void said.push(key) },
      streaming: true,
    })
    await reflector.synced
    api.version = 5_000
    api.put('a')
    api.endWatches(gone)
    await clock.elapse(1_000)
    api.endWatches(down)
    await clock.elapse(1_000)
    expect(said).toEqual(['org/a'])
    api.restore(300)
    api.put('b', { silently: true })
    api.endWatches(down)
    await clock.elapse(1_000)
    expect(said).toEqual(['org/a', 'set back', 'org/b'])
    await reflector.stop()
  })
})
