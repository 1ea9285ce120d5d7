import { once } from 'node:events'
import { createServer as createSecureServer, type TlsOptions } from 'node:tls'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { startReceiver } from '../../../test/support/receiver.ts'
import { onRequest, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { type Certificate, createTestAuthority, selfSignedCertificate } from '../../../test/support/tls.ts'
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
  expect(await send.send(request(to.url))).toMatchObject({
    class: 'tls',
    error: 'TLS handshake failed: the receiver supports neither TLS 1.2 nor TLS 1.3 (alert protocol_version)',
  })
})

test('TLS 1.2 is spoken where the receiver has no more', async () => {
  const to = await rawTls({ ...good, maxVersion: 'TLSv1.2' })
  expect(await send.send(request(to.url))).toMatchObject({ kind: 'response', code: 200 })
  expect(to.protocols).toEqual(['TLSv1.2'])
})

describe('a handshake that the receiver rejects says why', () => {
  test.each([
    {
      name: 'HTTP/2 alone',
      options: { ALPNProtocols: ['h2'] },
      want: 'the receiver does not support HTTP/1.1 (alert no_application_protocol)',
    },
    {
      name: 'a client certificate, in TLS 1.3',
      options: { requestCert: true, rejectUnauthorized: true },
      want: 'the receiver requires a client certificate (alert certificate_required)',
    },
    {
      name: 'a client certificate, in TLS 1.2',
      options: { requestCert: true, rejectUnauthorized: true, maxVersion: 'TLSv1.2' as const },
      want: 'the receiver rejected the TLS parameters (alert handshake_failure)',
    },
    {
      name: 'a cipher that nobody else has',
      options: { ciphers: 'PSK-AES128-CBC-SHA256', maxVersion: 'TLSv1.2' as const },
      want: 'the receiver rejected the TLS parameters (alert handshake_failure)',
    },
  ])('it speaks $name', async ({ options, want }) => {
    const to = await rawTls({ ...good, ...options })
    const outcome = await send.send(request(to.url))
    expect(outcome).toMatchObject({ class: 'tls', error: `TLS handshake failed: ${want}` })
  })

  /** RFC 8446 §6. */
  test.each([
    [10, 'the receiver rejected it (alert unexpected_message)'],
    [40, 'the receiver rejected the TLS parameters (alert handshake_failure)'],
    [42, 'the receiver rejected it (alert bad_certificate)'],
    [48, 'the receiver rejected it (alert unknown_ca)'],
    [49, 'the receiver denied access (alert access_denied)'],
    [50, 'the receiver rejected it (alert decode_error)'],
    [71, 'the receiver requires stronger ciphers (alert insufficient_security)'],
    [80, 'the receiver has an internal error (alert internal_error)'],
    [86, 'the receiver rejected it (alert inappropriate_fallback)'],
    [90, 'the receiver rejected it (alert user_canceled)'],
    [109, 'the receiver rejected it (alert missing_extension)'],
    [112, 'the receiver does not know the host name (alert unrecognized_name)'],
    [120, 'the receiver does not support HTTP/1.1 (alert no_application_protocol)'],
  ])('it sends the alert %i', async (alert, want) => {
    const to = await startRawReceiver((socket) =>
      socket.once('data', () => socket.end(Buffer.from([21, 3, 3, 0, 2, 2, alert]))),
    )
    toClose.push(to)
    expect(await send.send(request(`https://localhost:${to.port}/`))).toMatchObject({
      class: 'tls',
      error: `TLS handshake failed: ${want}`,
    })
  })

  test('a key that is too short is a certificate that is not trusted', async () => {
    const weak = selfSignedCertificate(['localhost'], ['-newkey', 'rsa:1024'])
    const trusting = createWebhookSender({
      networks: { allowed: ['127.0.0.0/8', '::1/128'] },
      clock,
      ca: weak.cert,
    })
    toClose.push(trusting)
    const to = await rawTls({ ...weak, ciphers: 'DEFAULT@SECLEVEL=0' })
    expect(await trusting.send(request(to.url))).toMatchObject({
      class: 'tls',
      error: 'TLS certificate is not trusted',
    })
  })
})

describe('a certificate is verified for each connection', () => {
  /** With them, a receiver resumes the sessions of the one before it. */
  const ticketKeys = Buffer.alloc(48, 7)

  async function listen(certificate: Certificate, port: number, maxVersion: 'TLSv1.2' | 'TLSv1.3') {
    return await rawTls({ ...certificate, ticketKeys, maxVersion }, 'connection: close\r\n', port)
  }

  test.each([
    { name: 'expired', next: () => authority.issue(['localhost'], -1), want: 'TLS certificate has expired' },
    {
      name: 'for another name',
      next: () => authority.issue(['example.com']),
      want: 'TLS certificate does not match the host name',
    },
    {
      name: 'of an unknown authority',
      next: () => createTestAuthority().issue(['localhost']),
      want: 'TLS certificate is not trusted',
    },
    {
      name: 'self-signed',
      next: () => selfSignedCertificate(['localhost']),
      want: 'TLS certificate is not trusted',
    },
  ])('although the receiver has the tickets of before: now it is $name', async ({ next, want }) => {
    const other = next()
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const before = await listen(good, 0, version)
      for (let i = 0; i < 2; i += 1)
        expect(await send.send(request(before.url))).toMatchObject({ kind: 'response', code: 200 })
      await before.stop()
      const after = await listen(other, before.port, version)
      for (let i = 0; i < 2; i += 1)
        expect(await send.send(request(after.url))).toMatchObject({ class: 'tls', error: want })
      expect(before.resumed).toEqual([false, false])
      await after.stop()
    }
  })

  test('and a connection is used no longer than it is valid', async () => {
    const now = new FakeClock(Date.now())
    const dated = createWebhookSender({
      networks: { allowed: ['127.0.0.0/8', '::1/128'] },
      clock: now,
      ca: authority.ca,
    })
    toClose.push(dated)
    const to = await rawTls(authority.issue(['localhost'], 1))
    const deliver = async () => expect(await dated.send(request(to.url))).toMatchObject({ code: 200 })
    await deliver()
    await deliver()
    expect(to.protocols).toHaveLength(1)
    now.setWallBy(23 * 3_600_000)
    await deliver()
    expect(to.protocols).toHaveLength(1)
    now.setWallBy(2 * 3_600_000)
    await deliver()
    expect(to.protocols).toHaveLength(2)
  })

  test('and a connection is used for five minutes at most, however busy it is', async () => {
    const time = new FakeClock()
    const other = createWebhookSender({ networks: { allowed: ['127.0.0.0/8'] }, clock: time })
    toClose.push(other)
    const to = await startReceiver()
    toClose.push(to)
    for (let second = 0; second < 600; second += 20) {
      await other.send(request(to.url))
      time.advance(20_000)
    }
    expect(to.connections()).toBe(2)
    expect(to.requests).toHaveLength(30)
  })
})

test.each([
  { name: 'mail', bytes: '220 mail.example.com ESMTP\r\n' },
  { name: 'plain HTTP', bytes: 'HTTP/1.1 400 Bad Request\r\n\r\n' },
  { name: 'SSH', bytes: 'SSH-2.0-OpenSSH_9.9\r\n' },
  { name: 'nothing that has a name', bytes: '\0\0\0\0\0\0\0\0' },
])('a port without TLS that speaks $name is named as such', async ({ bytes }) => {
  const to = await startRawReceiver((socket) => socket.write(bytes))
  toClose.push(to)
  expect(await send.send(request(to.url.replace('http://127.0.0.1', 'https://localhost')))).toMatchObject({
    class: 'tls',
    error: 'TLS handshake failed: the receiver does not use TLS on this port',
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
async function rawTls(options: TlsOptions, header = '', port = 0) {
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
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    const closed = once(server, 'close')
    server.close()
    await closed
  }
  toClose.push({ close: async () => void server.close() })
  const address = server.address() as { port: number }
  return { url: `https://localhost:${address.port}`, port: address.port, protocols, resumed, stop }
}
