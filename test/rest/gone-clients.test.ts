/** Clients that disconnect, and endpoints that are deleted, while a real REST server waits for the API server. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import type { FrontRequest } from '../support/api-front.ts'
import {
  EVENTS,
  type FrontedServer,
  HOOKS,
  ORGANIZATION,
  OWNER,
  startFrontedServer,
} from '../support/fronted-server.ts'
import { ask, dial } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'

let bed: FrontedServer

beforeAll(async () => {
  bed = await startFrontedServer()
}, 240_000)

afterAll(() => bed?.stop())

const isCreate = ({ method, path }: FrontRequest) => method === 'POST' && path.endsWith('/webhookendpoints')
const isReview = ({ path }: FrontRequest) => path.endsWith('/subjectaccessreviews')

/** A create of an endpoint, as bytes. */
function creating(key: string, name: string): string {
  const body = JSON.stringify({ url: `https://127.0.0.1/${name}`, eventTypes: [TYPE], description: name })
  const head = ['Host: x', `Authorization: ${key}`, 'Content-Type: application/json']
  return [`POST ${HOOKS} HTTP/1.1`, ...head, `Content-Length: ${body.length}`, '', body].join('\r\n')
}

/** Where the test decides when a request of the REST server continues. */
function gate() {
  const reached = Promise.withResolvers<void>()
  const open = Promise.withResolvers<void>()
  const act = async () => {
    reached.resolve()
    await open.promise
  }
  return { act, reached: reached.promise, open: () => open.resolve() }
}

async function nothingUnderWay(): Promise<void> {
  await until(
    async () => (await bed.server.process.gauge('davit_http_requests_in_flight')) === 0 || undefined,
    () => 'requests are left',
  )
}

async function listed(): Promise<{ endpointId: string; description?: string }[]> {
  return (await bed.list()).json.endpoints as { endpointId: string; description?: string }[]
}

test('for a client that goes while its right is reviewed nothing is begun, and nothing is kept', async () => {
  const body = { url: 'https://127.0.0.1/kept', eventTypes: [TYPE] }
  const path = (await bed.post(HOOKS, body)).location
  const review = gate()
  bed.front.before(isReview, review.act)
  const connection = await dial(bed.server)
  const key = await bed.davit.makeKey(OWNER)
  connection.write(`DELETE ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\n\r\n`)
  await review.reached
  connection.close()
  await nothingUnderWay()
  review.open()
  // The next requests have been answered.
  expect((await bed.list(await bed.davit.makeKey(OWNER))).status).toBe(200)
  const isDelete = ({ method, path }: FrontRequest) =>
    method === 'DELETE' && path.includes('/webhookendpoints/')
  expect(bed.front.requests.filter(isDelete)).toEqual([])
  expect((await ask(bed.server, path, { key: bed.key })).status).toBe(200)
})

test('what was begun for a client that goes is done, and told with who asked for it', async () => {
  const create = gate()
  bed.front.before(isCreate, create.act)
  const connection = await dial(bed.server)
  connection.write(creating(bed.key, 'begun'))
  await create.reached
  connection.close()
  create.open()
  await until(
    async () => (await listed()).find(({ description }) => description === 'begun'),
    () => 'what was begun was not done',
  )
  await nothingUnderWay()
  const line = await until(
    async () => {
      const lines = (await readFile(bed.server.logPath, 'utf8')).split('\n')
      return lines.find((one) => one.includes('"createEndpoint"') && one.includes('499'))
    },
    () => 'the log does not tell of it',
  )
  expect(JSON.parse(line)).toMatchObject({
    caller: `system:serviceaccount:${OWNER.namespace}:${OWNER.name}`,
    organization: ORGANIZATION,
    status: 499,
  })
})

test('an endpoint that went while it was being read does not come back with what was read', async () => {
  const body = { url: 'https://127.0.0.1/went', eventTypes: ['member.joined'] }
  const path = (await bed.post(HOOKS, body)).location
  const endpointId = path.split('/').at(-1) ?? ''
  const name = endpointId.replace('whe_', '')
  const isListed = async () => (await listed()).some((one) => one.endpointId === endpointId)
  await until(
    async () => (await isListed()) || undefined,
    () => 'the endpoint is not listed',
  )
  const read = gate()
  bed.front.after(
    ({ method, path }) => method === 'GET' && path.endsWith(`/webhookendpoints/${name}`),
    read.act,
  )
  const asked = ask(bed.server, path, { key: bed.key })
  await read.reached
  await bed.davit.api.delete(webhookEndpoints, { namespace: ORGANIZATION, name })
  await until(
    async () => !(await isListed()) || undefined,
    () => 'the endpoint does not go',
  )
  read.open()
  expect((await asked).status).toBe(200)
  expect(await isListed()).toBe(false)
  const { json } = await bed.post(EVENTS, { type: 'member.joined', data: {} })
  expect(json).toMatchObject({ deliveries: 0 })
})
