/** One attempt: what is sent, and what counts as success (interface §3.2, §6, §8). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { DeliveryAttempt, WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts'
import { onRequest, type RawReceiver, startRawReceiver } from '../support/receiver-raw.ts'
import { createTestAuthority, selfSignedCertificate } from '../support/tls.ts'

const authority = createTestAuthority()
const opened: (Receiver | RawReceiver)[] = []
let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver({ tls: authority.issue(['localhost']), hostname: 'localhost' })
  davit = await startDavit('attempts', { ca: authority.ca })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  for (const server of opened) await server.close()
})

/** Sends one event to each URL. @returns the results of the first attempts, in the same order */
async function firstAttempts(urls: string[], limitMs?: number): Promise<WebhookDelivery[]> {
  const type = await ownEventType(davit)
  const names = urls.map((_, index) => `${type.slice(5)}-${index}`)
  await Promise.all(urls.map((url, index) => davit.endpoint(names[index] ?? '', { url, eventTypes: [type] })))
  await davit.publish(type, {})
  const lists = names.map((name) =>
    davit.deliveriesWhen(name, ([delivery]) => attemptOf(delivery) !== undefined, limitMs),
  )
  return (await Promise.all(lists)).flatMap(([delivery]) => delivery ?? [])
}

function attemptOf(delivery: WebhookDelivery | undefined): DeliveryAttempt | undefined {
  return delivery?.status?.attempts?.[0]
}

async function serveRaw(...args: Parameters<typeof startRawReceiver>): Promise<RawReceiver> {
  const server = await startRawReceiver(...args)
  opened.push(server)
  return server
}

async function serve(...args: Parameters<typeof startReceiver>): Promise<Receiver> {
  const server = await startReceiver(...args)
  opened.push(server)
  return server
}

test('a delivery is a POST of JSON to the URL, with its query, and with the headers of Standard Webhooks', async () => {
  const type = await ownEventType(davit)
  const url = `${receiver.url}/shape/%20x?a=1&b=%2F`
  const { secret } = await davit.endpoint('shape', { url, eventTypes: [type] })
  const event = await davit.publish(type, '{"n":1}')
  const [request] = await receiver.waitFor(1, { path: '/shape/%20x?a=1&b=%2F' })
  expect(request?.method).toBe('POST')
  expect(request?.headers).toMatchObject({
    'content-type': 'application/json',
    accept: '*/*',
    'content-length': String(request?.body.length),
    'user-agent': 'Davit/0.0.0-test',
    'webhook-id': event.status?.eventId,
    'webhook-timestamp': expect.stringMatching(/^\d{10}$/),
    'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
  })
  expect(request?.headers['webhook-id']).toMatch(/^msg_[0-9a-z]{26}$/)
  expect(request && verifyWebhook(request, secret)).toEqual({
    type,
    timestamp: expect.any(String),
    data: { n: 1 },
  })
})

test('every 2xx is a success', async () => {
  const codes = [200, 201, 202, 204, 299]
  for (const code of codes) receiver.answer(`/code/${code}`, { status: code })
  const deliveries = await firstAttempts(codes.map((code) => `${receiver.url}/code/${code}`))
  expect(deliveries.map(({ status }) => status?.state)).toEqual(codes.map(() => 'succeeded'))
  expect(deliveries.map((delivery) => attemptOf(delivery)?.code)).toEqual(codes)
  for (const { status } of deliveries) {
    expect(status).toMatchObject({ attemptCount: 1, completedAt: expect.any(String) })
    expect(status?.nextAttemptAt).toBeUndefined()
    expect(status?.attempts?.[0]?.error).toBeUndefined()
  }
})

test('every other status is a failed attempt: redirects are not followed, 410 and Retry-After mean nothing special', async () => {
  const codes = [300, 301, 302, 303, 307, 308, 400, 401, 404, 410, 429, 500, 503, 599]
  const headers = { location: `${receiver.url}/elsewhere`, 'retry-after': '7200' }
  for (const code of codes) receiver.answer(`/code/${code}`, { status: code, headers, body: 'no' })
  const deliveries = await firstAttempts(codes.map((code) => `${receiver.url}/code/${code}`))
  expect(deliveries.map(({ status }) => status?.state)).toEqual(codes.map(() => 'retrying'))
  expect(deliveries.map((delivery) => attemptOf(delivery)?.code)).toEqual(codes)
  for (const delivery of deliveries) {
    const attempt = attemptOf(delivery)
    const wait = Date.parse(delivery.status?.nextAttemptAt ?? '') - Date.parse(attempt?.at ?? '')
    expect(wait).toBeGreaterThanOrEqual(15_000)
    expect(wait).toBeLessThanOrEqual(31_000)
    expect(attempt).toMatchObject({ error: expect.stringMatching(/^HTTP \d{3}/), response: 'no' })
    const isRedirect = (attempt?.code ?? 0) < 400
    expect(attempt?.error?.includes(`(Location: ${headers.location})`)).toBe(isRedirect)
  }
  expect(receiver.received('/elsewhere')).toHaveLength(0)
})

describe('connection errors are failed attempts, each in plain words and without a status code', () => {
  test('refused, reset before an answer, and reset in the body of a 200', async () => {
    const gone = await startReceiver()
    await gone.close()
    const plain = await serve()
    plain.answer('/reset', 'reset')
    const cut = await serveRaw((socket) =>
      onRequest(socket, (answering) => {
        answering.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc', () =>
          answering.resetAndDestroy(),
        )
      }),
    )
    const deliveries = await firstAttempts([gone.url, `${plain.url}/reset`, cut.url])
    expect(deliveries.map(({ status }) => status?.state)).toEqual(['retrying', 'retrying', 'retrying'])
    expect(deliveries.map(attemptOf)).toMatchObject([
      { error: 'connection refused' },
      { error: 'connection reset' },
      { error: 'connection reset', code: 200 },
    ])
    expect(deliveries.slice(0, 2).map((delivery) => attemptOf(delivery)?.code)).toEqual([
      undefined,
      undefined,
    ])
  })

  test('a certificate that is expired, for another name, or of an unknown authority', async () => {
    const certificates = [
      authority.issue(['localhost'], -1),
      authority.issue(['example.com']),
      selfSignedCertificate(['localhost']),
    ]
    const servers = await Promise.all(certificates.map((tls) => serve({ tls, hostname: 'localhost' })))
    const deliveries = await firstAttempts(servers.map(({ url }) => url))
    expect(deliveries.map(({ status }) => status?.state)).toEqual(['retrying', 'retrying', 'retrying'])
    expect(deliveries.map((delivery) => attemptOf(delivery)?.error)).toEqual([
      'TLS certificate has expired',
      'TLS certificate does not match the host name',
      'TLS certificate is not trusted',
    ])
    expect(servers.flatMap(({ requests }) => requests)).toHaveLength(0)
  })
})

test('16 KB of a body are enough of a 2xx, even when it never ends', async () => {
  const endless = await serveRaw((socket) =>
    onRequest(socket, (answering) => {
      answering.write(
        `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4000\r\n${'x'.repeat(16_384)}\r\n`,
      )
    }),
  )
  const [delivery] = await firstAttempts([endless.url])
  expect(delivery?.status?.state).toBe('succeeded')
  expect(attemptOf(delivery)).toMatchObject({ code: 200, response: 'x'.repeat(256) })
})

test('connect, TLS and the whole response have 20 seconds together: later is a failed attempt', async () => {
  receiver.answer('/hangs', 'hang')
  receiver.answer('/just-in-time', { delayMs: 19_000 })
  const silent = await serveRaw(() => undefined)
  const drips = await serveRaw((socket) =>
    onRequest(socket, (answering) => {
      answering.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n')
      const drip = setInterval(() => answering.write('x'), 500)
      answering.on('close', () => clearInterval(drip))
    }),
  )
  const slowHandshake = `https://localhost:${silent.port}`
  const urls = [`${receiver.url}/hangs`, `${receiver.url}/just-in-time`, slowHandshake, drips.url]
  const [hung, inTime, handshake, dripped] = await firstAttempts(urls, 25_000)
  expect(attemptOf(hung)?.error).toBe('no response within 20 s')
  expect(attemptOf(handshake)?.error).toBe('no response within 20 s')
  expect(attemptOf(dripped)).toMatchObject({ error: 'response was not complete within 20 s', code: 200 })
  for (const late of [hung, handshake, dripped]) {
    expect(late?.status?.state).toBe('retrying')
    expect(attemptOf(late)?.latencyMs).toBeGreaterThanOrEqual(19_950)
    expect(attemptOf(late)?.latencyMs).toBeLessThan(22_000)
  }
  expect(inTime?.status?.state).toBe('succeeded')
})
