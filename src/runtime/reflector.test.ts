import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FakeApi } from '../../test/support/fake-api.ts'
import { FakeClock, fixedRandom, settle } from '../../test/support/fake-clock.ts'
import { ApiError, type RawObject } from '../ports/kubernetes.ts'
import { Reflector, type ReflectorOptions } from './reflector.ts'

type Thing = { key: string; uid: string; version: number }

const type = { group: 'test.dev', version: 'v1', plural: 'things', namespaced: true }
const down = new ApiError('Unavailable', 'the connection broke')
const gone = new ApiError('Gone', 'too old', { status: 410 })

function decode({ metadata, poison }: RawObject): Thing | undefined {
  if (poison === 'throw') throw new Error('cannot be read')
  if (poison === 'undefined') return undefined
  const { namespace, name, uid, resourceVersion } = metadata
  return { key: `${namespace}/${name}`, uid: uid ?? '', version: Number(resourceVersion) }
}

/** What a consumer builds from the handler's calls, and what it finds wrong with them. */
class Consumer {
  readonly view = new Map<string, Thing>()
  readonly calls: string[] = []
  readonly wrong: string[] = []

  applied(thing: Thing, previous?: Thing): void {
    const held = this.view.get(thing.key)
    this.calls.push(`+${thing.key}@${thing.version}`)
    if (held?.uid !== previous?.uid) this.wrong.push(`previous of ${thing.key}`)
    if (held && held.uid !== thing.uid) this.wrong.push(`${thing.key} was not deleted before`)
    if (held && held.version >= thing.version) this.wrong.push(`${thing.key} went back`)
    this.view.set(thing.key, thing)
  }

  deleted(last: Thing): void {
    this.calls.push(`-${last.key}`)
    if (this.view.get(last.key)?.uid !== last.uid) this.wrong.push(`${last.key} was not there`)
    this.view.delete(last.key)
  }
}

function start(options: Partial<ReflectorOptions<Thing>> = {}, api = new FakeApi()) {
  const clock = new FakeClock()
  const consumer = new Consumer()
  const lines: string[] = []
  const restarts: string[] = []
  const say = (message: string) => void lines.push(message)
  const reflector = new Reflector<Thing>(
    {
      type,
      decode,
      handler: {
        applied: (thing, previous) => consumer.applied(thing, previous),
        deleted: (last) => consumer.deleted(last),
      },
      ...options,
    },
    {
      api,
      clock,
      random: fixedRandom(0),
      log: { info: say, warn: say, error: say },
      metrics: { reconciled() {}, watchRestarted: (_, reason) => void restarts.push(reason) },
    },
  ).start()
  return { api, clock, consumer, lines, restarts, reflector }
}

describe('a reflector', () => {
  it('is synced when it has listed all pages, and then follows the watch', async () => {
    const api = new FakeApi()
    for (const name of ['a', 'b', 'c', 'd']) api.put(name)
    const { reflector, consumer } = start({}, api)
    await reflector.synced
    expect(api.lists).toBe(2)
    expect([...reflector.values()].map((thing) => thing.key)).toEqual(['org/a', 'org/b', 'org/c', 'org/d'])
    expect(reflector.version).toBe(104)
    api.put('e')
    api.remove('a')
    await settle()
    expect(consumer.calls.slice(4)).toEqual(['+org/e@105', '-org/a'])
    expect(reflector.get('org/e')?.version).toBe(105)
    expect(reflector.get('org/a')).toBeUndefined()
    expect([reflector.size, reflector.version]).toEqual([4, 106])
    await reflector.stop()
  })

  it('resumes from the last version when the server ends the watch, without a list', async () => {
    const { api, reflector, consumer, restarts } = start()
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
    const { api, clock, reflector } = start()
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

  it('lists again when the version is too old, and finds the deletion that nobody told', async () => {
    const { api, clock, reflector, consumer } = start()
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
    const { reflector, clock, consumer } = start({}, api)
    await clock.elapse(1_000)
    await reflector.synced
    expect(consumer.view.size).toBe(4)
    expect(consumer.wrong).toEqual([])
    expect(api.lists).toBe(4)
    await reflector.stop()
  })

  it('tries for ever, ever more slowly, while the API server is away', async () => {
    const api = new FakeApi()
    api.listFaults.push(...Array.from({ length: 40 }, () => down))
    const { clock, reflector } = start({}, api)
    await clock.elapse(60_000)
    const inTheFirstMinute = api.lists
    await clock.elapse(60_000)
    expect(inTheFirstMinute).toBeLessThan(13)
    expect(api.lists - inTheFirstMinute).toBe(4)
    await clock.elapse(900_000)
    await reflector.synced
    await reflector.stop()
  })

  it('does not list in a rage while lists work and each watch is refused as too old', async () => {
    const { api, clock, reflector } = start()
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

  it('counts and logs once an object that cannot be decoded, and goes on with the others', async () => {
    const { api, reflector, consumer, lines } = start()
    await reflector.synced
    api.put('a', { fields: { poison: 'throw' } })
    api.put('a', { fields: { poison: 'undefined' } })
    api.put('b')
    await settle()
    expect(consumer.calls).toEqual(['+org/b@103'])
    expect(lines).toEqual(['An object cannot be used and is skipped'])
    expect(reflector.troubles).toEqual({ poisoned: 2, handlerErrors: 0 })
    api.put('a')
    await settle()
    expect(consumer.calls).toEqual(['+org/b@103', '+org/a@104'])
    await reflector.stop()
  })

  it('keeps what it knew of an object whose new version cannot be decoded, also through a list', async () => {
    const { api, clock, reflector, consumer } = start()
    await reflector.synced
    api.put('a')
    api.put('a', { fields: { poison: 'throw' } })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(reflector.get('org/a')?.version).toBe(101)
    api.remove('a')
    await settle()
    expect(consumer.calls).toEqual(['+org/a@101', '-org/a'])
    await reflector.stop()
  })

  it('survives handlers that throw or reject', async () => {
    const seen: string[] = []
    const { api, reflector, lines } = start({
      handler: {
        applied: ((thing: Thing) => {
          seen.push(thing.key)
          if (thing.key === 'org/a') throw new Error('sync')
          return Promise.reject(new Error('async'))
        }) as (thing: Thing) => void,
        deleted: () => {
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
    expect([...reflector.values()].map((thing) => thing.key)).toEqual(['org/b', 'org/c'])
    await reflector.stop()
  })

  it('tells of a recreated object as deleted and applied, even when both happened unseen', async () => {
    const { api, clock, reflector, consumer } = start()
    await reflector.synced
    api.put('a')
    await settle()
    api.put('a', { again: true, silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect(consumer.calls).toEqual(['+org/a@101', '-org/a', '+org/a@102'])
    await reflector.stop()
  })

  it('finds within some 30 minutes what a watch forgot, while the watch goes on', async () => {
    const { api, clock, reflector, consumer } = start()
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

  it('ends a list early where it is told to, and then infers no deletion', async () => {
    const api = new FakeApi()
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) api.put(name)
    const { reflector, clock, consumer } = start({ stopListing: (page) => page.length > 0 }, api)
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
    const { reflector, clock, consumer } = start({ forget: true }, api)
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
    expect(reflector.size).toBe(0)
    await reflector.stop()
  })

  it('takes the state of a store that was restored from a backup', async () => {
    const { api, clock, reflector } = start()
    await reflector.synced
    api.version = 5_000
    api.put('a')
    api.put('b')
    await settle()
    api.restore(300)
    api.put('a', { silently: true })
    api.endWatches(gone)
    await clock.elapse(1_000)
    expect([...reflector.values()].map(({ key, version }) => `${key}@${version}`)).toEqual(['org/a@301'])
    api.put('c')
    await settle()
    expect(reflector.version).toBe(302)
    await reflector.stop()
  })

  it('ignores a late word of the end of an earlier incarnation', async () => {
    const { api, reflector, consumer } = start()
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

  it('is soon back after each break of a watch that had brought something', async () => {
    const { api, clock, reflector, consumer } = start()
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

  it('gives up a comparison when the version becomes too old meanwhile, and takes only the newer list', async () => {
    const api = new FakeApi()
    for (const name of ['a', 'b', 'c']) api.put(name)
    const { clock, reflector, consumer } = start({}, api)
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

  it('takes in nothing of a page that comes after stop', async () => {
    const api = new FakeApi()
    api.put('a')
    let open: () => void = () => undefined
    api.gate = new Promise((resolve) => {
      open = resolve
    })
    const { reflector, consumer } = start({}, api)
    await settle()
    const stopped = reflector.stop()
    open()
    await stopped
    expect(consumer.calls).toEqual([])
  })

  it('finds out on its return that the store was set back, where a watch would be silent', async () => {
    const { api, clock, reflector } = start()
    await reflector.synced
    api.version = 5_000
    api.put('a')
    await settle()
    api.restore(300)
    api.put('b', { silently: true })
    api.endWatches(down)
    await clock.elapse(1_000)
    expect([...reflector.values()].map((thing) => thing.key)).toEqual(['org/b'])
    await reflector.stop()
  })

  it('finds out by a comparison that the store was set back while its watch stayed open', async () => {
    const { api, clock, reflector } = start()
    await reflector.synced
    api.version = 5_000
    api.put('a')
    await settle()
    api.restore(300)
    api.put('b', { silently: true })
    await clock.elapse(34 * 60_000)
    expect([...reflector.values()].map((thing) => thing.key)).toEqual(['org/b'])
    api.put('c')
    await settle()
    expect(reflector.version).toBe(302)
    await reflector.stop()
  })

  it('calls nobody after stop', async () => {
    const { api, reflector, consumer } = start()
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
    const { reflector } = start({}, api)
    void reflector.synced.then(() => {
      synced = true
    })
    await settle(3)
    while (!synced) {
      await settle(1)
      turns += 1
    }
    expect(reflector.size).toBe(10_000)
    expect(turns).toBeGreaterThan(40)
    await reflector.stop()
  })
})

type Step =
  | { do: 'put'; name: string; silently: boolean; twice: boolean; again: boolean }
  | { do: 'remove'; name: string; silently: boolean; twice: boolean }
  | { do: 'repeat' | 'removeInList' | 'putInList'; name: string }
  | { do: 'cut' | 'end' | 'gone' | 'bookmark' | 'failList' | 'compare' | 'wait' }

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
const rarely = fc.integer({ min: 0, max: 5 }).map((number) => number === 0)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('put' as const),
      name,
      silently: rarely,
      twice: rarely,
      again: rarely,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('remove' as const), name, silently: rarely, twice: rarely }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('repeat' as const, 'removeInList' as const, 'putInList' as const),
      name,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'cut' as const,
        'end' as const,
        'gone' as const,
        'bookmark' as const,
        'failList' as const,
        'compare' as const,
        'wait' as const,
      ),
    }),
  },
)

describe('a reflector whose watch forgets, repeats, breaks and expires', () => {
  it('never goes back, and agrees with the store after the next full list', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
        const world = start()
        await world.reflector.synced
        for (const each of steps) await take(world, each)
        world.api.listFaults.length = 0
        world.api.meanwhile.length = 0
        await world.clock.elapse(34 * 60_000)
        const { reflector, consumer, api } = world
        const versions = (things: Iterable<Thing>) => [...things].map((thing) => thing.version).sort()
        const truth = [...api.objects.values()]
          .map((object) => Number(object.metadata.resourceVersion))
          .sort()
        expect(versions(reflector.values())).toEqual(truth)
        expect(versions(consumer.view.values())).toEqual(truth)
        expect(consumer.wrong).toEqual([])
        await reflector.stop()
      }),
      { numRuns: 150 },
    )
  })
})

async function take({ api, clock }: ReturnType<typeof start>, step: Step): Promise<void> {
  const faults = { cut: down, end: 'end', gone } as const
  if (step.do === 'put') api.put(step.name, step)
  else if (step.do === 'remove') api.remove(step.name, step)
  else if (step.do === 'repeat') repeat(api, step.name)
  else if (step.do === 'removeInList') api.meanwhile.push(() => api.remove(step.name))
  else if (step.do === 'putInList') api.meanwhile.push(() => api.put(step.name))
  else if (step.do === 'bookmark') api.bookmark()
  else if (step.do === 'failList') api.listFaults.push(undefined, down)
  else if (step.do === 'compare') await clock.elapse(31 * 60_000)
  else if (step.do === 'wait') await clock.elapse(500)
  else api.endWatches(faults[step.do])
  await settle(1)
}

/** An event of long ago comes again, out of order; perhaps of an object that is gone. */
function repeat(api: FakeApi, name: string): void {
  const object = api.objects.get(name) ?? { metadata: { name, namespace: 'org', resourceVersion: '101' } }
  const metadata = {
    ...object.metadata,
    resourceVersion: String(Number(object.metadata.resourceVersion) - 1),
  }
  api.tell({ type: 'MODIFIED', object: { ...object, metadata } })
}
