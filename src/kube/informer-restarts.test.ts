import { describe, expect, it } from 'vitest'
import { FakeApi } from '../../test/support/fake-api.ts'
import { settle } from '../../test/support/fake-clock.ts'
import { down, gone, startReflector } from '../../test/support/reflector-bed.ts'

describe('the watch of a reflector', () => {
  it('resumes from the last version when the server ends the watch, without a list', async () => {
    const { api, reflector, consumer, restarts } = startReflector()
    await reflector.synced
    api.put('a')
    await settle()
    api.endWatches()
    api.put('b')
    await settle()
    expect(consumer.calls).toEqual(['+org/a@101', '+org/b@102'])
    expect([api.lists, api.watches, restarts]).toEqual([1, 2, ['closed']])
    await reflector.stop()
  })

  it('resumes from a bookmark', async () => {
    const { api, clock, reflector } = startReflector()
    await reflector.synced
    api.version = 900
    api.bookmark()
    await settle()
    api.endWatches(down)
    await clock.elapse(1_000)
    expect(reflector.version).toBe(900)
    expect(api.lists).toBe(1)
    await reflector.stop()
  })

  it('says why it ended and when it starts again, unless the server ended it in the ordinary way', async () => {
    const { api, clock, reflector, lines, reported, restarts } = startReflector()
    await reflector.synced
    await settle()
    api.endWatches(gone)
    await clock.elapse(60_000)
    const resource = 'things'
    expect(lines).toEqual(['watch failed; restarting'])
    expect(reported).toEqual([{ resource, reason: 'Gone', error: gone, relist: true, waitMs: 50 }])
    api.endWatches()
    await settle()
    expect(lines).toHaveLength(1)
    const broken = new Error('the stream makes no sense')
    api.endWatches(broken)
    await settle()
    expect(reported[1]).toMatchObject({ reason: 'error', error: broken, relist: false })
    expect(restarts).toEqual(['Gone', 'closed', 'error'])
    await reflector.stop()
  })

  it('is cut off from the first failure until something comes', async () => {
    const { api, clock, reflector } = startReflector()
    await reflector.synced
    await clock.elapse(60_000)
    expect(reflector.health.disconnectedForMs()).toBe(0)
    api.endWatches(down)
    await settle()
    await clock.elapse(10)
    expect(reflector.health.disconnectedForMs()).toBe(10)
    await clock.elapse(100)
    api.put('a')
    await settle()
    expect(reflector.health.disconnectedForMs()).toBe(0)
    await reflector.stop()
  })

  it('says nothing of what ends as it stops', async () => {
    const { reflector, lines, restarts } = startReflector()
    await reflector.synced
    await reflector.stop()
    expect([lines, restarts]).toEqual([[], []])
  })

  it('tries for ever, every few seconds, while the API server is away', async () => {
    const api = new FakeApi()
    api.listFaults.push(...Array.from({ length: 200 }, () => down))
    const { clock, reflector } = startReflector({}, api)
    await clock.elapse(60_000)
    const inTheFirstMinute = api.lists
    await clock.elapse(60_000)
    expect(inTheFirstMinute).toBeLessThan(31)
    expect(api.lists - inTheFirstMinute).toBe(24)
    await clock.elapse(900_000)
    await reflector.synced
    await reflector.stop()
  })

  it('is open again soon each time that it breaks after minutes in which nothing came', async () => {
    const { api, clock, reflector } = startReflector()
    await reflector.synced
    for (let outage = 0; outage < 20; outage += 1) {
      await clock.elapse(60_000)
      api.endWatches(down)
      await clock.elapse(1000)
      expect(api.watches).toBe(outage + 2)
    }
    await reflector.stop()
  })

  it('does not list in a rage while lists work and each watch is refused as too old', async () => {
    const { api, clock, reflector } = startReflector()
    await reflector.synced
    const watch = api.watch.bind(api)
    api.watch = async function* (...args) {
      yield* watch(...args)
      throw gone
    }
    for (let second = 0; second < 60; second += 1) {
      api.endWatches()
      await clock.elapse(1_000)
    }
    expect(api.lists).toBeLessThan(14)
    await reflector.stop()
  })

  it('is soon back after each break of a watch that had brought something', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    for (let round = 0; round < 10; round += 1) {
      await settle()
      api.put('a')
      await settle()
      api.endWatches(down)
      await clock.elapse(100)
    }
    expect(api.watches).toBe(11)
    expect(consumer.calls).toHaveLength(10)
    await reflector.stop()
  })

  it('that was reopened goes on from the last version, with what came while it was dead', async () => {
    const { api, clock, reflector, consumer } = startReflector()
    await reflector.synced
    api.put('a')
    await settle()
    // The stream hears nothing of it.
    api.put('b', { silently: true })
    const [missed] = [...api.objects.values()].filter(({ metadata }) => metadata.name === 'b')
    reflector.reopen()
    await clock.elapse(100)
    expect([api.lists, api.watches, api.open]).toEqual([1, 2, 1])
    if (missed) api.tell({ type: 'ADDED', object: missed })
    await settle()
    expect(consumer.calls).toEqual(['+org/a@101', '+org/b@102'])
    await reflector.stop()
  })

  it('is not reopened before it is open', async () => {
    const api = new FakeApi()
    api.put('a')
    const { clock, reflector } = startReflector({}, api)
    reflector.reopen()
    await clock.elapse(100)
    await reflector.synced
    expect([api.lists, api.watches]).toEqual([1, 1])
    await reflector.stop()
  })

  it('is open again at once after each time that it was reopened, however often', async () => {
    const { api, clock, reflector } = startReflector()
    await reflector.synced
    const watch = api.watch.bind(api)
    // As the stream of a connection that is broken off.
    api.watch = async function* (...args) {
      yield* watch(...args)
      throw down
    }
    reflector.reopen()
    await clock.elapse(100)
    for (let round = 0; round < 10; round += 1) {
      reflector.reopen()
      await clock.elapse(1)
      expect(api.open).toBe(1)
    }
    await reflector.stop()
  })
})
