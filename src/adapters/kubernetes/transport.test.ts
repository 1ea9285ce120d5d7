import { createServer } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { Changes } from '../../../test/support/changes.ts'
import { FakeClock, fixedRandom, SkewedClock, settle } from '../../../test/support/fake-clock.ts'
import {
  type Responder,
  ScriptedApiServer,
  sendJson,
  sendStatus,
} from '../../../test/support/scripted-api-server.ts'
import { ApiError } from '../../ports/kubernetes.ts'
import type { CredentialSource, Credentials } from './cluster-access.ts'
import { type ApiRequest, createTransport, type Transport, type TransportOptions } from './transport.ts'

const LIST: ApiRequest = { verb: 'list', path: '/apis/test.dev/v1/things' }
const CREATE: ApiRequest = { verb: 'create', path: '/apis/test.dev/v1/things', body: '{"metadata":{}}' }
const nobody: Credentials = { headers: [], tls: {} }
const anonymous: CredentialSource = { current: () => nobody, refused() {} }

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(options: Partial<TransportOptions> = {}) {
  const server = await new ScriptedApiServer().start()
  cleanups.push(() => server.stop().catch(() => undefined))
  const calls: string[] = []
  const counted = new Changes()
  const apiCall = (verb: string, code: string) => {
    calls.push(`${verb} ${code}`)
    counted.notify()
  }
  const transport = connect(server.origin, { metrics: { apiCall }, ...options })
  return { server, transport, calls, counted }
}

function connect(origin: string, options: Partial<TransportOptions> = {}): Transport {
  const transport = createTransport({
    access: { origin, basePath: '', credentials: anonymous },
    clock: new SkewedClock(),
    random: fixedRandom(0),
    ...options,
  })
  cleanups.push(() => transport.close())
  return transport
}

async function errorOf(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ApiError)
  return error as ApiError
}

const busy: Responder = (response) =>
  sendStatus(response, 429, 'TooManyRequests', { headers: { 'retry-after': '1' } })
const broken: Responder = (response) => response.destroy()
const failing: Responder = (response) => sendStatus(response, 500, 'InternalError')

describe('a call', () => {
  it('sends what it was given and returns the body', async () => {
    const { server, transport, calls } = await start()
    const body = await transport.call({ ...CREATE, contentType: 'application/x', accept: 'application/y' })
    expect(body.toString()).toBe('{"metadata":{}}')
    expect(server.requests[0]).toMatchObject({
      method: 'POST',
      path: '/apis/test.dev/v1/things',
      body: '{"metadata":{}}',
      headers: { 'content-type': 'application/x', accept: 'application/y', 'user-agent': 'davit' },
    })
    expect(calls).toEqual(['create 201'])
  })

  it('puts the path of a proxy before the API’s', async () => {
    const { server } = await start()
    const access = { origin: server.origin, basePath: '/k8s/clusters/c-1', credentials: anonymous }
    await connect(server.origin, { access }).call(CREATE)
    expect(server.requests[0]?.path).toBe('/k8s/clusters/c-1/apis/test.dev/v1/things')
  })

  it('shares few connections among many calls', async () => {
    const { server, transport } = await start({ connections: 4 })
    const ports = new Set<unknown>()
    server.script(
      'list',
      ...Array.from(
        { length: 100 },
        (): Responder => (response, request) => {
          ports.add(response.socket?.remotePort)
          server.sendList(response, request)
        },
      ),
    )
    await Promise.all(Array.from({ length: 100 }, () => transport.call(LIST)))
    expect(ports.size).toBeLessThanOrEqual(4)
  })

  it('waits as long as a busy server asks before it tries again, write or not', async () => {
    for (const request of [LIST, CREATE]) {
      const clock = new FakeClock()
      const { server, transport, calls, counted } = await start({ clock })
      server.script(request === LIST ? 'list' : 'write', busy)
      const call = transport.call(request)
      await counted.until(() => calls.length === 1)
      await settle()
      await clock.elapse(999)
      expect(server.requests).toHaveLength(1)
      await clock.elapse(1)
      await call
      expect(server.requests).toHaveLength(2)
    }
  })

  it('gives up on a server that asks to wait beyond the deadline, at once', async () => {
    const { server, transport } = await start({ clock: new FakeClock(), deadlineMs: 10_000 })
    server.script('write', (response) =>
      sendStatus(response, 429, 'TooManyRequests', { details: { retryAfterSeconds: 11 } }),
    )
    expect(await errorOf(transport.call(CREATE))).toMatchObject({
      kind: 'TooManyRequests',
      retryAfterMs: 11_000,
    })
  })

  it('repeats a read after a broken connection or a failing server, at most five times in all', async () => {
    const { server, transport, calls } = await start()
    server.script('list', broken, failing)
    await transport.call(LIST)
    expect(calls).toEqual(['list error', 'list 500', 'list 200'])
    server.script('list', failing, failing, failing, failing, failing)
    expect(await errorOf(transport.call(LIST))).toMatchObject({ kind: 'Unavailable', status: 500 })
    expect(server.count('list')).toBe(8)
  })

  it('never repeats a write that may have been done', async () => {
    const { server, transport } = await start()
    server.script('write', broken)
    expect(await errorOf(transport.call(CREATE))).toMatchObject({ kind: 'Unavailable', status: 0 })
    server.script('write', failing)
    expect(await errorOf(transport.call(CREATE))).toMatchObject({ kind: 'Unavailable', status: 500 })
    server.script('write', (response) => {
      response.writeHead(201)
      response.write('{"metadata"', () => response.destroy())
    })
    expect(await errorOf(transport.call(CREATE))).toMatchObject({ kind: 'Unavailable' })
    expect(server.count('write')).toBe(3)
  })

  it('repeats even a write while connections are refused, until the server is back', async () => {
    const { server, transport, calls, counted } = await start()
    await server.stop()
    const call = transport.call(CREATE)
    await counted.until(() => calls.length === 2)
    await server.start()
    await call
    expect(server.count('write')).toBe(1)
    expect(calls.at(-1)).toBe('create 201')
  })

  it('says Unavailable when the server stays away', async () => {
    const { server, transport } = await start()
    await server.stop()
    const error = await errorOf(transport.call(CREATE))
    expect(error).toMatchObject({ kind: 'Unavailable', status: 0 })
    expect(error.message).toMatch(/ECONNREFUSED/)
  })

  it('ends at its deadline: no answer, half an answer, or no connection', async () => {
    const silent: Responder = () => undefined
    const half: Responder = (response) => {
      response.writeHead(200)
      response.write('{"items":[')
    }
    for (const respond of [silent, half]) {
      const clock = new FakeClock()
      const { server, transport } = await start({ clock })
      server.script('list', respond)
      const call = errorOf(transport.call(LIST))
      await server.until(() => server.requests.length === 1)
      await clock.elapse(10_000)
      expect(await call).toMatchObject({ kind: 'Unavailable', status: 0 })
    }
  })

  it('ends at its deadline while it waits for a connection, and is then never sent', async () => {
    const clock = new FakeClock()
    const { server, transport } = await start({ clock, connections: 1 })
    server.script('list', () => undefined)
    const first = errorOf(transport.call(LIST))
    await server.until(() => server.requests.length === 1)
    const second = errorOf(transport.call(CREATE))
    await settle()
    clock.advance(10_000)
    expect((await first).kind).toBe('Unavailable')
    expect((await second).kind).toBe('Unavailable')
    await transport.call(LIST)
    expect([server.count('list'), server.count('write')]).toEqual([2, 0])
  })

  it('refuses a response beyond the limit without reading it all', async () => {
    const { server, transport } = await start({ maxResponseBytes: 1_000_000 })
    let sent = 0
    server.script('list', (response) => {
      const more = () => {
        if (response.destroyed) return
        sent += 1
        response.write('x'.repeat(100_000), more)
      }
      more()
    })
    expect(await errorOf(transport.call(LIST))).toMatchObject({ kind: 'TooLarge' })
    await server.until(() => sent > 0)
    expect(sent).toBeLessThan(200)
  })

  it('survives an API server that answers before it has read, and hangs up', async () => {
    const raw = createServer((socket) => {
      socket.on('error', () => undefined)
      cleanups.push(async () => socket.destroy())
      socket.end(
        'HTTP/1.1 429 Too Many\r\nretry-after: 60\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}',
      )
    })
    await new Promise<void>((resolve) => raw.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => new Promise((resolve) => raw.close(resolve)))
    const { port } = raw.address() as { port: number }
    const transport = connect(`http://127.0.0.1:${port}`)
    const error = await errorOf(transport.call({ ...CREATE, body: 'x'.repeat(5_000_000) }))
    expect(['TooManyRequests', 'Unavailable']).toContain(error.kind)
  })
})

describe('credentials', () => {
  /** Gives the next of these after each refusal. */
  function tokens(...names: string[]): CredentialSource & { refusals: number } {
    let held: Credentials = { headers: ['authorization', `Bearer ${names.shift()}`], tls: {} }
    return {
      refusals: 0,
      current: () => held,
      refused() {
        this.refusals += 1
        const next = names.shift()
        if (next !== undefined) held = { headers: ['authorization', `Bearer ${next}`], tls: held.tls }
      },
    }
  }
  const wants =
    (token: string): Responder =>
    (response, request) => {
      if (request.headers.authorization === `Bearer ${token}`) sendJson(response, 200, {})
      else sendStatus(response, 401, 'Unauthorized')
    }

  it('are fetched again after a 401, and the call, even a write, is repeated once with new ones', async () => {
    const credentials = tokens('old', 'new')
    const server = await new ScriptedApiServer().start()
    cleanups.push(() => server.stop())
    const transport = connect(server.origin, { access: { origin: server.origin, basePath: '', credentials } })
    server.script('write', wants('new'), wants('new'))
    await transport.call(CREATE)
    expect(server.count('write')).toBe(2)
    expect(credentials.refusals).toBe(1)
  })

  it('that are refused and have no successor are no reason to ask again', async () => {
    const credentials = tokens('old')
    const server = await new ScriptedApiServer().start()
    cleanups.push(() => server.stop())
    const transport = connect(server.origin, { access: { origin: server.origin, basePath: '', credentials } })
    server.script('write', wants('new'), wants('new'))
    expect(await errorOf(transport.call(CREATE))).toMatchObject({ kind: 'Unauthorized', status: 401 })
    expect(server.count('write')).toBe(1)
  })
})

describe('a stream', () => {
  const WATCH: ApiRequest = { verb: 'watch', path: '/apis/test.dev/v1/things?watch=1&resourceVersion=100' }

  it('gives what comes until the server ends it', async () => {
    const { server, transport } = await start()
    const stream = await transport.open(WATCH, new AbortController().signal)
    const watch = await server.watch()
    watch.raw('one')
    watch.end()
    const chunks: Buffer[] = []
    for await (const chunk of stream.chunks) chunks.push(chunk)
    expect(Buffer.concat(chunks).toString()).toBe('one')
    stream.close()
  })

  it('has a connection of its own, so that watches never use up those of calls', async () => {
    const { server, transport } = await start({ connections: 1 })
    const { signal } = new AbortController()
    await Promise.all([1, 2, 3].map(() => transport.open(WATCH, signal)))
    expect(server.watches).toHaveLength(3)
    await transport.call(LIST)
  })

  it('that is answered with an error throws it, with the wait that was asked for', async () => {
    const { server, transport } = await start()
    server.script('watch', busy)
    expect(await errorOf(transport.open(WATCH, new AbortController().signal))).toMatchObject({
      kind: 'TooManyRequests',
      retryAfterMs: 1_000,
    })
  })

  it('that is not opened by the deadline throws, also when an error drips in for ever', async () => {
    const drip: Responder = (response) => {
      response.writeHead(500)
      response.write('{')
    }
    const never: Responder = () => undefined
    for (const respond of [drip, never]) {
      const clock = new FakeClock()
      const { server, transport } = await start({ clock })
      server.script('watch', respond)
      const opening = errorOf(transport.open(WATCH, new AbortController().signal))
      await server.until(() => server.requests.length === 1)
      await settle()
      await clock.elapse(10_000)
      expect((await opening).kind).toBe('Unavailable')
    }
  })

  it('ends when it is aborted, before or after it was opened, and when the transport is closed', async () => {
    const { server, transport } = await start()
    const aborted = new AbortController()
    aborted.abort()
    expect((await errorOf(transport.open(WATCH, aborted.signal))).kind).toBe('Unavailable')
    const abort = new AbortController()
    const one = await transport.open(WATCH, abort.signal)
    const other = await transport.open(WATCH, new AbortController().signal)
    const ends = [one, other].map(async (stream) => {
      for await (const _ of stream.chunks);
    })
    const broken = ends.map((end) => expect(end).rejects.toThrow())
    abort.abort()
    await broken[0]
    await transport.close()
    await broken[1]
    await server.until(() => server.watches.length === 0)
  })
})
