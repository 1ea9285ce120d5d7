import { afterEach, describe, expect, it } from 'vitest'
import type { Credentials } from '../../src/kube/auth.ts'
import type { RawObject } from '../../src/kube/client.ts'
import { Informer, type InformerOptions } from '../../src/kube/informer.ts'
import { createResources } from '../../src/kube/resources.ts'
import { createTransport } from '../../src/kube/transport.ts'
import { Changes } from '../support/changes.ts'
import { fixedRandom, SkewedClock, settle } from '../support/fake-clock.ts'
import { NO_RUNTIME_METRICS } from '../support/no-metrics.ts'
import { ScriptedApiServer, sendStatus } from '../support/scripted-api-server.ts'

const type = { group: 'test.dev', version: 'v1', plural: 'things', namespaced: true }
const nobody: Credentials = { headers: [], tls: {} }

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A reflector over HTTP from a server that has the objects `a` and `b`, synced and with its watch open. */
async function start(options: Partial<InformerOptions<string>> = {}) {
  const server = await new ScriptedApiServer().start()
  server.put('a')
  server.put('b')
  const clock = new SkewedClock()
  const random = fixedRandom(0)
  const credentials = { current: () => nobody, refused() {} }
  const transport = createTransport({
    access: { origin: server.origin, basePath: '', credentials },
    clock,
    random,
  })
  const happened = new Changes()
  const calls: string[] = []
  const held = new Set<string>()
  const restarts: string[] = []
  const call = (what: string) => {
    calls.push(what)
    happened.notify()
  }
  const log = { info() {}, warn() {}, error() {} }
  const reflector = new Informer<string>(
    {
      type,
      decode,
      handler: {
        applied(object) {
          held.add(nameOf(object))
          call(`+${object}`)
        },
        deleted(object) {
          held.delete(nameOf(object))
          call(`-${object}`)
        },
      },
      ...options,
    },
    {
      api: createResources({ transport, clock, random }),
      clock,
      random,
      log,
      metrics: {
        ...NO_RUNTIME_METRICS,
        watchRestarted(_, reason) {
          restarts.push(reason)
          happened.notify()
        },
      },
    },
  ).start()
  cleanups.push(
    () => server.stop().catch(() => undefined),
    () => transport.close(),
    () => reflector.stop(),
  )
  await reflector.synced
  const watch = await server.watch()
  calls.length = 0
  const names = () => [...held].sort()
  return { server, clock, reflector, calls, restarts, happened, watch, names }
}

function nameOf(object: string): string {
  return object.split('@')[0] ?? ''
}

/** `name@version` */
function decode({ metadata, poison }: RawObject): string {
  if (poison) throw new Error('cannot be read')
  return `${metadata.name}@${metadata.resourceVersion}`
}

describe('a reflector over HTTP', () => {
  it('goes on where a stream was cut in the middle of a line', async () => {
    const { server, watch, calls, happened } = await start()
    const object = server.put('c', { silently: true })
    const line = JSON.stringify({ type: 'ADDED', object })
    watch.raw(line.slice(0, 40))
    setImmediate(() => watch.cut())
    const next = await server.watch(watch)
    expect(next.from).toBe(102)
    next.raw(`${line}\n`)
    await happened.until(() => calls.length === 1)
    expect(calls).toEqual(['+c@103'])
    expect(server.count('list')).toBe(1)
  })

  it('lists again when its version is answered with 410, and finds a deletion that nobody announced', async () => {
    const { server, watch, calls, happened, names } = await start()
    server.remove('a', { silently: true })
    server.compactedAt = 103
    watch.cut()
    await happened.until(() => calls.includes('-a@101'))
    expect(names()).toEqual(['b'])
    expect((await server.watch(watch)).from).toBe(103)
    expect(server.count('list')).toBe(2)
  })

  it('lists again after an ERROR event with code 410', async () => {
    const { server, watch, calls, happened, restarts } = await start()
    server.put('c', { silently: true })
    watch.error(410)
    await happened.until(() => calls.includes('+c@103'))
    expect(restarts).toEqual(['Gone'])
    expect(calls).toEqual(['+c@103'])
  })

  it('resumes after an ERROR event of another kind, without a list', async () => {
    const { server, watch, calls, happened, restarts } = await start()
    watch.error(500, 'InternalError', 'etcdserver: leader changed')
    const next = await server.watch(watch)
    expect(next.from).toBe(102)
    server.put('c')
    await happened.until(() => calls.length === 1)
    expect([restarts, server.count('list')]).toEqual([['Unavailable'], 1])
  })

  it('resumes a watch that went silent', async () => {
    const { server, watch, clock, calls, happened } = await start()
    watch.bookmark(150)
    server.version = 150
    await settle()
    clock.jump(60_000)
    expect(server.watches).toHaveLength(1)
    clock.jump(90_001)
    const next = await server.watch(watch)
    expect(next.from).toBe(150)
    server.put('c')
    await happened.until(() => calls.length === 1)
    expect(server.count('list')).toBe(1)
  })

  it('ignores an event that comes twice, or an older version after a newer', async () => {
    const { server, watch, calls, happened } = await start()
    const old = server.put('a', { silently: true })
    const fresh = server.put('a', { silently: true })
    for (const object of [fresh, old, fresh, old]) watch.send({ type: 'MODIFIED', object })
    server.put('c')
    await happened.until(() => calls.includes('+c@105'))
    expect(calls).toEqual(['+a@104', '+c@105'])
  })

  it('finds an event that never came by the next full comparison, while the watch goes on', async () => {
    const { server, watch, clock, calls, happened, names } = await start()
    server.put('c', { silently: true })
    server.remove('a', { silently: true })
    clock.jump(60_000)
    watch.bookmark(150)
    await settle()
    expect(calls).toEqual([])
    // Bookmarks keep the watch alive for the 30 minutes.
    for (let minute = 0; minute < 30 && server.count('list') === 1; minute += 1) {
      clock.jump(60_000)
      watch.bookmark(151 + minute)
      await settle()
    }
    await happened.until(() => calls.length === 2)
    expect(calls).toEqual(['+c@103', '-a@101'])
    expect(names()).toEqual(['b', 'c'])
  })

  it('waits as long as a 429 asks, for a watch as for a list', async () => {
    const { server, watch, clock, restarts, happened } = await start()
    server.script('watch', (response) =>
      sendStatus(response, 429, 'TooManyRequests', { headers: { 'retry-after': '20' } }),
    )
    watch.cut()
    await happened.until(() => restarts.includes('TooManyRequests'))
    await settle()
    clock.jump(19_000)
    await settle()
    expect(server.count('watch')).toBe(2)
    clock.jump(1_000)
    await server.watch(watch)
    expect(server.count('watch')).toBe(3)
  })

  it('survives a line of garbage, and lists once the same version has brought garbage three times', async () => {
    const { server, watch, names, happened, calls } = await start()
    server.put('c', { silently: true })
    let bad = watch
    for (let time = 0; time < 3; time += 1) {
      bad.raw('{"type":"ADDED","object":{"metad\n')
      if (time < 2) bad = await server.watch(bad)
    }
    await happened.until(() => calls.includes('+c@103'))
    expect(names()).toEqual(['a', 'b', 'c'])
    expect(server.count('list')).toBe(2)
  })

  it('comes back after the server was away, without a list', async () => {
    const { server, calls, happened, restarts } = await start()
    await server.stop()
    await happened.until(() => restarts.length >= 3)
    server.put('c', { silently: true })
    await server.start()
    const next = await server.watch()
    next.send({ type: 'ADDED', object: server.objects.get('c') })
    await happened.until(() => calls.length === 1)
    expect(calls).toEqual(['+c@103'])
    expect(server.count('list')).toBe(1)
  })

  it('skips a poison object in a list and in a watch, and goes on with the others', async () => {
    const { server, watch, calls, happened, reflector, names } = await start()
    server.put('bad', { fields: { poison: true } })
    server.put('c')
    await happened.until(() => calls.includes('+c@104'))
    watch.error(410)
    const next = await server.watch(watch)
    expect(next.from).toBe(104)
    expect(reflector.troubles.poisoned).toBe(2)
    expect(names()).toEqual(['a', 'b', 'c'])
    server.remove('bad')
    server.put('d')
    await happened.until(() => calls.includes('+d@106'))
    expect(calls).toEqual(['+c@104', '+d@106'])
  })

  it('goes on when a handler throws', async () => {
    const seen: string[] = []
    const happened = new Changes()
    const { server, reflector } = await start({
      handler: {
        applied(name) {
          seen.push(name)
          happened.notify()
          throw new Error('broken')
        },
      },
    })
    server.put('c')
    server.remove('c')
    server.put('d')
    await happened.until(() => seen.length === 4)
    expect(seen).toEqual(['a@101', 'b@102', 'c@103', 'd@105'])
    expect(reflector.troubles.handlerErrors).toBe(4)
  })

  it('tells of a recreated object as deleted, then applied', async () => {
    const { server, watch, calls, happened } = await start()
    server.put('a', { uid: 'another', silently: true })
    watch.error(410)
    await happened.until(() => calls.length === 2)
    expect(calls).toEqual(['-a@101', '+a@103'])
  })

  it('reads pages, and begins anew when one has expired', async () => {
    const { server, watch, calls, happened, names } = await start()
    server.pageSize = 2
    for (const name of ['c', 'd', 'e']) server.put(name, { silently: true })
    server.script(
      'list',
      (response, request) => server.sendList(response, request),
      (response) => sendStatus(response, 410, 'Expired'),
    )
    watch.error(410)
    await happened.until(() => calls.includes('+e@105'))
    await server.watch(watch)
    expect(names()).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect(new Set(calls).size).toBe(calls.length)
  })

  it('takes in 20,000 events of one burst in order, each once', async () => {
    const { server, watch, calls, happened, reflector } = await start()
    const lines: string[] = []
    for (let index = 0; index < 20_000; index += 1) {
      const object = server.put(`n${index % 500}`, { silently: true })
      lines.push(`${JSON.stringify({ type: 'MODIFIED', object })}\n`)
    }
    watch.raw(lines.join(''))
    await happened.until(() => calls.length === 20_000)
    expect(calls.every((call, index) => call === `+n${index % 500}@${103 + index}`)).toBe(true)
    expect(reflector.version).toBe(20_102)
  })
})
