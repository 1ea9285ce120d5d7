/** How a process of the facade ends, and how another one goes on: two of them, as they are installed. */
import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { until } from '../support/davit.ts'
import { ask } from '../support/facade-bed.ts'
import { untilLetIn } from '../support/facade-tour.ts'
import { type FacadeProcess, type Installation, startInstallation } from '../support/installation.ts'

const ORGANIZATION = 'acme'
const EVENTS = `/organizations/${ORGANIZATION}/events`
const DRAIN_SECONDS = 2
const BODY = JSON.stringify({ type: 'environment.started', data: { number: 1 } })

let davit: Installation
let key: string
/** Goes on through all tests. */
let other: FacadeProcess
/** Ends in each. */
let facade: FacadeProcess
let agent: Agent

beforeAll(async () => {
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  other = await start()
  await untilLetIn({ facade: other, organization: ORGANIZATION, owner: key })
})
afterAll(() => davit?.stop())

beforeEach(async () => {
  facade = await start()
  agent = new Agent({ keepAlive: true })
  return () => agent.destroy()
})

async function start(): Promise<FacadeProcess> {
  const started = await davit.startFacade({ settings: { DAVIT_DRAIN_SECONDS: String(DRAIN_SECONDS) } })
  await started.process.untilReady()
  return started
}

/** A publish of which the first half of the body is at the facade. */
async function sendHalf(idempotencyKey: string) {
  const sent = request(`${facade.baseUrl}${EVENTS}`, {
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
    async () => (await facade.process.gauge('davit_http_requests_in_flight')) === 1 || undefined,
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

/** Resolves when nobody listens any more. */
async function untilRefused(): Promise<void> {
  await until(
    async () => {
      const socket = connect(facade.port, '127.0.0.1')
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

function publish(to: FacadeProcess, idempotencyKey: string) {
  const headers = { 'idempotency-key': idempotencyKey }
  return ask(to, EVENTS, { method: 'POST', key, headers, body: BODY })
}

test('told to end, it answers what runs, takes no connection more, and ends with 0', async () => {
  const running = await sendHalf('under-way')
  const told = performance.now()
  facade.process.terminate()
  await untilRefused()
  expect(facade.process.running).toBe(true)
  expect(await facade.process.isReady()).toBe(false)
  running.finish()
  expect(await running.answer).toMatchObject({ status: 202, connection: 'close' })
  expect(await facade.process.exited).toBe(0)
  expect(performance.now() - told).toBeLessThan(DRAIN_SECONDS * 1000)
})

test('another process knows what it has answered on its way out', async () => {
  const running = await sendHalf('handed-over')
  facade.process.terminate()
  await untilRefused()
  running.finish()
  const { json } = await running.answer
  const repeated = await publish(other, 'handed-over')
  expect(repeated.status).toBe(202)
  expect(repeated.json).toEqual(json)
  expect(repeated.headers.get('idempotency-replayed')).toBe('true')
  await facade.process.exited
})

test('connections on which nothing runs do not hold it up', async () => {
  const sent = request(`${facade.baseUrl}${EVENTS}`, {
    method: 'POST',
    agent,
    headers: { authorization: key, 'content-type': 'application/json' },
  }).end(BODY)
  const [socket] = (await once(sent, 'socket')) as [NodeJS.EventEmitter]
  const closed = once(socket, 'close')
  expect(await answerTo(sent)).toMatchObject({ status: 202, connection: 'keep-alive' })
  const told = performance.now()
  expect(await facade.process.stop()).toBe(0)
  await closed
  expect(performance.now() - told).toBeLessThan(DRAIN_SECONDS * 1000)
})

test('what does not come to an end is broken off after the time for it, and the exit code is 0 all the same', async () => {
  const running = await sendHalf('never-sent')
  const told = performance.now()
  expect(await facade.process.stop()).toBe(0)
  expect(performance.now() - told).toBeGreaterThan(DRAIN_SECONDS * 1000 - 100)
  await expect(running.answer).rejects.toMatchObject({ code: 'ECONNRESET' })
  const repeated = await publish(other, 'never-sent')
  expect(repeated.status).toBe(202)
  expect(repeated.headers.get('idempotency-replayed')).toBeNull()
})

test('killed and started again, it answers a repeat as before', async () => {
  const first = await publish(facade, 'before-the-kill')
  expect(first.status).toBe(202)
  await facade.process.kill()
  const next = await davit.startFacade({ port: facade.port })
  await next.process.untilReady()
  const repeated = await publish(next, 'before-the-kill')
  expect(repeated.json).toEqual(first.json)
  expect(repeated.headers.get('idempotency-replayed')).toBe('true')
  expect(await next.process.stop()).toBe(0)
})
