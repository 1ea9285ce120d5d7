import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { createMetrics } from './metrics.ts'
import { type OpsServerOptions, startOpsServer } from './process.ts'

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

async function ops(options: Partial<OpsServerOptions> = {}) {
  const server = await startOpsServer({
    host: '127.0.0.1',
    port: 0,
    metrics: createMetrics({ version: '1.2.3' }),
    live: () => [],
    ready: () => [],
    ...options,
  })
  toClose.push(server)
  const { address, port } = server.address
  return { server, url: `http://${address.includes(':') ? `[${address}]` : address}:${port}` }
}

test('metrics are served in the format of Prometheus', async () => {
  const { url } = await ops()
  const response = await fetch(`${url}/metrics?x=1`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect(await response.text()).toContain('davit_build_info{version="1.2.3",role=""} 1')
})

test('health and readiness say what is missing, at each request anew', async () => {
  let problems: string[] = ['the API server does not answer', 'no shard is owned']
  const { url } = await ops({ ready: () => problems })
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  const response = await fetch(`${url}/readyz`)
  expect([response.status, await response.text()]).toEqual([
    503,
    'the API server does not answer\nno shard is owned\n',
  ])
  problems = []
  expect(await (await fetch(`${url}/readyz`)).text()).toBe('ok\n')
})

test('a check or a scrape that throws is an answer', async () => {
  const fail = () => {
    throw new Error('canary')
  }
  const { url } = await ops({
    live: fail,
    metrics: { contentType: 'text/plain', render: async () => fail() },
  })
  for (const [path, status] of [
    ['/healthz', 503],
    ['/metrics', 500],
  ] as const) {
    const response = await fetch(url + path)
    expect(response.status).toBe(status)
    expect(await response.text()).not.toContain('canary')
  }
})

test.each([
  { method: 'GET', path: '/', want: 404 },
  { method: 'GET', path: '/metrics/', want: 404 },
  { method: 'GET', path: '/debug/pprof', want: 404 },
  { method: 'POST', path: '/metrics', want: 405 },
  { method: 'DELETE', path: '/healthz', want: 405 },
  { method: 'HEAD', path: '/healthz', want: 200 },
])('$method $path answers $want', async ({ method, path, want }) => {
  const { url } = await ops()
  expect((await fetch(url + path, { method })).status).toBe(want)
})

test('what is no HTTP, or a header too large, is refused', async () => {
  const { server } = await ops()
  for (const [bytes, want] of [
    ['hello\r\n\r\n', '400'],
    [`GET / HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(9000)}\r\n\r\n`, '431'],
  ] as const) {
    const socket = connect(server.address.port, '127.0.0.1')
    socket.end(bytes)
    expect(await text(socket)).toContain(` ${want} `)
  }
})

test('it listens on IPv6 where it is told to', async () => {
  const { url } = await ops({ host: '::1' })
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
})

test('an address in use is an error', async () => {
  const { server } = await ops()
  await expect(ops({ port: server.address.port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
})

test('closing ends connections that idle', async () => {
  const { server } = await ops()
  const socket = connect(server.address.port, '127.0.0.1')
  await once(socket, 'connect')
  const ended = once(socket, 'close')
  await server.close()
  await ended
})
