import { once } from 'node:events'
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { request as requestByTls } from 'node:https'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { createTestAuthority } from '../../../test/support/tls.ts'
import { createRandom } from '../../lib/time.ts'
import { type ApiServer, type Certificate, startApiServer } from './server.ts'

const AT_ONCE = { ms: 1000, lingerMs: 0 }

const agent = new Agent({ keepAlive: true })
let server: ApiServer | undefined

afterEach(async () => {
  await server?.drain({ ms: 0, lingerMs: 0 })
  agent.destroy()
})

/** A server of which the test answers the requests. */
async function start() {
  const clock = new FakeClock()
  const arrivals: ((response: ServerResponse) => void)[] = []
  server = await startApiServer({
    address: { host: '127.0.0.1', port: 0 },
    clock,
    random: createRandom(),
    listener: (_request, response) => arrivals.shift()?.(response),
  })
  const { port } = server.address
  /** Sends a request; resolves when it has arrived. */
  const ask = async () => {
    const arrived = new Promise<ServerResponse>((resolve) => arrivals.push(resolve))
    const sent = request({ port, host: '127.0.0.1', agent }).end()
    const answer = once(sent, 'response').then(async ([response]: IncomingMessage[]) => ({
      text: (await response?.toArray())?.join(''),
      connection: response?.headers.connection,
    }))
    answer.catch(() => undefined)
    return { response: await arrived, answer }
  }
  return { server, clock, ask, port }
}

test('a drain waits for the answers under way, whose connections end with them', async () => {
  const { server, ask } = await start()
  const { response, answer } = await ask()
  expect(server.inFlight()).toBe(1)
  const drained = server.drain(AT_ONCE)
  response.end('whole')
  expect(await answer).toEqual({ text: 'whole', connection: 'close' })
  expect(await drained).toBe(0)
  expect(server.inFlight()).toBe(0)
})

test('a drain waits neither for connections that are idle nor for an answer whose headers were sent as for more', async () => {
  const { server, ask } = await start()
  const first = await ask()
  first.response.end('first')
  expect((await first.answer).connection).toBe('keep-alive')
  const second = await ask()
  second.response.writeHead(200).flushHeaders()
  const drained = server.drain(AT_ONCE)
  second.response.end('second')
  expect(await second.answer).toEqual({ text: 'second', connection: 'keep-alive' })
  expect(await drained).toBe(0)
})

/** The code of the error with which a connection ends that nobody takes. */
async function codeOfConnecting(port: number): Promise<unknown> {
  const [error] = await once(connect(port, '127.0.0.1'), 'error').catch((error: unknown) => [error])
  return (error as { code?: unknown }).code
}

test('whoever comes in the first part of a drain is served, once on each connection, and nobody after it', async () => {
  const { server, clock, ask, port } = await start()
  const drained = server.drain({ ms: 1000, lingerMs: 400 })
  await clock.elapse(399)
  const { response, answer } = await ask()
  response.end('served')
  expect(await answer).toEqual({ text: 'served', connection: 'close' })
  await clock.elapse(1)
  expect(await codeOfConnecting(port)).toBe('ECONNREFUSED')
  expect(await drained).toBe(0)
})

test('what has no end of its own is told to end when a drain stops serving', async () => {
  const { server, clock, ask } = await start()
  const { response, answer } = await ask()
  response.write('and so on, ')
  const onClosing = () => void response.end('until now')
  const drained = server.drain({ ms: 1000, lingerMs: 400, onClosing })
  await clock.elapse(399)
  expect(response.writableEnded).toBe(false)
  await clock.elapse(1)
  expect((await answer).text).toBe('and so on, until now')
  expect(await drained).toBe(0)
})

test('a drain has no more time for its two parts together', async () => {
  const { server, clock, ask } = await start()
  const { answer } = await ask()
  const drained = server.drain({ ms: 1000, lingerMs: 400 })
  await clock.elapse(1000)
  expect(await drained).toBe(1)
  await expect(answer).rejects.toMatchObject({ code: 'ECONNRESET' })
})

test('what is not answered within the time is broken off, and counted', async () => {
  const { server, clock, ask } = await start()
  const { answer } = await ask()
  const drained = server.drain(AT_ONCE)
  await clock.elapse(AT_ONCE.ms)
  expect(await drained).toBe(1)
  await expect(answer).rejects.toMatchObject({ code: 'ECONNRESET' })
})

test('an address that is in use is an error', async () => {
  const { port, clock } = await start()
  const options = {
    address: { host: '127.0.0.1', port },
    clock,
    random: createRandom(),
    listener: () => undefined,
  }
  await expect(startApiServer(options)).rejects.toMatchObject({ code: 'EADDRINUSE' })
})

test('with a certificate it serves https, and takes up a renewed one for the next connection', async () => {
  const authority = createTestAuthority()
  let renew: (certificate: Certificate) => void = () => undefined
  server = await startApiServer({
    address: { host: '127.0.0.1', port: 0 },
    clock: new FakeClock(),
    random: createRandom(),
    certificate: {
      current: () => authority.issue(['localhost']),
      listen: (listener) => {
        renew = listener
      },
      close: () => undefined,
    },
    listener: (_request, response) => response.end('served'),
  })
  const { port } = server.address
  const ask = async (servername: string) => {
    const options = { port, host: '127.0.0.1', servername, ca: authority.ca, agent: false }
    const [response]: IncomingMessage[] = await once(requestByTls(options).end(), 'response')
    return (await response?.toArray())?.join('')
  }
  expect(await ask('localhost')).toBe('served')
  await expect(ask('renewed.example.com')).rejects.toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  renew(authority.issue(['renewed.example.com']))
  expect(await ask('renewed.example.com')).toBe('served')
})
