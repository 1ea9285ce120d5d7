/** The interface over HTTP as a client meets it (interface §4.2): real keys, services, controller and receiver. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { builtinEventTypes } from '../../src/apis/builtin-event-types.ts'
import { applyRoles, makeAccount, makeToken } from '../support/api-keys.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type HttpServer, startHttpServer } from '../support/http-server.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { answered, openRestClient, type RestClient } from '../support/rest-client.ts'
import { signersOf } from '../support/signers.ts'

const HOOKS = '/organizations/{orgId}/webhooks'
const HOOK = '/organizations/{orgId}/webhooks/{endpointId}'
const PING = '/organizations/{orgId}/webhooks/{endpointId}/ping'
const ROLL = '/organizations/{orgId}/webhooks/{endpointId}/secret/roll'
const DELIVERIES = '/organizations/{orgId}/webhooks/{endpointId}/deliveries'
const DELIVERY = '/organizations/{orgId}/webhooks/{endpointId}/deliveries/{deliveryId}'
const REDELIVER = '/organizations/{orgId}/webhooks/{endpointId}/deliveries/{deliveryId}/redeliver'
const EVENT_TYPES = '/organizations/{orgId}/webhooks/event-types'
const EVENTS = '/organizations/{orgId}/events'

let davit: TestDavit
let server: HttpServer
let receiver: Receiver
let orgId: string
/** Of the owner. */
let key: string
/** The owner's; each answer is held against the document. */
let client: RestClient

beforeAll(async () => {
  await applyRoles()
  receiver = await startReceiver()
  davit = await startDavit('rest-http')
  server = await startHttpServer(davit)
  orgId = davit.organization
  await makeAccount(orgId, 'owner', 'davit-owner')
  key = await makeToken(orgId, 'owner')
  client = await openRestClient(server, key)
})
afterAll(async () => {
  await server?.stop()
  await davit?.stop()
  await receiver?.close()
})

async function create(name: string, more: { description?: string } = {}) {
  const body = { url: `${receiver.url}/${name}`, eventTypes: ['environment.started'], ...more }
  const created = await client.POST(HOOKS, { params: { path: { orgId } }, body })
  const { endpoint, secret = '' } = answered(created)
  expect(created.response.status).toBe(201)
  return { secret, endpoint, path: { orgId, endpointId: endpoint.endpointId } }
}

/** The text of the data is sent as it is. */
async function publish(data: string) {
  const type = 'environment.started'
  const published = await client.POST(EVENTS, {
    params: { path: { orgId } },
    body: { type, data: JSON.parse(data) },
    bodySerializer: () => `{"type":"${type}","data":${data}}`,
  })
  expect(published.response.status).toBe(202)
  return answered(published)
}

async function ping(path: { orgId: string; endpointId: string }) {
  return answered(await client.POST(PING, { params: { path } }))
}

test('the document that is served is the one in the documentation', async () => {
  const served = await (await fetch(`${server.baseUrl}/openapi.json`)).json()
  const written = JSON.parse(
    await readFile(new URL('../../docs/reference/openapi.json', import.meta.url), 'utf8'),
  )
  expect(served).toEqual({ ...written, info: { ...written.info, version: '0.0.0-test' } })
})

test('a created endpoint gets the next event, signed, with the data as it was sent', async () => {
  const { secret } = await create('digits')
  const data = '{"n":9007199254740993,"e":1e2,"f":1.0,"s":"\\u0041\\/","z":[],"a":null}'
  const { eventId, deliveries } = await publish(data)
  expect(deliveries).toBe(1)
  const [request] = await receiver.waitFor(1, { path: '/digits' })
  expect(request?.headers['webhook-id']).toBe(eventId)
  expect(request && signersOf(request, [secret])).toEqual([0])
  expect(Buffer.from(request?.body ?? '').toString()).toContain(`"data":${data}`)
})

test('a ping can be read at once under its id, and later with its attempt', async () => {
  const { path } = await create('pinged')
  const pinged = await client.POST(PING, { params: { path } })
  expect(pinged.response.status).toBe(202)
  const { webhookId: deliveryId } = answered(pinged)
  const one = { params: { path: { ...path, deliveryId } } }
  const read = async () => answered(await client.GET(DELIVERY, one)).delivery
  expect(await read()).toMatchObject({ deliveryId, eventType: 'webhook.ping' })
  await receiver.waitFor(1, { path: '/pinged' })
  await expect
    .poll(read, { timeout: 5_000 })
    .toMatchObject({ status: 'succeeded', attemptCount: 1, attempts: [{ code: 200 }] })
  const again = await client.POST(REDELIVER, one)
  expect(again.response.status).toBe(202)
  const { webhookId } = answered(again)
  expect(webhookId).not.toBe(deliveryId)
  const list = answered(await client.GET(DELIVERIES, { params: { path, query: { limit: 1 } } }))
  expect(list.deliveries).toMatchObject([{ deliveryId: webhookId, redeliveryOf: deliveryId }])
  const cursor = list.cursor ?? ''
  const next = answered(await client.GET(DELIVERIES, { params: { path, query: { limit: 1, cursor } } }))
  expect(next).toMatchObject({ deliveries: [{ deliveryId }], cursor: null })
  const exhausted = await client.GET(DELIVERIES, { params: { path, query: { status: 'exhausted' } } })
  expect(answered(exhausted).deliveries).toEqual([])
})

test('a disabled endpoint gets nothing more, and an enabled one gets what comes then', async () => {
  const { path } = await create('paused')
  const change = (status: 'enabled' | 'disabled') =>
    client.PATCH(HOOK, { params: { path }, body: { status } })
  const disabled = await change('disabled')
  expect([disabled.response.status, answered(disabled).endpoint.status]).toEqual([200, 'disabled'])
  const before = await publish('{"number":1}')
  const refused = await client.POST(PING, { params: { path } })
  expect([refused.response.status, refused.error?.code]).toEqual([409, 'endpoint_disabled'])
  expect(answered(await change('enabled')).endpoint.status).toBe('enabled')
  const after = await publish('{"number":2}')
  const [request] = await receiver.waitFor(1, { path: '/paused' })
  expect(request?.headers['webhook-id']).toBe(after.eventId)
  expect(request?.headers['webhook-id']).not.toBe(before.eventId)
})

test('a rolled secret signs the very next attempt', async () => {
  const { path, secret } = await create('rolled')
  const rolled = answered(await client.POST(ROLL, { params: { path } }))
  expect(rolled.overlapSeconds).toBe(86_400)
  await ping(path)
  const [first] = await receiver.waitFor(1, { path: '/rolled' })
  const secrets = [rolled.secret ?? '', secret]
  expect(first && signersOf(first, secrets)).toEqual([0, 1])
  const last = answered(await client.POST(ROLL, { params: { path }, body: { expireOld: true } }))
  expect(last.overlapSeconds).toBe(0)
  await ping(path)
  const [, second] = await receiver.waitFor(2, { path: '/rolled' })
  expect(second && signersOf(second, [last.secret ?? '', ...secrets])).toEqual([0])
})

test('a change holds its fields, its ETag tells one that came too late, and a deleted endpoint is gone', async () => {
  const { path } = await create('changed', { description: 'old' })
  const read = await client.GET(HOOK, { params: { path } })
  const stale = { params: { path, header: { 'If-Match': read.response.headers.get('etag') ?? '' } } }
  const changed = answered(
    await client.PATCH(HOOK, { ...stale, body: { description: null, eventTypes: ['*'] } }),
  )
  const { endpointId } = path
  expect(changed.endpoint).toMatchObject({ endpointId, eventTypes: ['*'], status: 'enabled' })
  expect(changed.endpoint).not.toHaveProperty('description')
  const late = await client.PATCH(HOOK, { ...stale, body: { ordered: true } })
  expect([late.response.status, late.error?.code]).toEqual([412, 'precondition_failed'])
  expect((await client.DELETE(HOOK, stale)).response.status).toBe(412)
  const list = await client.GET(HOOKS, { params: { path: { orgId }, query: { limit: 200 } } })
  expect(answered(list).endpoints).toContainEqual(changed.endpoint)
  expect((await client.DELETE(HOOK, { params: { path } })).response.status).toBe(204)
  for (const gone of [
    await client.GET(HOOK, { params: { path } }),
    await client.DELETE(HOOK, { params: { path } }),
    await client.GET(DELIVERIES, { params: { path } }),
  ])
    expect([gone.response.status, gone.error?.code]).toEqual([404, 'not_found'])
})

test('the event types are those of the catalogue, page by page', async () => {
  const names: string[] = []
  let cursor: string | null = null
  do {
    const query: { limit: number; cursor?: string } = cursor === null ? { limit: 2 } : { limit: 2, cursor }
    const page = answered(await client.GET(EVENT_TYPES, { params: { path: { orgId }, query } }))
    names.push(...page.eventTypes.map(({ name }) => name))
    cursor = page.cursor
  } while (cursor !== null)
  for (const { metadata } of builtinEventTypes) expect(names).toContain(metadata.name)
  expect(names).toEqual([...new Set(names)].sort())
})

test('what the cluster would refuse is refused with its place', async () => {
  const params = { path: { orgId } }
  const post = (url: string, eventTypes: string[]) =>
    client.POST(HOOKS, { params, body: { url, eventTypes } })
  for (const [refused, pointer] of [
    [await post('https://127.0.0.1.nip.io:1/', ['no.such.type']), '/eventTypes/0'],
    [await post('https://10.0.0.1/', ['*']), '/url'],
    [await client.POST(EVENTS, { params, body: { type: 'webhook.ping', data: 1 } }), '/type'],
  ] as const) {
    expect(refused.response.status).toBe(422)
    expect(refused.error).toMatchObject({ code: 'invalid', errors: [{ pointer }] })
  }
})

test('the same key does it once, and another body under it is refused', async () => {
  const { path } = await create('once')
  const pinging = { params: { path, header: { 'Idempotency-Key': 'ping-1' } } }
  const first = await client.POST(PING, pinging)
  const repeat = await client.POST(PING, { ...pinging, body: {} })
  expect(answered(repeat)).toEqual(answered(first))
  expect([first, repeat].map(({ response }) => response.headers.get('idempotency-replayed'))).toEqual([
    null,
    'true',
  ])
  const creating = { params: { path: { orgId }, header: { 'Idempotency-Key': 'c' } } }
  const post = (name: string) =>
    client.POST(HOOKS, { ...creating, body: { url: `${receiver.url}/${name}`, eventTypes: ['*'] } })
  const created = answered(await post('x'))
  expect(answered(await post('x'))).toEqual({ endpoint: created.endpoint })
  const other = await post('y')
  expect([other.response.status, other.error?.code]).toEqual([409, 'idempotency_conflict'])
})

test('no key of an API caller and no signing secret is in the log', async () => {
  const { secret, path } = await create('quiet')
  answered(await client.POST(ROLL, { params: { path } }))
  const text = davit.logLines.join('\n')
  expect(text).toContain('handled change request')
  expect(text).not.toContain(key)
  expect(text).not.toContain(secret)
  expect(text).not.toContain('whsec_')
  expect(text).not.toMatch(/forbidden/i)
})
