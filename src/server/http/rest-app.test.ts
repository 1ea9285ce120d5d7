import { expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { type Asking, ask, KEYS, ORGANIZATION, startServerBed } from '../../../test/support/server-bed.ts'
import { DELIVERY_ID, EVENT_ID, idIn, SECRET } from '../../../test/support/server-services.ts'
import { ApiError } from '../../kube/client.ts'
import { Problem } from './problems.ts'

const ORG = `/organizations/${ORGANIZATION}`
const ID = idIn(ORGANIZATION)
const key = KEYS.owner
const draft = { url: 'https://example.com/hooks', eventTypes: ['*'] }

const send = (method: string, body?: unknown, headers?: Record<string, string>): Asking => ({
  method,
  key,
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  ...(headers ? { headers } : {}),
})

test('every operation answers as the interface has it', async () => {
  const bed = await startServerBed()
  const page = `${ORG}/webhooks/${ID}/deliveries`
  const answers = [
    await ask(bed, `${ORG}/webhooks`, send('POST', draft)),
    await ask(bed, `${ORG}/webhooks`, { key }),
    await ask(bed, `${ORG}/webhooks/${ID}`, { key }),
    await ask(bed, `${ORG}/webhooks/${ID}`, send('PATCH', { status: 'disabled' })),
    await ask(bed, `${ORG}/webhooks/${ID}`, { method: 'DELETE', key }),
    await ask(bed, `${ORG}/webhooks/event-types`, { key }),
    await ask(bed, `${ORG}/webhooks/${ID}/ping`, { method: 'POST', key }),
    await ask(bed, page, { key }),
    await ask(bed, `${page}/${DELIVERY_ID}`, { key }),
    await ask(bed, `${page}/${DELIVERY_ID}/redeliver`, { method: 'POST', key }),
    await ask(bed, `${ORG}/webhooks/${ID}/secret/roll`, { method: 'POST', key }),
    await ask(bed, `${ORG}/webhooks/${ID}/secret/roll`, send('POST', { expireOld: true })),
    await ask(bed, `${ORG}/events`, send('POST', { type: 'environment.started', data: null })),
  ]
  expect(answers.map(({ status }) => status)).toEqual([
    201, 200, 200, 200, 204, 200, 202, 200, 200, 202, 200, 200, 202,
  ])
  expect(answers[0]?.json).toMatchObject({ endpoint: { endpointId: 'whe_made', ...draft }, secret: SECRET })
  expect(answers[0]?.location).toBe(`${ORG}/webhooks/whe_made`)
  expect(answers[2]?.headers.get('etag')).toBe('"u.1"')
  expect(answers[4]?.text).toBe('')
  expect(answers[6]?.json).toEqual({ webhookId: EVENT_ID })
  expect(answers[10]?.json).toEqual({ secret: SECRET, overlapSeconds: 86_400 })
  expect(answers[11]?.json).toEqual({ secret: SECRET, overlapSeconds: 0 })
  expect(answers[12]?.json).toEqual({ eventId: EVENT_ID, deliveries: 1 })
  for (const answer of answers) {
    // A terminal goes on below it.
    if (answer.status !== 204) expect(answer.text).toMatch(/\}\n$/)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.headers.get('x-request-id')).toMatch(/^req_[0-9a-z]{20}$/)
    expect(answer.headers.get('x-powered-by')).toBeNull()
    expect(answer.headers.get('ratelimit')).toMatch(/^"key";r=\d+;t=1, "organization";r=\d+;t=1$/)
  }
})

test('a list goes on where its cursor says, and the cursor is for that list alone', async () => {
  const bed = await startServerBed()
  const first = await ask(bed, `${ORG}/webhooks?limit=2`, { key })
  expect(first.json.endpoints).toHaveLength(2)
  const { cursor } = first.json
  const second = await ask(bed, `${ORG}/webhooks?limit=2&cursor=${cursor}`, { key })
  expect(second.json).toMatchObject({ endpoints: [{ endpointId: 'whe_c' }], cursor: null })
  const page = `${ORG}/webhooks/${ID}/deliveries`
  expect((await ask(bed, `${page}?cursor=${cursor}`, { key })).status).toBe(422)
  const log = await ask(bed, `${page}?status=succeeded`, { key })
  expect((await ask(bed, `${page}?cursor=${log.json.cursor}`, { key })).status).toBe(422)
  const next = await ask(bed, `${page}?status=succeeded&cursor=${log.json.cursor}`, { key })
  expect(next.json).toEqual({ deliveries: [], cursor: null })
  const types = await ask(bed, `${ORG}/webhooks/event-types?limit=1`, { key })
  expect(types.json.eventTypes).toMatchObject([{ name: 'environment.started' }])
  const more = await ask(bed, `${ORG}/webhooks/event-types?limit=1&cursor=${types.json.cursor}`, { key })
  expect(more.json).toMatchObject({ eventTypes: [{ name: 'environment.stopped' }], cursor: null })
})

test('a read whose response does not fit is rejected, and a write gets its response anyway', async () => {
  const bed = await startServerBed({ limits: { bytesInFlight: 400 } })
  const list = await ask(bed, `${ORG}/webhooks`, { key })
  expect([list.status, list.json.code]).toEqual([503, 'overloaded'])
  expect((await ask(bed, `${ORG}/webhooks/${ID}`, { key })).status).toBe(503)
  expect((await ask(bed, `${ORG}/webhooks/${ID}`, { method: 'DELETE', key })).status).toBe(204)
  expect((await ask(bed, `${ORG}/webhooks`, send('POST', draft))).status).toBe(201)
})

test('a time in a query may have any offset, and a cursor is for the instant', async () => {
  const bed = await startServerBed()
  const page = `${ORG}/webhooks/${ID}/deliveries`
  const utc = '2026-01-31T12:00:00Z'
  const log = await ask(bed, `${page}?since=${utc}&until=2026-01-31T12:00:00.5Z`, { key })
  expect(bed.services.asked.at(-1)?.of).toMatchObject({
    query: { since: Date.parse(utc), until: Date.parse(utc) + 500 },
  })
  const { cursor } = log.json
  const same = `${page}?until=2026-01-31T12:00:00.500Z&since=2026-01-31T13:00:00%2B01:00&cursor=${cursor}`
  expect((await ask(bed, same, { key })).status).toBe(200)
  expect((await ask(bed, `${page}?since=${utc}&cursor=${cursor}`, { key })).status).toBe(422)
})

test('events are listed with their filters, and a cursor is for these', async () => {
  const bed = await startServerBed()
  const filters = 'type=environment.started&since=2026-01-31T12:00:00Z&include=payload'
  const first = await ask(bed, `${ORG}/events?${filters}&limit=1`, { key })
  expect(first.json.events).toMatchObject([{ eventId: DELIVERY_ID, statuses: { succeeded: 1 } }])
  expect(bed.services.asked.at(-1)?.of).toMatchObject({
    query: { limit: 1, type: 'environment.started', include: 'payload' },
  })
  const { cursor } = first.json
  expect((await ask(bed, `${ORG}/events?${filters}&cursor=${cursor}`, { key })).json).toEqual({
    events: [],
    cursor: null,
  })
  for (const other of ['', 'type=environment.started&', 'include=all&'])
    expect((await ask(bed, `${ORG}/events?${other}cursor=${cursor}`, { key })).status).toBe(422)
})

test('an event comes with its deliveries to the endpoints that there are', async () => {
  const bed = await startServerBed()
  const { json } = await ask(bed, `${ORG}/events/${DELIVERY_ID}`, { key })
  expect(json).toMatchObject({
    event: { eventId: DELIVERY_ID, deliveries: 2 },
    deliveries: [{ deliveryId: DELIVERY_ID, endpointId: 'whe_billing', status: 'succeeded' }],
  })
  expect(bed.services.asked.at(-1)).toMatchObject({
    operation: 'deliveries',
    of: { endpoints: [{ name: `of-${ORGANIZATION}` }, { name: 'audit' }], query: { eventId: DELIVERY_ID } },
  })
})

test('a delivery comes with its request on demand, without a signature', async () => {
  const bed = await startServerBed()
  const path = `${ORG}/webhooks/${ID}/deliveries/${DELIVERY_ID}`
  expect((await ask(bed, path, { key })).json.delivery).not.toHaveProperty('request')
  expect(bed.services.asked.map(({ operation }) => operation)).not.toContain('body')
  expect((await ask(bed, `${path}?include=request`, { key })).json).toMatchObject({
    delivery: {
      request: {
        headers: {
          'content-type': 'application/json',
          'webhook-id': DELIVERY_ID,
          'webhook-timestamp': String(Date.parse('2026-01-31T12:00:00.000Z') / 1000),
          'webhook-signature': '[redacted]',
        },
        body: expect.stringContaining('"type":"environment.started"'),
      },
    },
  })
  expect((await ask(bed, `${path}?include=secret`, { key })).status).toBe(422)
})

test('the deliveries of all endpoints may be those of one', async () => {
  const bed = await startServerBed()
  const asked = async (query: string) => {
    bed.services.asked.length = 0
    const { status, json } = await ask(bed, `${ORG}/deliveries${query}`, { key })
    const names = bed.services.asked
      .filter(({ operation }) => operation === 'deliveries')
      .flatMap(({ of }) => (of as { endpoints: { name: string }[] }).endpoints.map(({ name }) => name))
    return { status, names, cursor: json.cursor }
  }
  const { cursor, ...all } = await asked('')
  expect(all).toEqual({ status: 200, names: [`of-${ORGANIZATION}`, 'audit'] })
  expect(await asked('?endpointId=whe_audit')).toMatchObject({ status: 200, names: ['audit'] })
  expect(await asked('?endpointId=whe_gone')).toMatchObject({ status: 200, names: [] })
  expect(await asked(`?cursor=${cursor}`)).toMatchObject({ status: 200, cursor: null })
  expect(await asked(`?endpointId=whe_audit&cursor=${cursor}`)).toMatchObject({ status: 422 })
  expect(await asked('?endpointId=audit')).toMatchObject({ status: 422 })
})

test('a cursor of yesterday is refused as expired', async () => {
  const clock = new FakeClock()
  const bed = await startServerBed({
    clock,
    tokens: { review: async () => ({ username: 'owner', uid: '', groups: [], extra: {} }) },
  })
  const endless = 'a.e30.c'
  const { cursor } = (await ask(bed, `${ORG}/webhooks?limit=1`, { key: endless })).json
  clock.advance(25 * 60 * 60 * 1000)
  const late = await ask(bed, `${ORG}/webhooks?cursor=${cursor}`, { key: endless })
  expect([late.status, late.json.code]).toEqual([410, 'cursor_expired'])
})

test('data goes on as the characters that came', async () => {
  const bed = await startServerBed()
  const data = '{"n":9007199254740993, "e":1e2,"f":1.0,"s":"\\u0041\\/","z":1,"a":[ ]}'
  const body = `{"data":${data} ,"type":"environment.started","id":"k-1"}`
  await ask(bed, `${ORG}/events`, { method: 'POST', key, body })
  expect(bed.services.asked.at(-1)?.of).toMatchObject({
    publication: { type: 'environment.started', dataText: data },
    how: { idempotencyKey: 'k-1' },
  })
})

test('a repeat says that it is one, and shows no secret', async () => {
  const bed = await startServerBed()
  bed.services.replayed = true
  const headers = { 'idempotency-key': 'k-1' }
  const created = await ask(bed, `${ORG}/webhooks`, send('POST', draft, headers))
  expect(created.headers.get('idempotency-replayed')).toBe('true')
  expect(created.text).not.toContain('whsec_')
  const rolled = await ask(bed, `${ORG}/webhooks/${ID}/secret/roll`, send('POST', undefined, headers))
  expect(rolled.json).toEqual({ overlapSeconds: 86_400 })
  const pinged = await ask(bed, `${ORG}/webhooks/${ID}/ping`, send('POST', {}, headers))
  expect(pinged.headers.get('idempotency-replayed')).toBe('true')
  expect(bed.services.asked.map(({ of }) => (of as { how: unknown }).how)).toEqual(
    Array.from({ length: 3 }, () => ({ idempotencyKey: 'k-1' })),
  )
})

test.each([
  { error: new Problem('endpoint_disabled'), want: [409, 'endpoint_disabled', null] },
  {
    error: new Problem('intake_full', { detail: 'whe_a holds 900', retryAfter: 7 }),
    want: [503, 'intake_full', '7'],
  },
  { error: new Problem('not_acknowledged'), want: [503, 'not_acknowledged', '1'] },
  {
    error: new Problem('invalid', { errors: [{ pointer: '/url', message: 'no' }] }),
    want: [422, 'invalid', null],
  },
  {
    error: new ApiError('Unavailable', 'dial tcp 10.0.0.1', { retryAfterMs: 2_500 }),
    want: [503, 'unavailable', '3'],
  },
  { error: new ApiError('NoSpace', 'etcdserver: mvcc'), want: [503, 'overloaded', '30'] },
  { error: new ApiError('TooManyRequests', 'too many requests'), want: [503, 'overloaded', '1'] },
  { error: new ApiError('Terminating', 'acme is being terminated'), want: [404, 'not_found', null] },
  { error: new Problem('unreadable'), want: [409, 'unreadable', null] },
  { error: new ApiError('Forbidden', 'secrets is forbidden'), want: [503, 'overloaded', '1'] },
  { error: new TypeError('whsec_abc is not a function'), want: [500, 'internal', null] },
])('$error.message is answered as $want.1, without a word of what is inside', async ({ error, want }) => {
  const bed = await startServerBed()
  bed.services.failWith = error
  const answer = await ask(bed, `${ORG}/webhooks/${ID}/ping`, { method: 'POST', key })
  expect([answer.status, answer.json.code, answer.headers.get('retry-after')]).toEqual(want)
  expect(answer.headers.get('content-type')).toBe('application/problem+json')
  if (!(error instanceof Problem)) expect(answer.text).not.toContain(error.message)
})

test('an answer that does not come in time is given up', async () => {
  const clock = new FakeClock()
  const bed = await startServerBed({ clock })
  bed.services.hold = new Promise(() => {})
  const asked = ask(bed, `${ORG}/webhooks`, { key })
  while (bed.services.asked.length === 0) await new Promise((resolve) => setImmediate(resolve))
  clock.advance(30_000)
  expect(await asked).toMatchObject({ status: 503, json: { code: 'unavailable' } })
})

test('the log says why requests are put off, once in a while for each reason', async () => {
  const clock = new FakeClock()
  const bed = await startServerBed({ clock })
  const ping = async (error: unknown) => {
    bed.services.failWith = error
    await ask(bed, `${ORG}/webhooks/${ID}/ping`, { method: 'POST', key })
  }
  const away = new ApiError('Unavailable', 'dial tcp 10.0.0.1')
  for (const error of [away, away, new Problem('intake_full')]) await ping(error)
  clock.advance(10_000)
  await ping(away)
  const told = bed.logged.filter(({ message }) => message === 'responding with 503')
  expect(told.map(({ fields }) => fields)).toMatchObject([
    { code: 'unavailable', route: 'pingEndpoint', cause: expect.stringContaining('dial tcp 10.0.0.1') },
    { code: 'intake_full' },
    { code: 'unavailable' },
  ])
})

test('more requests at once than can be borne are turned away, until those before are done', async () => {
  const bed = await startServerBed({ limits: { requests: 2 } })
  let release = () => {}
  bed.services.hold = new Promise<void>((resolve) => {
    release = resolve
  })
  const held = [ask(bed, `${ORG}/webhooks`, { key }), ask(bed, `${ORG}/webhooks`, { key })]
  while (bed.services.asked.length < 2) await new Promise((resolve) => setImmediate(resolve))
  const third = await ask(bed, `${ORG}/webhooks`, { key })
  expect([third.status, third.json.code, third.headers.get('retry-after')]).toEqual([503, 'overloaded', '1'])
  release()
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200])
  expect((await ask(bed, `${ORG}/webhooks`, { key })).status).toBe(200)
})

test('a key that asks too often waits, and so does an organization, whoever asks', async () => {
  const bed = await startServerBed({ limits: { perKey: 3, perOrganization: 4 } })
  const statuses = []
  for (let time = 0; time < 4; time += 1) statuses.push((await ask(bed, `${ORG}/webhooks`, { key })).status)
  expect(statuses).toEqual([200, 200, 200, 429])
  const limited = await ask(bed, `${ORG}/webhooks`, { key })
  expect(limited.headers.get('retry-after')).toBe('1')
  expect(limited.headers.get('ratelimit')).toBe('"key";r=0;t=1')
  const event = { method: 'POST', key: KEYS.publisher, body: '{"type":"a.b","data":1}' }
  expect((await ask(bed, `${ORG}/events`, event)).status).toBe(202)
  expect((await ask(bed, `${ORG}/events`, event)).json).toMatchObject({ code: 'rate_limited' })
})

test('a batch counts as many requests as it has events, and keeps the text of each', async () => {
  const bed = await startServerBed({ limits: { perKey: 1000, perOrganization: 5 } })
  const batch = (events: string) => ({ method: 'POST', key: KEYS.publisher, body: `{"events": [${events}]}` })
  const answer = await ask(
    bed,
    `${ORG}/events/batch`,
    batch('{"type":"a.b","data":1.50},{"data":{},"type":"a.c"}'),
  )
  expect(answer.status).toBe(202)
  expect(answer.json.results).toHaveLength(2)
  expect(answer.headers.get('ratelimit')).toContain('"organization";r=3')
  expect(bed.services.asked.at(-1)).toMatchObject({
    operation: 'publishBatch',
    of: {
      publications: [
        { type: 'a.b', dataText: '1.50' },
        { type: 'a.c', dataText: '{}' },
      ],
    },
  })
  const limited = await ask(
    bed,
    `${ORG}/events/batch`,
    batch(Array(4).fill('{"type":"a.b","data":1}').join()),
  )
  expect([limited.status, limited.json.code]).toEqual([429, 'rate_limited'])
})

test('a batch that is larger than what may come within a second takes all of it', async () => {
  const bed = await startServerBed({ limits: { perKey: 1000, perOrganization: 3 } })
  const body = `{"events": [${Array(10).fill('{"type":"a.b","data":1}').join()}]}`
  const publish = async () =>
    (await ask(bed, `${ORG}/events/batch`, { method: 'POST', key: KEYS.publisher, body })).status
  expect([await publish(), await publish()]).toEqual([202, 429])
})

test('a response with bodies needs memory, and gives it back', async () => {
  const mebibyte = 1024 * 1024
  const bed = await startServerBed({ limits: { bytesPerOrganization: 3 * mebibyte } })
  const get = async (path: string) => (await ask(bed, `${ORG}${path}`, { key })).json.code ?? 'answered'
  const delivery = `/webhooks/${ID}/deliveries/${DELIVERY_ID}`
  expect(await get('/events?include=payload')).toBe('overloaded')
  expect(await get('/events')).toBe('answered')
  for (let times = 0; times < 3; times += 1) {
    expect(await get(`${delivery}?include=request`)).toBe('answered')
    expect(await get(`/events/${EVENT_ID}`)).toBe('not_found')
  }
})

test.each([
  { events: '', status: 422 },
  { events: Array(501).fill('{"type":"a.b","data":1}').join(), status: 422 },
  { events: '{"type":"a.b","data":1,"id":"x"}', status: 422 },
  { events: '1', status: 422 },
  { events: `{"type":"a.b","data":"${'x'.repeat(1024 * 1024)}"}`, status: 413 },
  { events: `{"type":"a.b","data":"${'x'.repeat(900 * 1024)}"}`, status: 202 },
])('a batch of $events.length characters is answered with $status', async ({ events, status }) => {
  const bed = await startServerBed()
  const how = { method: 'POST', key: KEYS.publisher, body: `{"events": [${events}]}` }
  expect((await ask(bed, `${ORG}/events/batch`, how)).status).toBe(status)
})

test('those who cannot see an organization do not use up its limit', async () => {
  const bed = await startServerBed({ limits: { perOrganization: 1 } })
  for (let time = 0; time < 5; time += 1) {
    expect((await ask(bed, `${ORG}/webhooks`, { key: KEYS.otherOwner })).status).toBe(404)
  }
  expect((await ask(bed, `${ORG}/webhooks`, { key })).status).toBe(200)
})

test('changes are in the log with who made them, and neither a key nor a secret is', async () => {
  const bed = await startServerBed()
  await ask(bed, `${ORG}/webhooks`, send('POST', draft))
  await ask(bed, `${ORG}/webhooks`, { key })
  bed.services.failWith = new Error('broken')
  await ask(bed, `${ORG}/webhooks/${ID}/secret/roll`, send('POST'))
  expect(bed.logged.map(({ message }) => message)).toEqual([
    'handled change request',
    'failed to handle request',
    'handled change request',
  ])
  expect(bed.logged[0]?.fields).toMatchObject({
    route: 'createEndpoint',
    organization: ORGANIZATION,
    caller: 'owner',
    status: 201,
  })
  const text = JSON.stringify(bed.logged)
  expect(text).not.toContain(key)
  expect(text).not.toContain('whsec_')
  expect(bed.answered).toEqual([
    { route: 'createEndpoint', status: 201 },
    { route: 'listEndpoints', status: 200 },
    { route: 'rollSecret', status: 500 },
  ])
})

test('HEAD is GET without the body', async () => {
  const bed = await startServerBed()
  const answer = await ask(bed, `${ORG}/webhooks`, { method: 'HEAD', key })
  expect([answer.status, answer.text]).toEqual([200, ''])
  expect(Number(answer.headers.get('content-length'))).toBeGreaterThan(10)
})
