import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, afterEach, expect, test } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import {
  clientHasRead,
  onRequest,
  type RawReceiver,
  startRawReceiver,
} from '../../../test/support/receiver-raw.ts'
import { selfSignedCertificate } from '../../../test/support/tls.ts'
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

test('of 200 MB of body 16 KB are read, the rest is not', async () => {
  let written = 0
  const to = await answering((socket) => {
    socket.write(`${HEAD}content-length: ${200 * 1024 * 1024}\r\n\r\n`)
    const chunk = Buffer.alloc(64 * 1024, 'a')
    const more = () => {
      while (written < 200 * 1024 * 1024 && !socket.destroyed) {
        written += chunk.length
        if (!socket.write(chunk)) return void socket.once('drain', more)
      }
    }
    more()
    socket.once('close', () => closed())
  })
  let closed = () => {}
  const end = new Promise<void>((resolve) => {
    closed = resolve
  })
  expect(await send.send(request(to.url))).toMatchObject({
    kind: 'response',
    code: 200,
    response: 'a'.repeat(256),
  })
  await end
  // What fits into the buffers of both kernels.
  expect(written).toBeLessThan(32 * 1024 * 1024)
})

test('a body that stops at 16 KB and never ends counts, one byte less does not', async () => {
  const body = (bytes: number) => (socket: Socket) =>
    socket.write(`${HEAD}content-length: 99999\r\n\r\n${'a'.repeat(bytes)}`)
  expect(await outcomeOf(body(16 * 1024))).toMatchObject({ kind: 'response', code: 200 })
  const read = clientHasRead(1)
  const running = outcomeOf(body(16 * 1024 - 1))
  await read
  clock.advance(20_000)
  expect(await running).toMatchObject({
    class: 'timeout',
    error: 'response was not complete within 20 s',
    code: 200,
  })
})

test('a receiver that never answers ends at the deadline, and its connection with it', async () => {
  let ended: Promise<unknown> = Promise.resolve()
  let asked = () => {}
  const request1 = new Promise<void>((resolve) => {
    asked = resolve
  })
  const to = await answering((socket) => {
    ended = once(socket, 'close')
    asked()
  })
  const running = send.send(request(to.url))
  await request1
  clock.advance(20_000)
  expect(await running).toEqual({
    kind: 'failure',
    class: 'timeout',
    error: 'no response within 20 s',
    latencyMs: 20_000,
  })
  await ended
})

/** Writes a piece per turn of the event loop until the client is gone; resolves `some` after 50 pieces. */
function dripping(first: string, piece: string) {
  let enough = () => {}
  const some = new Promise<void>((resolve) => {
    enough = resolve
  })
  const answer = (socket: Socket) => {
    let count = 0
    socket.write(first)
    const drip = () => {
      if (socket.destroyed) return
      socket.write(piece)
      count += 1
      if (count === 50) enough()
      setTimeout(drip, 1)
    }
    drip()
  }
  return { answer, some }
}

test.each([
  {
    name: 'a head that comes in lines without end',
    first: HEAD,
    piece: 'x: y\r\n',
    want: { error: 'no response within 20 s' },
  },
  {
    name: 'interim responses without end',
    first: '',
    piece: 'HTTP/1.1 103 Early Hints\r\n\r\n',
    want: { error: 'no response within 20 s' },
  },
  {
    name: 'a body in drops',
    first: `${HEAD}content-length: 10000\r\n\r\n`,
    piece: 'a',
    want: { error: 'response was not complete within 20 s', code: 200 },
  },
  {
    name: 'a body of empty-handed chunks',
    first: `${HEAD}transfer-encoding: chunked\r\n\r\n`,
    piece: '1\r\na\r\n',
    want: { error: 'response was not complete within 20 s', code: 200 },
  },
])('$name ends at the deadline', async ({ first, piece, want }) => {
  const { answer, some } = dripping(first, piece)
  const running = outcomeOf(answer)
  await some
  clock.advance(19_999)
  expect(await Promise.race([running, 'going on'])).toBe('going on')
  clock.advance(1)
  expect(await running).toMatchObject({ kind: 'failure', class: 'timeout', ...want })
})

test('a long run of hostile receivers leaves neither memory nor sockets behind', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const tls = await startRawReceiver(() => undefined, { tls: selfSignedCertificate(['localhost']) })
  toClose.push(tls)
  const plain = [
    await answering((socket) => socket.resetAndDestroy()),
    await answering((socket) => socket.write('garbage\r\n\r\n')),
    await answering((socket) => socket.write(`${HEAD}content-length: 999999\r\n\r\n${'a'.repeat(20_000)}`)),
    await answering((socket) => socket.write(`${HEAD}${'x-flood: 0123456789\r\n'.repeat(1000)}\r\n`)),
    await answering((socket) => socket.end(`${HEAD}content-length: 100\r\n\r\nabc`)),
  ]
  const receivers = [tls, ...plain]
  const round = async (rounds: number) => {
    for (let i = 0; i < rounds; i += 1) {
      await Promise.all(receivers.map((to) => send.send(request(to.url))))
    }
    // Hangs here, and fails, if a connection stays open.
    await Promise.all(receivers.map((to) => to.drained()))
    for (let i = 0; i < 3; i += 1) {
      collect()
      await settle()
    }
    return process.memoryUsage()
  }
  await round(200)
  const before = await round(200)
  const after = await round(400)
  // 2,400 attempts later: less than a kilobyte for each.
  expect(after.heapUsed - before.heapUsed).toBeLessThan(2 * 1024 * 1024)
  expect(after.external - before.external).toBeLessThan(2 * 1024 * 1024)
}, 180_000)
