import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { afterEach, expect, test } from 'vitest'
import { createTestAuthority } from '../../../test/support/tls.ts'
import { createRandom } from '../../lib/time.ts'
import { createHttpServer, type RequestListener } from './server.ts'

const MAX = 3
const REQUEST = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

const cleanups: (() => unknown)[] = []
afterEach(() => {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup()
})

const authority = createTestAuthority()

async function start({ tls = false } = {}) {
  const held: (() => void)[] = []
  const listener: RequestListener = (request, response) => {
    if (request.url === '/held') held.push(() => response.end('held'))
    else response.end('served')
  }
  const server = createHttpServer(listener, {
    random: createRandom(),
    limits: { connections: MAX },
    certificate: tls ? authority.issue(['localhost']) : undefined,
  })
  cleanups.push(
    () => server.close(),
    () => server.closeAllConnections(),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  /** A TCP connection that sends nothing. */
  const dial = async () => {
    const accepted = once(server, 'connection')
    const socket = connect(port, '127.0.0.1')
    return await opened(socket, Promise.all([accepted, once(socket, 'connect')]))
  }
  const dialSecurely = async () => {
    const accepted = once(server, 'secureConnection')
    const socket = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ca: authority.ca })
    return await opened(socket, Promise.all([accepted, once(socket, 'secureConnect')]))
  }
  return { held, dial, open: tls ? dialSecurely : dial }
}

async function opened(socket: Socket, isOpen: Promise<unknown>): Promise<Socket> {
  cleanups.push(() => socket.destroy())
  await isOpen
  // Its closing is an error for a client that has sent something.
  socket.on('error', () => undefined)
  return socket
}

async function answerOn(socket: Socket, request = REQUEST): Promise<string> {
  socket.write(request)
  const [data] = (await once(socket, 'data')) as [Buffer]
  return data.toString()
}

const closed = (socket: Socket) => (socket.closed ? Promise.resolve() : once(socket.resume(), 'close'))

test.each([
  { what: 'http', tls: false },
  { what: 'https', tls: true },
])(
  'with $what, beyond the limit the connection that has been idle for longest is closed',
  async ({ tls }) => {
    const { open } = await start({ tls })
    const [first, second, third] = [await open(), await open(), await open()]
    for (const one of [second, third, first]) expect(await answerOn(one)).toContain('served')
    const fourth = await open()
    await closed(second)
    for (const one of [first, third, fourth]) expect(await answerOn(one)).toContain('served')
  },
)

test('connections whose TLS handshake does not come keep nobody out', async () => {
  const { dial, open } = await start({ tls: true })
  const silent: Socket[] = []
  while (silent.length < MAX) silent.push(await dial())
  expect(await answerOn(await open())).toContain('served')
  await closed(silent[0] ?? raise())
})

test.each([
  { what: 'http', tls: false },
  { what: 'https', tls: true },
])(
  'with $what, a connection with a request in progress is not closed: a new one is told to come again',
  async ({ tls }) => {
    const { held, open } = await start({ tls })
    const busy = [await open(), await open(), await open()]
    const answers = busy.map((one) => answerOn(one, 'GET /held HTTP/1.1\r\nHost: x\r\n\r\n'))
    while (held.length < MAX) await new Promise((resolve) => setImmediate(resolve))
    const rejected = await open()
    const answer = await answerOn(rejected)
    expect(answer).toMatch(/^HTTP\/1\.1 503 /)
    expect(answer).toMatch(/retry-after: 1/i)
    await closed(rejected)
    for (const release of held) release()
    for (const one of answers) expect(await one).toContain('held')
    expect(await answerOn(await open())).toContain('served')
  },
)

test('hundreds of idle connections keep nobody out, and no more are open than the limit', async () => {
  const { open } = await start()
  const idle: Socket[] = []
  while (idle.length < 500) idle.push(await open())
  expect(await answerOn(await open())).toContain('served')
  await Promise.all(idle.slice(0, 1 - MAX).map(closed))
})

function raise(): never {
  throw new Error('there is no such connection')
}
