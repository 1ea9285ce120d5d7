import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import {
  clientHasRead,
  onRequest,
  type RawReceiver,
  startRawReceiver,
} from '../../../test/support/receiver-raw.ts'
import type { SendOutcome, SendRequest } from './send-failures.ts'
import { createWebhookSender } from './sender.ts'

const clock = new FakeClock()
const send = createWebhookSender({ networks: { allowed: ['127.0.0.0/8', '::1/128'] }, clock })
afterAll(() => send.close())

const toClose: RawReceiver[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

function request(url: string): SendRequest {
  return { url, headers: { 'content-type': 'application/json' }, body: Buffer.from('{}'), deadlineMs: 20_000 }
}

/** A receiver that answers each request with bytes. */
async function answering(answer: (socket: Socket) => void) {
  const receiver = await startRawReceiver((socket) => onRequest(socket, answer))
  toClose.push(receiver)
  return receiver
}

async function outcomeOf(answer: (socket: Socket) => void): Promise<SendOutcome> {
  return send.send(request((await answering(answer)).url))
}
const HEAD = 'HTTP/1.1 200 OK\r\n'

test.each([
  { name: 'garbage', bytes: 'hello, this is not HTTP\r\n\r\n', want: 'response is not valid HTTP' },
  { name: 'a status that is none', bytes: 'HTTP/1.1 abc OK\r\n\r\n', want: 'response is not valid HTTP' },
  { name: 'the banner of a mail server', bytes: '220 mail ESMTP\r\n', want: 'response is not valid HTTP' },
  {
    name: 'a switch of protocols',
    bytes: 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
    want: 'response is not valid HTTP',
  },
  {
    name: 'a switch of protocols to none',
    bytes: 'HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n',
    want: 'response is not valid HTTP',
  },
  {
    name: 'two lengths',
    bytes: `${HEAD}content-length: 1\r\ncontent-length: 2\r\n\r\nx`,
    want: 'response is not valid HTTP',
  },
  {
    name: 'a header flood',
    bytes: `${HEAD}${'x-flood: 0123456789\r\n'.repeat(2000)}\r\n`,
    want: 'response header is too large',
  },
  {
    name: 'one endless header',
    bytes: `${HEAD}x: ${'y'.repeat(40_000)}\r\n\r\n`,
    want: 'response header is too large',
  },
])('$name is a failure of the protocol', async ({ bytes, want }) => {
  expect(await outcomeOf((socket) => socket.write(bytes))).toMatchObject({
    kind: 'failure',
    class: 'protocol',
    error: want,
  })
})

test.each([
  { name: 'closed before a byte', answer: (socket: Socket) => socket.end(), code: undefined },
  {
    name: 'closed within the head',
    answer: (socket: Socket) => socket.end('HTTP/1.1 200 O'),
    code: undefined,
  },
  {
    name: 'closed within a body of known length',
    answer: (socket: Socket) => socket.end(`${HEAD}content-length: 100\r\n\r\nabc`),
    code: 200,
  },
  {
    name: 'closed within a chunked body',
    answer: (socket: Socket) => socket.end(`${HEAD}transfer-encoding: chunked\r\n\r\n5\r\nab`),
    code: 200,
  },
  {
    name: 'closed within a chunked body that announced it',
    answer: (socket: Socket) =>
      socket.end(`${HEAD}connection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab`),
    code: 200,
  },
  {
    name: 'closed within the body of an error',
    answer: (socket: Socket) => socket.end('HTTP/1.1 503 No\r\ncontent-length: 9\r\n\r\nx'),
    code: 503,
  },
])('a connection $name is a failure, with the code where there was one', async ({ answer, code }) => {
  const outcome = await outcomeOf(answer)
  expect(outcome).toMatchObject({
    kind: 'failure',
    class: 'reset',
    error: 'connection closed before the response was complete',
  })
  expect('code' in outcome ? outcome.code : undefined).toBe(code)
})

test.each([
  { name: 'of known length', head: `${HEAD}content-length: 100\r\n\r\n` },
  { name: 'in chunks', head: `${HEAD}transfer-encoding: chunked\r\n\r\n5\r\n` },
  { name: 'that ends with the connection', head: `${HEAD}connection: close\r\n\r\n` },
])('a reset in a body $name is a failure with the code', async ({ head }) => {
  const read = clientHasRead(1)
  const to = await answering((socket) => {
    socket.write(`${head}ab`)
    void read.then(() => socket.resetAndDestroy())
  })
  expect(await send.send(request(to.url))).toMatchObject({
    kind: 'failure',
    class: 'reset',
    error: 'connection reset',
    code: 200,
  })
})

test.each([
  { name: 'a body that ends with the connection', bytes: `${HEAD}connection: close\r\n\r\nok`, want: 'ok' },
  { name: 'HTTP/1.0', bytes: 'HTTP/1.0 200 OK\r\n\r\nok', want: 'ok' },
  { name: 'chunks', bytes: `${HEAD}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`, want: 'ok' },
  {
    name: 'interim responses before the real one',
    bytes: `${'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'.repeat(3)}${HEAD}content-length: 2\r\n\r\nok`,
    want: 'ok',
  },
])('$name is a good response', async ({ bytes, want }) => {
  const outcome = await outcomeOf((socket) =>
    bytes.includes('content-length') ? socket.write(bytes) : socket.end(bytes),
  )
  expect(outcome).toMatchObject({ kind: 'response', code: 200, response: want })
})

test('compressed answers are not unpacked', async () => {
  const bomb = gzipSync(Buffer.alloc(20 * 1024 * 1024), { level: 9 })
  for (const body of [bomb, gzipSync('small')]) {
    const head = `${HEAD}content-encoding: gzip\r\ncontent-length: ${body.length}\r\n\r\n`
    const outcome = await outcomeOf((socket) => socket.write(Buffer.concat([Buffer.from(head), body])))
    expect(outcome).toMatchObject({ kind: 'response', code: 200, response: '' })
  }
})

test('an extra response sent ahead does not answer the next request', async () => {
  let asked = 0
  const to = await answering((socket) => {
    asked += 1
    const code = asked === 1 ? 500 : 204
    socket.write(`HTTP/1.1 ${code} X\r\ncontent-length: 0\r\n\r\n`)
    if (asked === 1) socket.write(`${HEAD}content-length: 6\r\n\r\npoison`)
  })
  expect(await send.send(request(to.url))).toMatchObject({ code: 500 })
  expect(await send.send(request(to.url))).toMatchObject({ code: 204 })
})
