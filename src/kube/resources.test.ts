import { afterEach, describe, expect, it } from 'vitest'
import { Changes } from '../../test/support/changes.ts'
import { fixedRandom, SkewedClock } from '../../test/support/fake-clock.ts'
import { type Responder, ScriptedApiServer, sendJson } from '../../test/support/scripted-api-server.ts'
import type { Credentials } from './auth.ts'
import { ApiError, type WatchEvent } from './client.ts'
import { listObjects } from './list.ts'
import { createResources } from './resources.ts'
import { createTransport } from './transport.ts'

const things = { group: 'test.dev', version: 'v1', plural: 'things', namespaced: true }
const nobody: Credentials = { headers: [], tls: {} }

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(options: { maxLineBytes?: number; maxResponseBytes?: number } = {}) {
  const server = await new ScriptedApiServer().start()
  const clock = new SkewedClock()
  const random = fixedRandom(0.5)
  const credentials = { current: () => nobody, refused() {} }
  const transport = createTransport({
    access: { origin: server.origin, basePath: '', credentials },
    clock,
    random,
    ...options,
  })
  cleanups.push(
    () => server.stop(),
    () => transport.close(),
  )
  return { server, clock, api: createResources({ transport, clock, random, ...options }) }
}

/** Reads a watch to its end: the events, and the error that ended it. */
async function readAll(
  watch: AsyncIterable<WatchEvent[]>,
): Promise<{ events: WatchEvent[]; error?: unknown }> {
  const events: WatchEvent[] = []
  try {
    for await (const batch of watch) events.push(...batch)
    return { events }
  } catch (error) {
    return { events, error }
  }
}

const event = (name: string, version: number, fields: object = {}) => ({
  type: 'ADDED',
  object: { metadata: { name, namespace: 'org', resourceVersion: String(version) }, ...fields },
})

describe('reading and writing resources', () => {
  it('creates with a field manager and without a check of fields, and gives the object back', async () => {
    const { server, api } = await start()
    const object = { apiVersion: 'test.dev/v1', kind: 'Thing', metadata: { name: 'a', namespace: 'org' } }
    expect(await api.create(things, object)).toEqual(object)
    const [request] = server.requests
    expect(request?.path).toBe('/apis/test.dev/v1/namespaces/org/things')
    expect(Object.fromEntries(request?.query ?? [])).toEqual({
      fieldManager: 'davit',
      fieldValidation: 'Ignore',
    })
    expect(request?.headers['content-type']).toBe('application/json')
  })

  it('asks for metadata alone where nobody needs the rest', async () => {
    const { server, api } = await start()
    await api.create(things, { metadata: { name: 'a', namespace: 'org' } }, { answer: 'metadata' })
    expect(server.requests[0]?.headers.accept).toBe(
      'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
    )
  })

  it.each([
    {
      what: 'a version that has moved on is a conflict',
      metadata: { resourceVersion: '7' },
      message: 'the object has been modified; please apply your changes to the latest version',
      want: 'Conflict',
    },
    {
      what: 'too many writers at a time are no conflict, since the patch asks for no version',
      metadata: { uid: 'a' },
      message: 'the object has been modified; please apply your changes to the latest version',
      want: 'Unavailable',
    },
  ])('of a patch: $what', async ({ metadata, message, want }) => {
    const { server, api } = await start()
    const status = { kind: 'Status', code: 409, reason: 'Conflict', message }
    server.script('write', (response) => sendJson(response, 409, status))
    const patched = api.patch(things, { namespace: 'org', name: 'a' }, { metadata, status: {} })
    await expect(patched).rejects.toMatchObject({ kind: want, status: 409 })
  })

  it('patches an object or its status by merge patch', async () => {
    const { server, api } = await start()
    const patch = { metadata: { resourceVersion: '7' }, status: { state: 'succeeded' } }
    await api.patch(things, { namespace: 'org', name: 'a' }, patch, { subresource: 'status' })
    await api.patch(things, { namespace: 'org', name: 'a' }, patch)
    expect(server.requests.map((request) => [request.method, request.path])).toEqual([
      ['PATCH', '/apis/test.dev/v1/namespaces/org/things/a/status'],
      ['PATCH', '/apis/test.dev/v1/namespaces/org/things/a'],
    ])
    expect(server.requests[0]?.headers['content-type']).toBe('application/merge-patch+json')
    expect(JSON.parse(server.requests[0]?.body ?? '')).toEqual(patch)
  })

  it('deletes under preconditions', async () => {
    const { server, api } = await start()
    await api.delete(things, { namespace: 'org', name: 'a' }, { uid: 'u', resourceVersion: '7' })
    expect(server.requests[0]?.method).toBe('DELETE')
    expect(JSON.parse(server.requests[0]?.body ?? '')).toMatchObject({
      preconditions: { uid: 'u', resourceVersion: '7' },
    })
  })

  it('sends nothing for a name that no object can have', async () => {
    const { server, api } = await start()
    for (const name of ['.', '..', 'a/b', '']) {
      const ref = { namespace: 'org', name }
      await expect(api.get(things, ref)).rejects.toMatchObject({ kind: 'NotFound' })
      await expect(api.delete(things, ref)).rejects.toMatchObject({ kind: 'NotFound' })
      await expect(api.patch(things, ref, {})).rejects.toMatchObject({ kind: 'NotFound' })
      await expect(api.create(things, { metadata: ref })).rejects.toMatchObject({ kind: 'Invalid' })
    }
    expect(server.requests).toEqual([])
  })

  it('lists page by page, by labels and fields, larger pages once it knows how small the objects are', async () => {
    const { server, api } = await start()
    for (let index = 0; index < 700; index += 1) server.put(`t${index}`)
    const query = { namespace: 'org', labelSelector: 'a=b,c in (d)', fieldSelector: 'spec.x=y', limit: 500 }
    const first = await api.list(things, query)
    const second = await api.list(things, query, first.continue)
    expect([first.items.length, second.items.length]).toEqual([64, 500])
    expect(first.resourceVersion).toBe('800')
    const asked = server.requests[1]?.query
    expect(asked?.get('labelSelector')).toBe('a=b,c in (d)')
    expect(asked?.get('fieldSelector')).toBe('spec.x=y')
    expect(asked?.get('continue')).toBe(first.continue)
    const third = await api.list(things, query, second.continue)
    expect([third.items.length, third.continue]).toEqual([136, undefined])
  })

  it('asks for fewer objects where a page is too large to be read, and goes on from there', async () => {
    const { server, api } = await start({ maxResponseBytes: 100_000 })
    const sizes: number[] = []
    // Small objects, then 60 large ones.
    const bytesOf = (n: number) => (n < 64 ? 100 : 10_000)
    const respond: Responder = (response, { query }) => {
      const limit = Number(query.get('limit'))
      const begin = Number(query.get('continue') ?? 0)
      sizes.push(limit)
      const end = Math.min(124, begin + limit)
      const items = Array.from({ length: end - begin }, (_, n) => ({
        metadata: { name: `o${begin + n}`, annotations: { pad: 'x'.repeat(bytesOf(begin + n)) } },
      }))
      const metadata = { resourceVersion: '7', ...(end < 124 ? { continue: String(end) } : {}) }
      sendJson(response, 200, { metadata, items })
    }
    for (let n = 0; n < 60; n += 1) server.script('list', respond)
    const names: string[] = []
    for await (const { metadata } of listObjects(api, things, {})) names.push(metadata.name)
    expect(names).toEqual(Array.from({ length: 124 }, (_, n) => `o${n}`))
    expect(sizes.slice(0, 5)).toEqual([64, 500, 125, 32, 8])
  })

  it('gives up where one object is too large to be read', async () => {
    const { server, api } = await start({ maxResponseBytes: 10_000 })
    const respond: Responder = (response) => void response.writeHead(200).end('x'.repeat(20_000))
    server.script('list', respond)
    // A list of one object.
    server.script('version', respond)
    await expect(api.list(things, { limit: 4 })).rejects.toMatchObject({ kind: 'TooLarge' })
    expect([server.count('list'), server.count('version')]).toEqual([1, 1])
  })

  it('throws an ApiError for an answer that is not JSON, no list or no object', async () => {
    const { server, api } = await start()
    server.script('list', (response) => void response.writeHead(200).end('<html>'))
    await expect(api.list(things, {})).rejects.toMatchObject({ kind: 'Unavailable', status: 200 })
    for (const body of [null, {}, { items: {}, metadata: { resourceVersion: '1' } }, { items: [] }]) {
      server.script('list', (response) => sendJson(response, 200, body))
      await expect(api.list(things, {})).rejects.toBeInstanceOf(ApiError)
    }
    server.script('get', (response) => sendJson(response, 200, []))
    await expect(api.get(things, { namespace: 'org', name: 'a' })).rejects.toBeInstanceOf(ApiError)
  })
})

describe('a watch', () => {
  const watch = (api: Awaited<ReturnType<typeof start>>['api'], signal = new AbortController().signal) =>
    readAll(api.watch(things, {}, '100', signal))

  it('asks for bookmarks, from a version, for 5 to 10 minutes', async () => {
    const { server, api } = await start()
    const reading = watch(api)
    const open = await server.watch()
    open.end()
    await reading
    expect(Object.fromEntries(server.requests[0]?.query ?? [])).toEqual({
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: '100',
      timeoutSeconds: '450',
    })
  })

  it('gives events and bookmarks, whatever bytes the socket brings together', async () => {
    const { server, api } = await start()
    const reading = watch(api)
    const open = await server.watch()
    const text = [event('ü𝄞', 101), event('b', 102)].map((each) => `${JSON.stringify(each)}\n`).join('')
    for (const byte of Buffer.from(text)) open.raw(Buffer.of(byte))
    open.bookmark(110)
    open.end()
    const { events, error } = await reading
    expect(error).toBeUndefined()
    expect(
      events.map((each) => (each.type === 'BOOKMARK' ? each.resourceVersion : each.object.metadata.name)),
    ).toEqual(['ü𝄞', 'b', '110'])
  })

  it('gives what came before an ERROR event, then throws it by its kind', async () => {
    const { server, api } = await start()
    const reading = watch(api)
    const open = await server.watch()
    open.raw(`${JSON.stringify(event('a', 101))}\n`)
    open.error(410)
    open.send(event('b', 102))
    const { events, error } = await reading
    expect(events).toHaveLength(1)
    expect(error).toMatchObject({ kind: 'Gone' })
    await server.until(() => server.watches.length === 0)
  })

  const nonsense = [
    '{"type":"ADDED","object":{"metadata":{"na',
    'not json',
    'null',
    '{"type":"ADDED"}',
    '{"type":"ADDED","object":{"metadata":null}}',
    '{"type":"RENAMED","object":{"metadata":{"name":"a"}}}',
    '[]',
  ]
  it.each(nonsense)('throws Unavailable for the line %j', async (line) => {
    const { server, api } = await start()
    const reading = watch(api)
    const open = await server.watch()
    open.raw(`${line}\n`)
    expect((await reading).error).toMatchObject({ kind: 'Unavailable', status: 200 })
  })

  it('throws Unavailable when the stream is cut or ends inside a line', async () => {
    for (const how of ['cut', 'end'] as const) {
      const { server, api } = await start()
      const reading = watch(api)
      const open = await server.watch()
      open.send(event('a', 101))
      open.raw('{"type":"MODI')
      if (how === 'cut') setImmediate(() => open.cut())
      else open.end()
      expect((await reading).error).toMatchObject({ kind: 'Unavailable', status: 0 })
    }
  })

  it('throws Unavailable for a line beyond the limit, before all of it came', async () => {
    const { server, api } = await start({ maxLineBytes: 100_000 })
    const reading = watch(api)
    const open = await server.watch()
    open.raw('x'.repeat(150_000))
    expect((await reading).error).toMatchObject({ kind: 'Unavailable' })
  })

  it('ends after 90 seconds of silence, counted from the last byte', async () => {
    const { server, api, clock } = await start()
    const changes = new Changes()
    let seen = 0
    const reading = (async () => {
      for await (const batch of api.watch(things, {}, '100', new AbortController().signal)) {
        seen += batch.length
        changes.notify()
      }
    })()
    const open = await server.watch()
    for (let count = 1; count <= 3; count += 1) {
      open.bookmark(100 + count)
      await changes.until(() => seen === count)
      clock.jump(60_000)
    }
    clock.jump(29_000)
    open.bookmark(104)
    await changes.until(() => seen === 4)
    expect(open.open).toBe(true)
    clock.jump(90_001)
    await reading
  })

  it('holds the server back when nobody reads, instead of taking all into memory', async () => {
    const { server, api } = await start()
    const events = api.watch(things, {}, '100', new AbortController().signal)
    const first = events[Symbol.asyncIterator]().next()
    const open = await server.watch()
    open.send(event('first', 101))
    await first
    const before = process.memoryUsage().rss
    let refused = 0
    const line = `${JSON.stringify(event('big', 102, { data: 'x'.repeat(100_000) }))}\n`
    for (let index = 0; index < 1_000; index += 1) {
      if (!open.offer(line)) refused += 1
      await new Promise((resolve) => setImmediate(resolve))
      if (refused > 20) break
    }
    expect(refused).toBeGreaterThan(20)
    expect(process.memoryUsage().rss - before).toBeLessThan(80_000_000)
    open.cut()
  })

  it('ends its connection when its reader leaves', async () => {
    const { server, api } = await start()
    const reading = (async () => {
      for await (const _ of api.watch(things, {}, '100', new AbortController().signal)) break
    })()
    const open = await server.watch()
    open.send(event('a', 101))
    await reading
    await server.until(() => server.watches.length === 0)
  })
})
