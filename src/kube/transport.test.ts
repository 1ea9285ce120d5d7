import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { type Responder, sendStatus } from '../../test/support/scripted-api-server.ts'
import {
  anonymous,
  busy,
  CREATE,
  cleanUp,
  connectTransport,
  errorOf,
  LIST,
  startTransport,
} from '../../test/support/transport-bed.ts'

const broken: Responder = (response) => response.destroy()
const failing: Responder = (response) => sendStatus(response, 500, 'InternalError')

describe('a call', () => {
  it('sends what it was given and returns the body', async () => {
    const { server, transport, calls } = await startTransport()
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
    const { server } = await startTransport()
    const access = { origin: server.origin, basePath: '/k8s/clusters/c-1', credentials: anonymous }
    await connectTransport(server.origin, { access }).call(CREATE)
    expect(server.requests[0]?.path).toBe('/k8s/clusters/c-1/apis/test.dev/v1/things')
  })

  it('shares few connections among many calls', async () => {
    const { server, transport } = await startTransport({ connections: 4 })
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

  it('keeps its connection after a delete that says what it expects', async () => {
    const { server, transport } = await startTransport({ connections: 1 })
    const ports = new Set<unknown>()
    const note: Responder = (response) => {
      ports.add(response.socket?.remotePort)
      response.end('{}')
    }
    server.script('write', note, note, note)
    for (let call = 0; call < 3; call += 1) await transport.call({ ...CREATE, verb: 'delete' })
    expect(ports.size).toBe(1)
  })

  it('waits as long as a busy server asks before it tries again, write or not', async () => {
    for (const request of [LIST, CREATE]) {
      const clock = new FakeClock()
      const { server, transport, calls, counted } = await startTransport({ clock })
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

  it('sends nothing after its deadline, though the process stood still while it waited', async () => {
    const clock = new FakeClock()
    const { server, transport, calls, counted } = await startTransport({ clock, deadlineMs: 10_000 })
    server.script('write', busy)
    const call = errorOf(transport.call(CREATE))
    await counted.until(() => calls.length === 1)
    await settle()
    clock.standStill(30_000)
    await clock.elapse(0)
    expect(await call).toMatchObject({ kind: 'TooManyRequests' })
    expect(server.requests).toHaveLength(1)
  })

  it('gives up on a server that asks to wait beyond the deadline, at once', async () => {
    const { server, transport } = await startTransport({ clock: new FakeClock(), deadlineMs: 10_000 })
    server.script('write', (response) =>
      sendStatus(response, 429, 'TooManyRequests', { details: { retryAfterSeconds: 11 } }),
    )
    expect(await errorOf(transport.call(CREATE))).toMatchObject({
      kind: 'TooManyRequests',
      retryAfterMs: 11_000,
    })
  })

  it('repeats a read after a broken connection or a failing server, at most five times in all', async () => {
    const { server, transport, calls } = await startTransport()
    server.script('list', broken, failing)
    await transport.call(LIST)
    expect(calls).toEqual(['list error', 'list 500', 'list 200'])
    server.script('list', failing, failing, failing, failing, failing)
    expect(await errorOf(transport.call(LIST))).toMatchObject({ kind: 'Unavailable', status: 500 })
    expect(server.count('list')).toBe(8)
  })

  it('repeats what is no read as well, where that changes nothing', async () => {
    const { server, transport, calls } = await startTransport()
    server.script('write', broken, failing)
    await transport.call({ ...CREATE, repeatable: true })
    expect(calls).toEqual(['create error', 'create 500', 'create 201'])
  })

  it('never repeats a write that may have been done', async () => {
    const { server, transport } = await startTransport()
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
    const { server, transport, calls, counted } = await startTransport()
    await server.stop()
    const call = transport.call(CREATE)
    await counted.until(() => calls.length === 2)
    await server.start()
    await call
    expect(server.count('write')).toBe(1)
    expect(calls.at(-1)).toBe('create 201')
  })

  it('says Unavailable when the server stays away', async () => {
    const { server, transport } = await startTransport()
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
      const { server, transport } = await startTransport({ clock })
      server.script('list', respond)
      const call = errorOf(transport.call(LIST))
      await server.until(() => server.requests.length === 1)
      await clock.elapse(10_000)
      expect(await call).toMatchObject({ kind: 'Unavailable', status: 0 })
    }
  })

  it('ends at its deadline while it waits for a connection, and is then never sent', async () => {
    const clock = new FakeClock()
    const { server, transport } = await startTransport({ clock, connections: 1 })
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
    const { server, transport } = await startTransport({ maxResponseBytes: 1_000_000 })
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
      cleanUp(async () => socket.destroy())
      socket.end(
        'HTTP/1.1 429 Too Many\r\nretry-after: 60\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}',
      )
    })
    await new Promise<void>((resolve) => raw.listen(0, '127.0.0.1', resolve))
    cleanUp(() => new Promise((resolve) => raw.close(resolve)))
    const { port } = raw.address() as { port: number }
    const transport = connectTransport(`http://127.0.0.1:${port}`)
    const error = await errorOf(transport.call({ ...CREATE, body: 'x'.repeat(5_000_000) }))
    expect(['TooManyRequests', 'Unavailable']).toContain(error.kind)
  })
})
