/** The event stream of two REST servers, as installed, while a controller delivers: what its clients read, and when it ends. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { type Installation, type ServerProcess, startInstallation } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { connectStream, type HttpStreamClient, type ReadMessage } from '../support/stream-client.ts'
import { until } from '../support/until.ts'

const ORGANIZATION = 'acme'
const HOME = `/organizations/${ORGANIZATION}`
const CLIENTS = 100
const BATCHES = 12
const PER_BATCH = 50
const FAILING_PER_BATCH = 2
const ALL_READ_MS = 90_000
const MAX_BUFFER_BYTES = 32 * 1024 * 1024
const TEST_LIMIT_MS = 240_000

let davit: Installation
let receiver: Receiver
let key: string
let one: ServerProcess
let other: ServerProcess

beforeAll(async () => {
  receiver = await startReceiver()
  receiver.answer('/failing', { status: 500 })
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  const controller = await davit.startController()
  one = await davit.startServer()
  other = await davit.startServer()
  await Promise.all([controller.untilReady(), one.process.untilReady(), other.process.untilReady()])
  for (const server of [one, other]) await untilLetIn({ server, organization: ORGANIZATION, owner: key })
  await createEndpoint('working', 'environment.started')
  await createEndpoint('failing', 'environment.stopped')
}, TEST_LIMIT_MS)
afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

async function createEndpoint(name: string, type: string): Promise<void> {
  const body = JSON.stringify({ url: `${receiver.url}/${name}`, eventTypes: [type] })
  expect((await ask(other, `${HOME}/webhooks`, { method: 'POST', key, body })).status).toBe(201)
}

/** @returns the ids of the events */
async function publishBatch(): Promise<string[]> {
  const events = Array.from({ length: PER_BATCH }, (_, index) => ({
    type: index < FAILING_PER_BATCH ? 'environment.stopped' : 'environment.started',
    data: { index },
  }))
  const path = `${HOME}/events/batch`
  const answer = await ask(other, path, { method: 'POST', key, body: JSON.stringify({ events }) })
  expect(answer.status).toBe(202)
  return (answer.json.results as { eventId: string }[]).map(({ eventId }) => eventId)
}

function connect(server: ServerProcess, lastEventId?: string, pace?: () => Promise<unknown>) {
  return connectStream({ url: `${server.baseUrl}${HOME}/stream`, key, lastEventId }, pace)
}

/** The messages of one client over several connections. */
function messagesOf(connections: readonly HttpStreamClient[]): ReadMessage[] {
  return connections.flatMap(({ reader }) => reader.messages)
}

type Told = { status: string; attempts: Set<string> }

/** What the messages say of each delivery. */
function deliveriesIn(messages: readonly ReadMessage[]): Map<string, Told> {
  const told = new Map<string, Told>()
  for (const { type, data } of messages) {
    if (type !== 'delivery') continue
    const id = String(data.deliveryId)
    const attempts = told.get(id)?.attempts ?? new Set()
    for (const { at } of data.attempts as { at: string }[]) attempts.add(at)
    told.set(id, { status: String(data.status), attempts })
  }
  return told
}

/** Whether they tell of each event, and of the first attempt of each delivery. */
function isComplete(messages: readonly ReadMessage[], ids: readonly string[]): boolean {
  const events = new Set(messages.map(({ data }) => data.eventId))
  const deliveries = deliveriesIn(messages)
  return ids.every((id) => events.has(id) && (deliveries.get(id)?.attempts.size ?? 0) > 0)
}

function expectExact(messages: readonly ReadMessage[], ids: readonly string[]): void {
  const events = messages.filter(({ type }) => type === 'event').map(({ data }) => data.eventId)
  expect(events.toSorted()).toEqual(ids.toSorted())
  const all = messages.map(({ id }) => id)
  expect(new Set(all).size).toBe(all.length)
  const deliveries = deliveriesIn(messages)
  expect([...deliveries.keys()].toSorted()).toEqual(ids.toSorted())
  for (const [id, { status }] of deliveries)
    expect([id, status]).toEqual([
      id,
      ids.indexOf(id) % PER_BATCH < FAILING_PER_BATCH ? 'retrying' : 'succeeded',
    ])
}

test('100 clients, a slow one, and one that continues at other servers and after a restart miss nothing and read nothing twice', {
  timeout: TEST_LIMIT_MS,
}, async () => {
  const reading = Promise.withResolvers<void>()
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => connect(other)))
  const slow = await connect(other, undefined, () => reading.promise)
  const moving = [await connect(one)]
  const last = () => moving.at(-1)?.reader.lastId
  await until(
    async () => (last() === '' ? undefined : true),
    () => 'no position came',
  )
  const ids: string[] = []
  const publishThird = async () => {
    for (let batch = 0; batch < BATCHES / 3; batch += 1) ids.push(...(await publishBatch()))
  }
  await publishThird()
  await one.process.kill()
  await moving.at(-1)?.ended
  await publishThird()
  moving.push(await connect(other, last()))
  await publishThird()
  moving.at(-1)?.close()
  await moving.at(-1)?.ended
  one = await davit.startServer({ port: one.port })
  await one.process.untilReady()
  moving.push(
    await until(
      () => connect(one, last()).catch(() => undefined),
      () => 'the server that was started again has no stream',
    ),
  )
  reading.resolve()
  const everyone = [...clients.map((client) => [client]), [slow], moving]
  await until(
    async () => everyone.every((connections) => isComplete(messagesOf(connections), ids)) || undefined,
    () => `${everyone.filter((all) => !isComplete(messagesOf(all), ids)).length} clients miss messages`,
    ALL_READ_MS,
  )
  expect(await other.process.gauge('davit_streams_open')).toBe(CLIENTS + 1)
  expect(await other.process.gauge('davit_streams_dropped_total')).toBe(0)
  expect(await other.process.gauge('davit_stream_buffer_bytes')).toBeLessThan(MAX_BUFFER_BYTES)
  expect(await other.process.gauge('davit_http_requests_in_flight')).toBe(0)
  for (const connections of everyone) for (const connection of connections) connection.close()
  await Promise.all(everyone.flat().map(({ ended }) => ended))
  for (const connections of everyone) expectExact(messagesOf(connections), ids)
  await until(
    async () => (await other.process.gauge('davit_streams_open')) === 0 || undefined,
    () => 'streams stay open without clients',
  )
})

test('a position that the cluster has not reached is from before a restore, and is rejected', async () => {
  const headers = { 'last-event-id': '999999999-999999999-999999999' }
  const answer = await ask(one, `${HOME}/stream`, { key, headers })
  expect([answer.status, answer.json.code]).toEqual([410, 'cursor_expired'])
})

test('a server that is told to end ends its streams, and does not wait for their clients', async () => {
  const settings = { DAVIT_SHUTDOWN_TIMEOUT: '1m', DAVIT_SHUTDOWN_DELAY: '0s' }
  const server = await davit.startServer({ settings })
  await server.process.untilReady()
  await untilLetIn({ server, organization: ORGANIZATION, owner: key })
  const client = await connect(server)
  expect(await server.process.stop()).toBe(0)
  await client.ended
  expect(client.reader.comments.join()).toContain('shutting down')
})

test('without its permission, a stream ends within a minute', { timeout: TEST_LIMIT_MS }, async () => {
  const account = await davit.makeAccount(ORGANIZATION, 'leaving', 'davit-owner')
  const leaving = await davit.makeKey(account)
  await untilLetIn({ server: other, organization: ORGANIZATION, owner: leaving })
  const client = await connectStream({ url: `${other.baseUrl}${HOME}/stream`, key: leaving })
  const bindings = `/apis/rbac.authorization.k8s.io/v1/namespaces/${ORGANIZATION}/rolebindings`
  const path = `${bindings}/${account.name}`
  const { status } = await requestApi(davit.controlPlane.access, { method: 'DELETE', path })
  expect(status).toBe(200)
  const since = performance.now()
  await client.ended
  expect(performance.now() - since).toBeLessThan(60_000)
  expect(client.reader.comments.join()).toContain('API token')
})
