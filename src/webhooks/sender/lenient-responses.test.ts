/** Responses that RFC 9110 and RFC 9112 ask a client to accept, although undici by itself does not. */
import type { Socket } from 'node:net'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { onRequest, type RawReceiver, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { createTestAuthority } from '../../../test/support/tls.ts'
import type { SendOutcome, SendRequest } from './send-failures.ts'
import { createWebhookSender } from './sender.ts'

const authority = createTestAuthority()
const tls = authority.issue(['localhost'])
const clock = new FakeClock()
const send = createWebhookSender({
  networks: { allowed: ['127.0.0.0/8', '::1/128'] },
  clock,
  ca: authority.ca,
})
afterAll(() => send.close())

const toClose: RawReceiver[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

function request(url: string): SendRequest {
  return { url, headers: { 'content-type': 'application/json' }, body: Buffer.from('{}'), deadlineMs: 20_000 }
}

async function answering(answer: (socket: Socket) => void, options = {}) {
  const receiver = await startRawReceiver((socket) => onRequest(socket, answer), options)
  toClose.push(receiver)
  return receiver
}

/** The outcomes with the response as one packet, byte by byte, over TLS, and for the second request of a connection. */
async function outcomesOf(bytes: string): Promise<SendOutcome[]> {
  const whole = (socket: Socket) => void socket.write(bytes, 'latin1')
  const single = (socket: Socket) => {
    socket.setNoDelay()
    const rest = [...bytes]
    const next = () => {
      const byte = rest.shift()
      if (byte !== undefined) socket.write(byte, 'latin1', () => setImmediate(next))
    }
    next()
  }
  const cases = [await answering(whole), await answering(single), await answering(whole, { tls })]
  const outcomes: SendOutcome[] = []
  for (const { url } of cases) outcomes.push(await send.send(request(url)))
  let asked = 0
  const kept = await answering((socket) => {
    asked += 1
    socket.write(asked === 1 ? 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst' : bytes, 'latin1')
  })
  await send.send(request(kept.url))
  outcomes.push(await send.send(request(kept.url)))
  expect(kept.connections()).toBe(1)
  return outcomes
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

describe('an interim response that was not asked for does not end the attempt', () => {
  test.each([
    { name: '100', interim: 'HTTP/1.1 100 Continue\r\n\r\n' },
    { name: '100 with fields', interim: 'HTTP/1.1 100 Continue\r\ndate: x\r\ncontent-length: 0\r\n\r\n' },
    { name: 'several of 100', interim: 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(4) },
    { name: '100 of HTTP/1.0', interim: 'HTTP/1.0 100 Continue\r\n\r\n' },
    {
      name: '100, 102 and 103',
      interim: [100, 102, 103].map((code) => `HTTP/1.1 ${code} X\r\n\r\n`).join(''),
    },
    { name: '102 that announces a close', interim: 'HTTP/1.1 102 X\r\nconnection: close\r\n\r\n' },
    { name: '199, which has no meaning', interim: 'HTTP/1.1 199 X\r\n\r\n' },
    { name: '103 with a folded field', interim: 'HTTP/1.1 103 X\r\nlink: a,\r\n b\r\n\r\n' },
    { name: '100 without a reason', interim: 'HTTP/1.1 100\r\n\r\n' },
  ])('$name', async ({ interim }) => {
    for (const outcome of await outcomesOf(interim + OK))
      expect(outcome).toMatchObject({ kind: 'response', code: 200, response: 'ok' })
  })

  test('nor does it succeed: the response after it counts', async () => {
    for (const outcome of await outcomesOf(
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n',
    ))
      expect(outcome).toMatchObject({ kind: 'response', code: 503 })
  })

  test('before the body of the request has arrived', async () => {
    const receiver = await startRawReceiver((socket) => {
      socket.write('HTTP/1.1 100 Continue\r\n\r\n')
      onRequest(socket, () => void socket.write(OK))
    })
    toClose.push(receiver)
    const body = Buffer.alloc(256 * 1024, ' ')
    expect(await send.send({ ...request(receiver.url), body })).toMatchObject({ code: 200 })
  })

  test('and the connection is kept', async () => {
    const to = await answering((socket) => void socket.write(`HTTP/1.1 100 Continue\r\n\r\n${OK}`))
    for (let i = 0; i < 3; i += 1) expect(await send.send(request(to.url))).toMatchObject({ code: 200 })
    expect(to.connections()).toBe(1)
  })

  test('alone it is no response', async () => {
    const to = await answering((socket) => void socket.end('HTTP/1.1 100 Continue\r\n\r\n'))
    expect(await send.send(request(to.url))).toMatchObject({
      class: 'reset',
      error: 'connection closed before the response was complete',
    })
  })

  test('one that is too large is a failure', async () => {
    const flood = 'x-flood: 0123456789\r\n'.repeat(2000)
    const to = await answering((socket) => void socket.write(`HTTP/1.1 100 Continue\r\n${flood}\r\n${OK}`))
    expect(await send.send(request(to.url))).toMatchObject({ error: 'response header is too large' })
  })
})

describe('a field that is continued on the next line is read', () => {
  test.each([
    { name: 'with a space', fields: 'x-a: b\r\n c\r\ncontent-length: 2' },
    { name: 'with a tab', fields: 'x-a: b\r\n\tc\r\ncontent-length: 2' },
    { name: 'twice, as the last field', fields: 'content-length: 2\r\nx-a: b\r\n c\r\n d' },
    { name: 'before its value', fields: 'content-length:\r\n 2' },
    { name: 'with an empty line of spaces', fields: 'content-length: 2\r\n \t\r\nx-a: b' },
    { name: 'and so is one with spaces after it', fields: 'content-length: 2 \t \r\nx-a: b' },
    { name: 'and so is a last one with spaces after it', fields: 'x-a: b\r\ncontent-length:2 ' },
    {
      name: 'and so is one with tabs around it',
      fields: 'transfer-encoding:\tchunked\t',
      body: '2\r\nok\r\n0\r\n\r\n',
    },
    {
      name: 'which frames the body',
      fields: 'transfer-encoding:\r\n\tchunked',
      body: '2\r\nok\r\n0\r\n\r\n',
    },
    {
      name: 'after an interim response',
      fields: 'content-length: 2\r\nx: a\r\n b',
      before: 'HTTP/1.1 100 X\r\n\r\n',
    },
  ])('$name', async ({ fields, body = 'ok', before = '' }) => {
    for (const outcome of await outcomesOf(`${before}HTTP/1.1 200 OK\r\n${fields}\r\n\r\n${body}`))
      expect(outcome).toMatchObject({ kind: 'response', code: 200, response: 'ok' })
  })

  test('but not after the status line, and not in a body', async () => {
    for (const outcome of await outcomesOf('HTTP/1.1 200 OK\r\n x: y\r\ncontent-length: 2\r\n\r\nok'))
      expect(outcome).toMatchObject({ class: 'protocol', error: 'response is not valid HTTP' })
    for (const outcome of await outcomesOf('HTTP/1.1 500 X\r\ncontent-length: 6\r\n\r\na\r\n  b'))
      expect(outcome).toMatchObject({ code: 500, response: 'a   b' })
  })
})

describe('a chunked response', () => {
  test.each([
    { name: 'with a trailer that is continued', body: '2\r\nok\r\n0\r\nx-a: b\r\n c\r\n\r\n' },
    { name: 'with a trailer that ends with spaces', body: '2\r\nok\r\n0\r\nx-a: b \t\r\nx-c: d \r\n\r\n' },
    { name: 'with a plain trailer', body: '2\r\nok\r\n0\r\nx-a: b\r\n\r\n' },
    { name: 'with spaces around a semicolon', body: '1 ; a=b\r\no\r\n1\t;c\r\nk\r\n0 ;d\r\n\r\n' },
    { name: 'with spaces around an equals sign', body: '2;a = "b"\r\nok\r\n0\r\n\r\n' },
    { name: 'with a space after a size', body: '2 \r\nok\r\n0 \r\nx-a:\r\n b\r\n\r\n' },
  ])('$name is read, and its connection is kept', async ({ body }) => {
    const bytes = `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body}`
    for (const outcome of await outcomesOf(bytes))
      expect(outcome).toMatchObject({ kind: 'response', code: 200, response: 'ok' })
    const to = await answering((socket) => void socket.write(bytes))
    for (let i = 0; i < 3; i += 1) expect(await send.send(request(to.url))).toMatchObject({ response: 'ok' })
    expect(to.connections()).toBe(1)
  })

  test.each([
    { name: 'without a size', body: ' \r\nok\r\n0\r\n\r\n' },
    { name: 'with a text after a size', body: '2 x\r\nok\r\n0\r\n\r\n' },
    { name: 'with too much data', body: '2\r\nokay\r\n0\r\n\r\n' },
  ])('$name is still not valid', async ({ body }) => {
    for (const outcome of await outcomesOf(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body}`))
      expect(outcome).toMatchObject({ class: 'protocol', error: 'response is not valid HTTP' })
  })
})

test.each([
  { name: 'a switch of protocols that nobody asked for', bytes: 'HTTP/1.1 101 X\r\n\r\n' },
  { name: 'a status below 100', bytes: 'HTTP/1.1 099 X\r\n\r\n' },
  {
    name: 'two different lengths',
    bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok',
  },
])('$name is still not valid', async ({ bytes }) => {
  for (const outcome of await outcomesOf(bytes + OK))
    expect(outcome).toMatchObject({ class: 'protocol', error: 'response is not valid HTTP' })
})

test.each([
  {
    name: 'HTTP/2',
    bytes: '\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0\0\x05\0\xff\xff\xff',
    want: 'response is not valid HTTP: the receiver speaks HTTP/2 only',
  },
  {
    name: 'an empty frame of HTTP/2',
    bytes: '\0\0\0\x04\0\0\0\0\0',
    want: 'response is not valid HTTP: the receiver speaks HTTP/2 only',
  },
  {
    name: 'TLS',
    bytes: '\x15\x03\x01\0\x02\x02\x46',
    want: 'response is not valid HTTP: the receiver expects TLS on this port',
  },
])('$name instead of HTTP/1.1 is named', async ({ bytes, want }) => {
  const to = await answering((socket) => void socket.write(bytes, 'latin1'))
  expect(await send.send(request(to.url))).toMatchObject({ class: 'protocol', error: want })
})
