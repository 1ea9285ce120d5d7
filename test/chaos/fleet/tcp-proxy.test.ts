import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { until } from '../../support/until.ts'
import { TcpProxy } from './tcp-proxy.ts'

let server: Server
let proxy: TcpProxy
let heard: string[]
const sockets: Socket[] = []

/** The server echoes and records its input. */
beforeEach(async () => {
  heard = []
  server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      heard.push(String(bytes))
      socket.write(`echo ${bytes}`)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  proxy = await TcpProxy.start(new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
})

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await proxy.close()
  server.close()
})

async function client() {
  const socket = connect({ host: '127.0.0.1', port: proxy.port })
  sockets.push(socket)
  const received: string[] = []
  const ends: string[] = []
  socket.on('data', (bytes) => received.push(String(bytes)))
  socket.on('error', (error) => ends.push((error as NodeJS.ErrnoException).code ?? ''))
  socket.on('end', () => ends.push('end'))
  await once(socket, 'connect').catch(() => undefined)
  return { socket, received, ends, write: (text: string) => socket.write(text) }
}

async function untilEqual(given: () => unknown, wanted: unknown): Promise<void> {
  const isSo = async () => JSON.stringify(given()) === JSON.stringify(wanted) || undefined
  await until(isSo, () => `${JSON.stringify(given())} is not ${JSON.stringify(wanted)}`)
}

test('passes on what comes, both ways and to its end', async () => {
  const { received, ends, write, socket } = await client()
  write('one')
  await untilEqual(() => received, ['echo one'])
  socket.end()
  await untilEqual(() => ends, ['end'])
  await untilEqual(() => proxy.connections, 0)
})

test('breaks every connection that is cut, and every new one until it is healed', async () => {
  const before = await client()
  before.write('one')
  await untilEqual(() => before.received, ['echo one'])
  proxy.cut()
  await untilEqual(() => before.ends, ['ECONNRESET'])
  const meanwhile = await client()
  await untilEqual(() => meanwhile.ends, ['ECONNRESET'])
  proxy.heal()
  const after = await client()
  after.write('two')
  await untilEqual(() => after.received, ['echo two'])
})

test('delays each direction by its own time, and keeps the order', async () => {
  const { received, write } = await client()
  proxy.delay('up', 60)
  proxy.delay('down', 40)
  const from = performance.now()
  write('one')
  await untilEqual(() => heard, ['one'])
  expect(performance.now() - from).toBeGreaterThan(55)
  write('two')
  await untilEqual(() => received.join(''), 'echo oneecho two')
  expect(performance.now() - from).toBeGreaterThan(95)
})

test.each([
  { deaf: 'up', hears: [], says: [] },
  { deaf: 'down', hears: ['two'], says: [] },
] as const)(
  'loses what goes $deaf alone, on connections that stay open until it is healed',
  async (given) => {
    const { received, ends, write } = await client()
    write('one')
    await untilEqual(() => received.splice(0), ['echo one'])
    heard = []
    proxy.swallow(given.deaf)
    write('two')
    const other = await client()
    other.write('three')
    const more = given.deaf === 'down' ? ['three'] : []
    await untilEqual(() => heard.toSorted(), [...more, ...given.hears].toSorted())
    await untilEqual(() => proxy.deafened, 2)
    expect([received, other.received, ends]).toEqual([given.says, [], []])
    proxy.heal()
    await untilEqual(() => [...ends, ...other.ends], ['ECONNRESET', 'ECONNRESET'])
  },
)

test('holds the connections that are chosen, while others overtake them', async () => {
  const held = await client()
  const passing = await client()
  await untilEqual(() => proxy.connections, 2)
  proxy.hold((index) => index === 0)
  held.write('first')
  passing.write('second')
  await untilEqual(() => passing.received, ['echo second'])
  expect(heard).toEqual(['second'])
  proxy.heal()
  await untilEqual(() => held.received, ['echo first'])
})
