import { once } from 'node:events'
import { createServer as createSecureServer, type TlsOptions } from 'node:tls'
import { afterAll, afterEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { startReceiver } from '../../../test/support/receiver.ts'
import { onRequest, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { createTestAuthority, selfSignedCertificate } from '../../../test/support/tls.ts'
import type { SendRequest } from './send-failures.ts'
import { createWebhookSender } from './sender.ts'

const authority = createTestAuthority()
const good = authority.issue(['localhost', '127.0.0.1'])
const clock = new FakeClock()
const send = createWebhookSender({
  networks: { allowed: ['127.0.0.0/8', '::1/128'] },
  clock,
  ca: authority.ca,
})
afterAll(() => send.close())

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

function request(url: string): SendRequest {
  return { url, headers: {}, body: Buffer.from('{}'), deadlineMs: 20_000 }
}

async function secureReceiver(tls = good) {
  const receiver = await startReceiver({ tls, hostname: 'localhost' })
  toClose.push(receiver)
  return receiver
}

test('a certificate that the extra authority signed is good, by name and by address', async () => {
  const to = await secureReceiver()
  expect(await send.send(request(`${to.url}/x`))).toMatchObject({ kind: 'response', code: 200 })
  expect(await send.send(request(`https://127.0.0.1:${to.port}/x`))).toMatchObject({
    kind: 'response',
    code: 200,
  })
  expect(to.requests.map(({ headers }) => headers.host)).toEqual([
    `localhost:${to.port}`,
    `127.0.0.1:${to.port}`,
  ])
})

test('without the extra authority the same certificate is not trusted', async () => {
  const to = await secureReceiver()
  const strict = createWebhookSender({ networks: { allowed: ['127.0.0.0/8', '::1/128'] }, clock })
  toClose.push(strict)
  expect(await strict.send(request(to.url))).toMatchObject({
    class: 'tls',
    error: 'TLS certificate is not trusted',
  })
  expect(to.requests).toEqual([])
})

test.each([
  {
    name: 'expired',
    certificate: () => authority.issue(['localhost'], -1),
    want: 'TLS certificate has expired',
  },
  {
    name: 'for another host',
    certificate: () => authority.issue(['example.com']),
    want: 'TLS certificate does not match the host name',
  },
  {
    name: 'self-signed',
    certificate: () => selfSignedCertificate(['localhost']),
    want: 'TLS certificate is not trusted',
  },
])('a certificate that is $name fails, and no request is sent', async ({ certificate, want }) => {
  const to = await secureReceiver(certificate())
  expect(await send.send(request(to.url))).toEqual({
    kind: 'failure',
    class: 'tls',
    error: want,
    latencyMs: expect.any(Number),
  })
  expect(to.requests).toEqual([])
})

test.each(['TLSv1', 'TLSv1.1'] as const)('a receiver that speaks at most %s fails', async (version) => {
  const to = await rawTls({
    ...good,
    minVersion: 'TLSv1',
    maxVersion: version,
    ciphers: 'DEFAULT@SECLEVEL=0',
  })
  expect(await send.send(request(to.url))).toMatchObject({ class: 'tls', error: 'TLS handshake failed' })
})

test('TLS 1.2 is spoken where the receiver has no more', async () => {
  const to = await rawTls({ ...good, maxVersion: 'TLSv1.2' })
  expect(await send.send(request(to.url))).toMatchObject({ kind: 'response', code: 200 })
  expect(to.protocols).toEqual(['TLSv1.2'])
})

test('a new connection to the same origin resumes the session', async () => {
  const to = await rawTls({ ...good, maxVersion: 'TLSv1.2' }, 'connection: close\r\n')
  await send.send(request(to.url))
  await send.send(request(to.url))
  expect(to.resumed).toEqual([false, true])
})

test('plain text on the port reads as a failed handshake', async () => {
  const to = await startRawReceiver((socket) => socket.write('220 mail.example.com ESMTP\r\n'))
  toClose.push(to)
  expect(await send.send(request(to.url.replace('http://127.0.0.1', 'https://localhost')))).toMatchObject({
    class: 'tls',
    error: 'TLS handshake failed',
  })
})

test('a handshake that hangs ends at the deadline', async () => {
  let greeted = () => {}
  const hello = new Promise<void>((resolve) => {
    greeted = resolve
  })
  const to = await startRawReceiver((socket) => socket.on('data', greeted))
  toClose.push(to)
  const running = send.send(request(`https://localhost:${to.port}/`))
  await hello
  clock.advance(19_999)
  expect(await Promise.race([running, 'waiting'])).toBe('waiting')
  clock.advance(1)
  expect(await running).toMatchObject({
    class: 'timeout',
    error: 'no response within 20 s',
    latencyMs: 20_000,
  })
})

/** A TLS server with versions and ciphers of its own, that answers 200. */
async function rawTls(options: TlsOptions, header = '') {
  const protocols: (string | null)[] = []
  const resumed: boolean[] = []
  const server = createSecureServer(options, (socket) => {
    protocols.push(socket.getProtocol())
    resumed.push(socket.isSessionReused())
    socket.on('error', () => undefined)
    onRequest(socket, () => {
      socket.write(`HTTP/1.1 200 OK\r\n${header}content-length: 0\r\n\r\n`)
      if (header) socket.end()
    })
  })
  server.on('tlsClientError', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  toClose.push({ close: async () => void server.close() })
  const { port } = server.address() as { port: number }
  return { url: `https://localhost:${port}`, protocols, resumed }
}
