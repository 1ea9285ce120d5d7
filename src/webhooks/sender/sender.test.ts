import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { SkewedClock } from '../../../test/support/fake-clock.ts'
import { type Receiver, startReceiver, verifyWebhook } from '../../../test/support/receiver.ts'
import type { SendRequest } from './send-failures.ts'
import { createWebhookSender, type WebhookSenderOptions } from './sender.ts'

const KEY = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
const SECRET = `whsec_${KEY.toString('base64')}`

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

function sender(options: Partial<WebhookSenderOptions> = {}) {
  const created = createWebhookSender({
    networks: { allowed: ['127.0.0.0/8', '::1/128'] },
    clock: new SkewedClock(),
    ...options,
  })
  toClose.push(created)
  return created
}

async function receiver(...args: Parameters<typeof startReceiver>): Promise<Receiver> {
  const started = await startReceiver(...args)
  toClose.push(started)
  return started
}

function request(url: string, given: Partial<SendRequest> = {}): SendRequest {
  return {
    url,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from('{}'),
    deadlineMs: 20_000,
    ...given,
  }
}

test('what goes over the wire is the headers given, and what HTTP itself needs', async () => {
  const to = await receiver()
  const headers = {
    'content-type': 'application/json',
    accept: '*/*',
    'user-agent': 'Davit',
    'webhook-id': 'msg_2kk1qc7v0t0000000000000000',
    'webhook-timestamp': '1700000000',
    'webhook-signature': 'v1,abc= v1,def=',
  }
  await sender().send(request(`${to.url}/hooks?a=b%20c`, { headers, body: Buffer.from('{"a":1}') }))
  const [received] = to.requests
  expect([received?.method, received?.path]).toEqual(['POST', '/hooks?a=b%20c'])
  expect(received?.rawHeaders).toEqual([
    ...['host', `127.0.0.1:${to.port}`],
    ...['connection', 'keep-alive'],
    ...Object.entries(headers).flat(),
    ...['content-length', '7'],
  ])
})

test('the receiver gets the exact bytes that were signed', async () => {
  const to = await receiver()
  const send = sender()
  const id = 'msg_2kk1qc7v0t0000000000000000'
  const timestamp = Math.floor(Date.now() / 1000)
  const text = '{"b":1,"a":9007199254740993,"c":1.0,"text":"\\u00e9é\u{1F600}\\n","long":"'
  const body = Buffer.from(`${text}${'x'.repeat(200_000)}"}`)
  // A view into a larger buffer, as bodies cut out of one are.
  const part = new Uint8Array(Buffer.concat([Buffer.from('before'), body, Buffer.from('after')])).subarray(
    6,
    6 + body.length,
  )
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${createHmac('sha256', KEY).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
  }
  const outcome = await send.send(request(`${to.url}/x`, { headers, body: part }))
  const [received] = to.requests
  expect(outcome).toMatchObject({ kind: 'response', code: 200 })
  expect(received?.body.equals(body)).toBe(true)
  expect(received && verifyWebhook(received, SECRET)).toMatchObject({ a: expect.anything() })
})

test.each([200, 201, 204, 299, 400, 401, 404, 410, 429, 500, 503])(
  'a response with %d is an outcome with its code',
  async (status) => {
    const to = await receiver()
    to.answer('/x', { status, ...(status === 204 ? {} : { body: 'said\tso' }) })
    const outcome = await sender().send(request(`${to.url}/x`))
    expect(outcome).toEqual({
      kind: 'response',
      code: status,
      latencyMs: expect.any(Number),
      response: status === 204 ? '' : 'said so',
    })
  },
)

test.each([301, 302, 303, 307, 308])('a redirect with %d is not followed', async (status) => {
  const to = await receiver()
  to.answer('/x', { status, headers: { location: `${to.url}/elsewhere` } })
  expect(await sender().send(request(`${to.url}/x`))).toMatchObject({ kind: 'response', code: status })
  expect(to.requests.map(({ path }) => path)).toEqual(['/x'])
})

test.each([
  { name: 'a URL', location: 'https://hooks.example.com/x/', want: 'https://hooks.example.com/x/' },
  { name: 'a path', location: '/login?next=%2Fx', want: '/login?next=%2Fx' },
  { name: 'characters outside of ASCII', location: '/caf\u00e9', want: expect.stringMatching(/^\/caf/) },
  { name: 'a long one', location: `/${'a'.repeat(5000)}`, want: `/${'a'.repeat(199)}…` },
  { name: 'one with tabs', location: '/a\tb', want: '/a b' },
  { name: 'the first of several', location: ['/a', '/b'], want: '/a' },
  { name: 'an empty one', location: '', want: undefined },
  { name: 'none', location: undefined, want: undefined },
])('the Location of a redirect is kept: $name', async ({ location, want }) => {
  const to = await receiver()
  const headers = location === undefined ? {} : { location: location as string }
  to.answer('/x', { status: 308, headers })
  const outcome = await sender().send(request(`${to.url}/x`))
  expect(outcome).toMatchObject({ kind: 'response', code: 308 })
  expect('location' in outcome ? outcome.location : undefined).toEqual(want)
})

test.each([200, 201, 404, 503])(
  'the Location of a response with %d is not that of a redirect',
  async (status) => {
    const to = await receiver()
    to.answer('/x', { status, headers: { location: '/elsewhere' } })
    expect(await sender().send(request(`${to.url}/x`))).not.toHaveProperty('location')
  },
)

test('one after another, requests to an origin share a connection, also over several paths', async () => {
  const to = await receiver()
  const send = sender()
  for (const path of ['/a', '/b', '/a', '/c']) await send.send(request(to.url + path))
  expect(to.connections()).toBe(1)
})

test('origins share no connection', async () => {
  const to = await receiver({ host: '0.0.0.0', hostname: '127.0.0.1' })
  const send = sender()
  await send.send(request(to.url))
  // The same server and port under another name.
  await send.send(request(to.url.replace('127.0.0.1', '127.0.0.2')))
  await send.send(request(to.url.replace('127.0.0.1', 'localhost')))
  expect(to.requests.map(({ connection }) => connection)).toEqual([1, 2, 3])
})

test('a path that hangs holds up no other path of its host', async () => {
  const to = await receiver()
  to.answer('/hang', 'hang')
  const send = sender()
  const giveUp = new AbortController()
  const hanging = Array.from({ length: 300 }, () => send.send(request(`${to.url}/hang`), giveUp.signal))
  await to.waitFor(300, { path: '/hang' })
  for (let i = 0; i < 20; i += 1)
    expect(await send.send(request(`${to.url}/good`))).toMatchObject({ code: 200 })
  giveUp.abort()
  for (const outcome of await Promise.all(hanging)) expect(outcome).toMatchObject({ class: 'canceled' })
})

test('a closed port reads as refused', async () => {
  const to = await receiver()
  await to.close()
  expect(await sender().send(request(to.url))).toMatchObject({
    kind: 'failure',
    class: 'refused',
    error: 'connection refused',
  })
})

test('a connection that the receiver resets before it answers reads as reset', async () => {
  const to = await receiver()
  to.answer('/x', 'reset')
  const outcome = await sender().send(request(`${to.url}/x`))
  expect(outcome).toMatchObject({ kind: 'failure', class: 'reset', error: 'connection reset' })
  expect(outcome).not.toHaveProperty('code')
  expect(to.requests).toHaveLength(1)
})

test('a kept connection that ends without an answer is replaced once, at once', async () => {
  const to = await receiver()
  const send = sender()
  await send.send(request(`${to.url}/x`))
  to.answer('/x', 'reset', { status: 200 })
  expect(await send.send(request(`${to.url}/x`))).toMatchObject({ kind: 'response', code: 200 })
  expect(to.connections()).toBe(2)
  to.answer('/x', 'reset')
  expect(await send.send(request(`${to.url}/x`))).toMatchObject({ kind: 'failure', class: 'reset' })
  expect(to.connections()).toBe(3)
  expect(to.requests).toHaveLength(5)
})

test('a signal cancels an attempt under way, and one that has not begun', async () => {
  const to = await receiver()
  to.answer('/x', 'hang')
  const send = sender()
  const giveUp = new AbortController()
  const running = send.send(request(`${to.url}/x`), giveUp.signal)
  await to.waitFor(1)
  giveUp.abort()
  expect(await running).toMatchObject({ kind: 'failure', class: 'canceled' })
  expect(await send.send(request(`${to.url}/y`), giveUp.signal)).toMatchObject({ class: 'canceled' })
  expect(to.received('/y')).toEqual([])
})

test('closing cancels what is under way and sends nothing more', async () => {
  const to = await receiver()
  to.answer('/x', 'hang')
  const send = sender()
  await send.send(request(`${to.url}/idle`))
  const running = send.send(request(`${to.url}/x`))
  await to.waitFor(2)
  await send.close()
  expect(await running).toMatchObject({ class: 'canceled' })
  expect(await send.send(request(`${to.url}/late`))).toMatchObject({ class: 'canceled' })
  expect(to.requests).toHaveLength(2)
})

test.each([
  { name: 'a header with a line break', headers: { 'x-a': 'b\r\nx-c: d' } },
  { name: 'a header name that is none', headers: { 'x a': 'b' } },
  { name: 'a transfer coding of its own', headers: { 'transfer-encoding': 'chunked' } },
])('$name is an outcome, not an exception, and sends nothing', async ({ headers }) => {
  const to = await receiver()
  expect(await sender().send(request(to.url, { headers: headers as Record<string, string> }))).toMatchObject({
    kind: 'failure',
    class: 'protocol',
    error: 'request could not be sent',
  })
  expect(to.requests).toEqual([])
})

test('idle connections are bounded in all, the one idle longest ends first', async () => {
  const receivers = [await receiver(), await receiver(), await receiver()]
  const send = sender({ maxIdleConnections: 2 })
  for (const to of receivers) await send.send(request(to.url))
  const [first, second, third] = receivers
  for (const to of [third, second]) await send.send(request(to?.url ?? ''))
  expect([second?.connections(), third?.connections()]).toEqual([1, 1])
  await send.send(request(first?.url ?? ''))
  expect(first?.connections()).toBe(2)
})

test('the proxy variables of the environment mean nothing', async () => {
  let asked = 0
  const proxy = createServer((socket) => {
    asked += 1
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as { port: number }
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'NODE_USE_ENV_PROXY']
  const before = new Map(names.map((name) => [name, process.env[name]]))
  for (const name of names)
    process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : `http://127.0.0.1:${port}`
  try {
    const to = await receiver()
    expect(await sender().send(request(to.url))).toMatchObject({ code: 200 })
    expect(asked).toBe(0)
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
    proxy.close()
  }
})

test('what is no longer wanted once it is connected is not written', async () => {
  const to = await receiver()
  const send = sender()
  expect(await send.send(request(to.url, { isWanted: () => false }))).toMatchObject({ class: 'canceled' })
  expect(await send.send(request(`${to.url}/next`, { isWanted: () => true }))).toMatchObject({ code: 200 })
  expect(to.requests.map(({ path }) => path)).toEqual(['/next'])
})

test('what is no longer wanted is not written to a connection that was kept either', async () => {
  const to = await receiver()
  const send = sender()
  expect(await send.send(request(`${to.url}/first`))).toMatchObject({ code: 200 })
  expect(await send.send(request(to.url, { isWanted: () => false }))).toMatchObject({ class: 'canceled' })
  expect(await send.send(request(`${to.url}/next`))).toMatchObject({ code: 200 })
  expect(to.requests.map(({ path }) => path)).toEqual(['/first', '/next'])
})
