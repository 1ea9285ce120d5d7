/** How a process of the REST server ends, and how another one continues: two of them, as installed. */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, type ServerProcess, startInstallation } from '../support/installation.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'

const ORGANIZATION = 'acme'
const EVENTS = `/organizations/${ORGANIZATION}/events`
/** More than anything here takes, on whatever machine: who ends sooner has not waited for it. */
const LONG = { DAVIT_SHUTDOWN_TIMEOUT: '1m', DAVIT_SHUTDOWN_DELAY: '0s' }
const LONG_MS = 60_000
const SHORT = { DAVIT_SHUTDOWN_TIMEOUT: '2s', DAVIT_SHUTDOWN_DELAY: '1s' }
const BODY = JSON.stringify({ type: 'environment.started', data: { number: 1 } })

let davit: Installation
let key: string
/** Goes on through all tests. */
let other: ServerProcess
const agent = new Agent({ keepAlive: true })

beforeAll(async () => {
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  other = await start()
  await untilLetIn({ server: other, organization: ORGANIZATION, owner: key })
})
afterAll(async () => {
  agent.destroy()
  await davit?.stop()
})

async function start(settings: Record<string, string> = {}, port?: number): Promise<ServerProcess> {
  const started = await davit.startServer({ settings, ...(port === undefined ? {} : { port }) })
  await started.process.untilReady()
  return started
}

/** A publish of which half of the body has reached the REST server. */
async function sendHalf(server: ServerProcess, idempotencyKey: string) {
  const sent = request(`${server.baseUrl}${EVENTS}`, {
    method: 'POST',
    agent,
    headers: {
      authorization: key,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(BODY),
      'idempotency-key': idempotencyKey,
    },
  })
  const answer = answerTo(sent)
  answer.catch(() => undefined)
  sent.write(BODY.slice(0, 10))
  await until(
    async () => (await server.process.gauge('davit_http_requests_in_flight')) === 1 || undefined,
    () => 'the request did not arrive',
  )
  return { finish: () => sent.end(BODY.slice(10)), answer }
}

async function answerTo(sent: ClientRequest) {
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const text = (await response.toArray()).join('')
  return {
    status: response.statusCode,
    connection: response.headers.connection,
    json: JSON.parse(text) as Record<string, unknown>,
  }
}

/** Resolves when the port has no listener any more. */
async function untilRefused({ port }: ServerProcess): Promise<void> {
  await until(
    async () => {
      const socket = connect(port, '127.0.0.1')
      const end = await Promise.race([
        once(socket, 'connect').then(() => 'taken'),
        once(socket, 'error').then(([error]) => (error as { code?: string }).code),
      ]).catch((error: { code?: string }) => error.code)
      socket.destroy()
      return end === 'ECONNREFUSED' || undefined
    },
    () => 'connections are still taken',
  )
}

function publish(to: ServerProcess, idempotencyKey: string) {
  const headers = { 'idempotency-key': idempotencyKey }
  return ask(to, EVENTS, { method: 'POST', key, headers, body: BODY })
}

async function logOf({ logPath }: ServerProcess): Promise<string> {
  return await readFile(logPath, 'utf8')
}

const BROKEN_OFF = 'aborted requests in progress'

test('told to end, it answers what runs, takes no connection more, and ends with 0', async () => {
  const server = await start(LONG)
  const running = await sendHalf(server, 'under-way')
  server.process.terminate()
  await untilRefused(server)
  expect(server.process.running).toBe(true)
  expect(await server.process.isReady()).toBe(false)
  running.finish()
  expect(await running.answer).toMatchObject({ status: 202, connection: 'close' })
  expect(await server.process.exited).toBe(0)
  expect(await logOf(server)).not.toContain(BROKEN_OFF)
})

test('told to end, it serves for a while whoever is still sent to it, once on each connection', async () => {
  const server = await start({ DAVIT_SHUTDOWN_TIMEOUT: '16s', DAVIT_SHUTDOWN_DELAY: '8s' })
  server.process.terminate()
  await until(
    async () => !(await server.process.isReady()) || undefined,
    () => 'it is ready all the same',
  )
  const sent = request(`${server.baseUrl}${EVENTS}`, {
    method: 'POST',
    agent,
    headers: { authorization: key, 'content-type': 'application/json' },
  }).end(BODY)
  expect(await answerTo(sent)).toMatchObject({ status: 202, connection: 'close' })
  expect(await server.process.exited).toBe(0)
})

test('another process knows what it has answered on its way out', async () => {
  const server = await start(LONG)
  const running = await sendHalf(server, 'handed-over')
  server.process.terminate()
  await untilRefused(server)
  running.finish()
  const { json } = await running.answer
  const repeated = await publish(other, 'handed-over')
  expect(repeated.status).toBe(202)
  expect(repeated.json).toEqual(json)
  expect(repeated.headers.get('idempotency-replayed')).toBe('true')
  expect(await server.process.exited).toBe(0)
})

test('connections on which nothing runs do not hold it up', async () => {
  const server = await start(LONG)
  const sent = request(`${server.baseUrl}${EVENTS}`, {
    method: 'POST',
    agent,
    headers: { authorization: key, 'content-type': 'application/json' },
  }).end(BODY)
  const [socket] = (await once(sent, 'socket')) as [NodeJS.EventEmitter]
  const closed = once(socket, 'close')
  expect(await answerTo(sent)).toMatchObject({ status: 202, connection: 'keep-alive' })
  const told = performance.now()
  expect(await server.process.stop()).toBe(0)
  await closed
  expect(performance.now() - told).toBeLessThan(LONG_MS / 2)
})

test('what does not come to an end is broken off after the time for it, and the exit code is 0 all the same', async () => {
  const server = await start(SHORT)
  const running = await sendHalf(server, 'never-sent')
  expect(await server.process.stop()).toBe(0)
  expect(await logOf(server)).toContain(BROKEN_OFF)
  await expect(running.answer).rejects.toMatchObject({ code: 'ECONNRESET' })
  const repeated = await publish(other, 'never-sent')
  expect(repeated.status).toBe(202)
  expect(repeated.headers.get('idempotency-replayed')).toBeNull()
})

test('killed and started again, it answers a repeat as before', async () => {
  const server = await start()
  const first = await publish(server, 'before-the-kill')
  expect(first.status).toBe(202)
  await server.process.kill()
  const next = await start(SHORT, server.port)
  const repeated = await publish(next, 'before-the-kill')
  expect(repeated.json).toEqual(first.json)
  expect(repeated.headers.get('idempotency-replayed')).toBe('true')
  expect(await next.process.stop()).toBe(0)
})
