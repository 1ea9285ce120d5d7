/** The interface over HTTP as a client meets it (interface §4.2): real keys, services, controller and receiver. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createSchemaValidator } from '../../src/adapters/system/schema-validator.ts'
import { catalogue } from '../../src/api/catalogue.ts'
import { applyRoles, makeAccount, makeToken } from '../support/api-keys.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type Asking, ask } from '../support/facade-bed.ts'
import { type HttpFacade, startHttpFacade } from '../support/http-facade.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'

type Json = Record<string, unknown>
type Operation = { operationId: string; responses: Record<string, unknown> }

let davit: TestDavit
let facade: HttpFacade
let receiver: Receiver
let key: string
let hooks: string
let document: Json & { paths: Record<string, Record<string, Operation>>; components: Json }

beforeAll(async () => {
  await applyRoles()
  receiver = await startReceiver()
  davit = await startDavit('rest-http')
  facade = await startHttpFacade(davit)
  await makeAccount(davit.organization, 'owner', 'davit-owner')
  key = await makeToken(davit.organization, 'owner')
  hooks = `/organizations/${davit.organization}/webhooks`
  document = (await ask(facade, '/openapi.json')).json as typeof document
})
afterAll(async () => {
  await facade?.stop()
  await davit?.stop()
  await receiver?.close()
})

const validator = createSchemaValidator()

/** The schema of an answer, as the document has it. */
function schemaOf(path: string, method: string, status: number): Json | undefined {
  const shape = Object.entries(document.paths).find(([template]) =>
    new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path),
  )
  const response = shape?.[1][method.toLowerCase()]?.responses[status] as Json | undefined
  if (!response) throw new Error(`${method} ${path} answers ${status}, which the document does not have`)
  const found = (typeof response.$ref === 'string' ? lookUp(response.$ref) : response) as { content?: Json }
  const media = Object.values(found.content ?? {})[0] as { schema: Json } | undefined
  if (!media) return undefined
  return JSON.parse(JSON.stringify({ ...media.schema, components: document.components })) as Json
}

function lookUp(ref: string): unknown {
  return ref
    .slice(2)
    .split('/')
    .reduce<unknown>((at, part) => (at as Json)[part], document)
}

/** Asks as the owner, and holds the answer against the document. */
async function call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const asking: Asking = { method, key, headers }
  if (body !== undefined) asking.body = typeof body === 'string' ? body : JSON.stringify(body)
  const answer = await ask(facade, path, asking)
  const [pathname = ''] = path.split('?')
  const schema = schemaOf(pathname, method, answer.status)
  if (schema) expect(validator.validate(schema, answer.json)).toEqual([])
  else expect(answer.text).toBe('')
  return answer
}

async function create(path: string, more: Json = {}) {
  const answer = await call('POST', hooks, {
    url: `${receiver.url}/${path}`,
    eventTypes: ['environment.started'],
    ...more,
  })
  expect(answer.status).toBe(201)
  const { endpoint, secret } = answer.json as { endpoint: { endpointId: string }; secret: string }
  return { id: endpoint.endpointId, secret, path: `${hooks}/${endpoint.endpointId}` }
}

const publish = (data: string, headers?: Record<string, string>) =>
  call(
    'POST',
    `/organizations/${davit.organization}/events`,
    `{"type":"environment.started","data":${data}}`,
    headers,
  )

test('a created endpoint gets the next event, signed, with the data as it was sent', async () => {
  const { secret } = await create('digits')
  const data = '{"n":9007199254740993,"e":1e2,"f":1.0,"s":"\\u0041\\/","z":[],"a":null}'
  const published = await publish(data)
  expect([published.status, published.json.deliveries]).toEqual([202, 1])
  const [request] = await receiver.waitFor(1, { path: '/digits' })
  expect(request?.headers['webhook-id']).toBe(published.json.eventId)
  expect(request && signersOf(request, [secret])).toEqual([0])
  expect(Buffer.from(request?.body ?? '').toString()).toContain(`"data":${data}`)
})

test('a ping can be read at once under its id, and later with its attempt', async () => {
  const { path } = await create('pinged')
  const pinged = await call('POST', `${path}/ping`)
  expect(pinged.status).toBe(202)
  const one = `${path}/deliveries/${pinged.json.webhookId}`
  expect((await call('GET', one)).json.delivery).toMatchObject({
    deliveryId: pinged.json.webhookId,
    eventType: 'webhook.ping',
  })
  await receiver.waitFor(1, { path: '/pinged' })
  await expect
    .poll(async () => (await call('GET', one)).json.delivery, { timeout: 5_000 })
    .toMatchObject({ status: 'succeeded', attemptCount: 1, attempts: [{ code: 200 }] })
  const again = await call('POST', `${one}/redeliver`)
  expect(again.status).toBe(202)
  expect(again.json.webhookId).not.toBe(pinged.json.webhookId)
  const list = await call('GET', `${path}/deliveries?limit=1`)
  expect(list.json.deliveries).toMatchObject([
    { deliveryId: again.json.webhookId, redeliveryOf: pinged.json.webhookId },
  ])
  const next = await call('GET', `${path}/deliveries?limit=1&cursor=${list.json.cursor}`)
  expect(next.json).toMatchObject({ deliveries: [{ deliveryId: pinged.json.webhookId }], cursor: null })
  expect((await call('GET', `${path}/deliveries?status=exhausted`)).json.deliveries).toEqual([])
})

test('a disabled endpoint gets nothing more, and an enabled one gets what comes then', async () => {
  const { path } = await create('paused')
  const disabled = await call('PATCH', path, { status: 'disabled' })
  expect([disabled.status, disabled.json.endpoint]).toMatchObject([200, { status: 'disabled' }])
  const before = await publish('{"number":1}')
  expect(await call('POST', `${path}/ping`)).toMatchObject({
    status: 409,
    json: { code: 'endpoint_disabled' },
  })
  expect((await call('PATCH', path, { status: 'enabled' })).json.endpoint).toMatchObject({
    status: 'enabled',
  })
  const after = await publish('{"number":2}')
  const [request] = await receiver.waitFor(1, { path: '/paused' })
  expect(request?.headers['webhook-id']).toBe(after.json.eventId)
  expect(request?.headers['webhook-id']).not.toBe(before.json.eventId)
})

test('a rolled secret signs the very next attempt', async () => {
  const { path, secret } = await create('rolled')
  const rolled = await call('POST', `${path}/secret/roll`)
  expect(rolled.json).toMatchObject({ overlapSeconds: 86_400 })
  await call('POST', `${path}/ping`)
  const [first] = await receiver.waitFor(1, { path: '/rolled' })
  const secrets = [String(rolled.json.secret), secret]
  expect(first && signersOf(first, secrets)).toEqual([0, 1])
  const last = await call('POST', `${path}/secret/roll`, { expireOld: true })
  expect(last.json).toMatchObject({ overlapSeconds: 0 })
  await call('POST', `${path}/ping`)
  const [, second] = await receiver.waitFor(2, { path: '/rolled' })
  expect(second && signersOf(second, [String(last.json.secret), ...secrets])).toEqual([0])
})

test('a change holds its fields, its ETag tells one that came too late, and a deleted endpoint is gone', async () => {
  const { path, id } = await create('changed', { description: 'old' })
  const read = await call('GET', path)
  const etag = read.headers.get('etag') ?? ''
  const changed = await call('PATCH', path, { description: null, eventTypes: ['*'] }, { 'if-match': etag })
  expect(changed.json.endpoint).toMatchObject({ endpointId: id, eventTypes: ['*'], status: 'enabled' })
  expect(changed.json.endpoint).not.toHaveProperty('description')
  expect((await call('PATCH', path, { ordered: true }, { 'if-match': etag })).status).toBe(412)
  expect((await call('DELETE', path, undefined, { 'if-match': etag })).status).toBe(412)
  const list = await call('GET', `${hooks}?limit=200`)
  expect(list.json.endpoints).toContainEqual(changed.json.endpoint)
  expect((await call('DELETE', path)).status).toBe(204)
  for (const method of ['GET', 'DELETE']) expect((await call(method, path)).status).toBe(404)
  expect((await call('GET', `${path}/deliveries`)).status).toBe(404)
})

test('the event types are those of the catalogue, page by page', async () => {
  const names: string[] = []
  let cursor: unknown
  do {
    const page = await call('GET', `${hooks}/event-types?limit=2${cursor ? `&cursor=${cursor}` : ''}`)
    names.push(...(page.json.eventTypes as { name: string }[]).map(({ name }) => name))
    cursor = page.json.cursor
  } while (cursor !== null)
  for (const { metadata } of catalogue) expect(names).toContain(metadata.name)
  expect(names).toEqual([...new Set(names)].sort())
})

test('what the cluster would refuse is refused with its place', async () => {
  const bad = await call('POST', hooks, { url: 'https://127.0.0.1.nip.io:1/', eventTypes: ['no.such.type'] })
  expect(bad).toMatchObject({
    status: 422,
    json: { code: 'invalid', errors: [{ pointer: '/eventTypes/0' }] },
  })
  const local = await call('POST', hooks, { url: 'https://10.0.0.1/', eventTypes: ['*'] })
  expect(local).toMatchObject({ status: 422, json: { errors: [{ pointer: '/url' }] } })
  const event = await call('POST', `/organizations/${davit.organization}/events`, {
    type: 'webhook.ping',
    data: 1,
  })
  expect(event).toMatchObject({ status: 422, json: { errors: [{ pointer: '/type' }] } })
})

test('the same key does it once, and another body under it is refused', async () => {
  const { path } = await create('once')
  const headers = { 'idempotency-key': 'ping-1' }
  const first = await call('POST', `${path}/ping`, undefined, headers)
  const repeat = await call('POST', `${path}/ping`, {}, headers)
  expect(repeat.json).toEqual(first.json)
  expect([first, repeat].map((answer) => answer.headers.get('idempotency-replayed'))).toEqual([null, 'true'])
  const created = await call(
    'POST',
    hooks,
    { url: `${receiver.url}/x`, eventTypes: ['*'] },
    { 'idempotency-key': 'c' },
  )
  const copy = await call(
    'POST',
    hooks,
    { url: `${receiver.url}/x`, eventTypes: ['*'] },
    { 'idempotency-key': 'c' },
  )
  expect(copy.json).toEqual({ endpoint: created.json.endpoint })
  const other = await call(
    'POST',
    hooks,
    { url: `${receiver.url}/y`, eventTypes: ['*'] },
    { 'idempotency-key': 'c' },
  )
  expect(other).toMatchObject({ status: 409, json: { code: 'idempotency_conflict' } })
})

test('no key of an API caller and no signing secret is in the log', async () => {
  const { secret, path } = await create('quiet')
  await call('POST', `${path}/secret/roll`)
  const text = davit.logLines.join('\n')
  expect(text).toContain('a change was asked for')
  expect(text).not.toContain(key)
  expect(text).not.toContain(secret)
  expect(text).not.toContain('whsec_')
  expect(text).not.toMatch(/forbidden/i)
})
