import { expect, test } from 'vitest'
import { type Asking, ask, KEYS, ORGANIZATION, startServerBed } from '../../../test/support/server-bed.ts'
import { credentialIn, DELIVERY_ID, idIn } from '../../../test/support/server-services.ts'

const ORG = `/organizations/${ORGANIZATION}`
const ID = idIn(ORGANIZATION)
const HOOKS = `${ORG}/webhooks`
const LOG = `${HOOKS}/${ID}/deliveries`
const key = KEYS.owner
const JSON_TYPE = 'application/json'

const post = (body: string, headers?: Record<string, string>): Asking => ({
  method: 'POST',
  body,
  ...(headers ? { headers } : {}),
})

const BAD: { what: string; path: string; asking?: Asking; want: [number, string]; places?: string[] }[] = [
  { what: 'an unknown path', path: '/nothing', want: [404, 'not_found'] },
  { what: 'an unknown path below an organization', path: `${ORG}/hooks`, want: [404, 'not_found'] },
  { what: 'a slash at the end', path: `${HOOKS}/`, want: [404, 'not_found'] },
  { what: 'other letters', path: `${ORG}/Webhooks`, want: [404, 'not_found'] },
  { what: 'an id without its prefix', path: `${HOOKS}/billing`, want: [404, 'not_found'] },
  { what: 'an id in capitals', path: `${HOOKS}/whe_Billing`, want: [404, 'not_found'] },
  { what: 'an id with a Cyrillic letter', path: `${HOOKS}/whe_b%D1%96lling`, want: [404, 'not_found'] },
  { what: 'an id with a full-width letter', path: `${HOOKS}/whe_%EF%BD%81`, want: [404, 'not_found'] },
  { what: 'an id with a dot', path: `${HOOKS}/whe_a.b`, want: [404, 'not_found'] },
  { what: 'an id with an escaped slash', path: `${HOOKS}/whe_a%2fping`, want: [404, 'not_found'] },
  { what: 'an id that is too long', path: `${HOOKS}/whe_${'a'.repeat(64)}`, want: [404, 'not_found'] },
  {
    what: 'a delivery id with a letter that it has not',
    path: `${LOG}/msg_${'u'.repeat(26)}`,
    want: [404, 'not_found'],
  },
  { what: 'an escape that is none', path: `${HOOKS}/%E0%A4%A`, want: [400, 'bad_request'] },
  { what: 'NUL', path: `${HOOKS}/whe_a%00`, want: [400, 'bad_request'] },
  { what: 'a long URL', path: `${HOOKS}?cursor=${'a'.repeat(3_000)}`, want: [414, 'uri_too_long'] },
  { what: 'a parameter twice', path: `${HOOKS}?limit=1&limit=2`, want: [400, 'bad_request'] },
  { what: 'an unknown parameter', path: `${HOOKS}?limt=1`, want: [422, 'invalid'], places: ['limt'] },
  ...['0', '201', '-1', '1.5', '1e1', '0x10', ' 5', '', 'x', '９'].map((limit) => ({
    what: `a limit of "${limit}"`,
    path: `${HOOKS}?limit=${encodeURIComponent(limit)}`,
    want: [422, 'invalid'] as [number, string],
    places: ['limit'],
  })),
  { what: 'a cursor that is none', path: `${HOOKS}?cursor=abc`, want: [422, 'invalid'], places: ['cursor'] },
  { what: 'an unknown status', path: `${LOG}?status=done`, want: [422, 'invalid'], places: ['status'] },
  { what: 'a wrong event type', path: `${LOG}?eventType=A`, want: [422, 'invalid'], places: ['eventType'] },
  ...['yesterday', '2026-01-31', '2026-01-31T12:00:00', '2026-02-30T12:00:00Z', '1769860800', ''].map(
    (since) => ({
      what: `a time of "${since}"`,
      path: `${LOG}?since=${since}`,
      want: [422, 'invalid'] as [number, string],
      places: ['since'],
    }),
  ),
  {
    what: 'a method that is none here',
    path: HOOKS,
    asking: { method: 'PUT' },
    want: [405, 'method_not_allowed'],
  },
  { what: 'OPTIONS', path: HOOKS, asking: { method: 'OPTIONS' }, want: [405, 'method_not_allowed'] },
  { what: 'no body', path: HOOKS, asking: { method: 'POST' }, want: [400, 'bad_json'] },
  { what: 'a body that is no JSON', path: HOOKS, asking: post('{"url"'), want: [400, 'bad_json'] },
  { what: 'a member twice', path: HOOKS, asking: post('{"url":"a","url":"b"}'), want: [400, 'bad_json'] },
  { what: '__proto__', path: HOOKS, asking: post('{"__proto__":{"admin":true}}'), want: [400, 'bad_json'] },
  { what: 'a deep body', path: HOOKS, asking: post('['.repeat(50_000)), want: [400, 'bad_json'] },
  { what: 'a body that is no object', path: HOOKS, asking: post('[]'), want: [422, 'invalid'], places: [''] },
  { what: 'null for a body', path: HOOKS, asking: post('null'), want: [422, 'invalid'], places: [''] },
  {
    what: 'unknown fields',
    path: HOOKS,
    asking: post('{"url":"https://a.example/","eventTypes":["*"],"secret":"x","constructor":1}'),
    want: [422, 'invalid'],
    places: ['/secret', '/constructor'],
  },
  {
    what: 'missing fields',
    path: HOOKS,
    asking: post('{}'),
    want: [422, 'invalid'],
    places: ['/url', '/eventTypes'],
  },
  {
    what: 'an event without data',
    path: `${ORG}/events`,
    asking: post('{"type":"a.b"}'),
    want: [422, 'invalid'],
    places: ['/data'],
  },
  {
    what: 'an event type that cannot be',
    path: `${ORG}/events`,
    asking: post('{"type":"A","data":1}'),
    want: [422, 'invalid'],
    places: ['/type'],
  },
  {
    what: 'two ids of an event',
    path: `${ORG}/events`,
    asking: post('{"type":"a.b","data":1,"id":"x"}', { 'idempotency-key': 'y' }),
    want: [422, 'invalid'],
    places: ['/id'],
  },
  {
    what: 'a ping with fields',
    path: `${HOOKS}/${ID}/ping`,
    asking: post('{"a":1}'),
    want: [422, 'invalid'],
    places: ['/a'],
  },
  {
    what: 'a redelivery of nothing',
    path: `${LOG}/msg_${'0'.repeat(26)}/redeliver`,
    asking: { method: 'POST' },
    want: [404, 'not_found'],
  },
  {
    what: 'a roll that is no boolean',
    path: `${HOOKS}/${ID}/secret/roll`,
    asking: post('{"expireOld":"no"}'),
    want: [422, 'invalid'],
    places: ['/expireOld'],
  },
  {
    what: 'another type of body',
    path: HOOKS,
    asking: post('url=a', { 'content-type': 'application/x-www-form-urlencoded' }),
    want: [415, 'unsupported_media_type'],
  },
  {
    what: 'a type that only begins like it',
    path: HOOKS,
    asking: post('{}', { 'content-type': 'application/json-patch+json' }),
    want: [415, 'unsupported_media_type'],
  },
  {
    what: 'another character set',
    path: HOOKS,
    asking: post('{}', { 'content-type': `${JSON_TYPE}; charset=latin1` }),
    want: [415, 'unsupported_media_type'],
  },
  {
    what: 'a compressed body',
    path: HOOKS,
    asking: post('{}', { 'content-encoding': 'gzip' }),
    want: [415, 'unsupported_media_type'],
  },
  {
    what: 'a large body',
    path: HOOKS,
    asking: post(`"${'a'.repeat(256 * 1024)}"`),
    want: [413, 'body_too_large'],
  },
  {
    what: 'a key with a space',
    path: HOOKS,
    asking: post('{}', { 'idempotency-key': 'a b' }),
    want: [400, 'bad_request'],
  },
  {
    what: 'an empty key',
    path: HOOKS,
    asking: post('{}', { 'idempotency-key': '' }),
    want: [400, 'bad_request'],
  },
  {
    what: 'a long key',
    path: HOOKS,
    asking: post('{}', { 'idempotency-key': 'a'.repeat(256) }),
    want: [400, 'bad_request'],
  },
  {
    what: 'an ETag without quotes',
    path: `${HOOKS}/${ID}`,
    asking: { method: 'DELETE', headers: { 'if-match': 'abc' } },
    want: [400, 'bad_request'],
  },
]

test.each(BAD)('$what is refused with $want.1', async ({ path, asking, want, places }) => {
  const bed = await startServerBed()
  const answer = await ask(bed, path, { key, ...asking })
  expect([answer.status, answer.json.code]).toEqual(want)
  expect(answer.headers.get('content-type')).toBe('application/problem+json')
  expect(answer.json).toMatchObject({ status: want[0], type: `urn:davit:problem:${want[1]}` })
  expect(answer.json.requestId).toBe(answer.headers.get('x-request-id'))
  expect(answer.headers.get('cache-control')).toBe('no-store')
  if (places)
    expect((answer.json.errors as { pointer: string }[]).map(({ pointer }) => pointer)).toEqual(places)
  const changes = bed.services.asked.filter(({ operation }) => operation !== 'redeliver')
  expect(changes).toEqual([])
})

test('405 names the methods that there are', async () => {
  const bed = await startServerBed()
  const allow = async (path: string) => (await ask(bed, path, { method: 'PUT', key })).headers.get('allow')
  expect(await allow(HOOKS)).toBe('POST, GET, HEAD')
  expect(await allow(`${HOOKS}/${ID}`)).toBe('GET, HEAD, PATCH, DELETE')
  expect(await allow(`${HOOKS}/event-types`)).toBe('GET, HEAD')
  expect(await allow(`${HOOKS}/${ID}/ping`)).toBe('POST')
})

test.each([
  ['application/json'],
  ['Application/JSON; charset=UTF-8'],
  ['application/json;charset="utf-8"'],
  ['application/json; charset=utf8'],
  ['application/json ; version=1; Charset="UTF-8"'],
  ['application/json; profile="https://example.com/a;b"'],
  ['application/json;'],
  ['application/json; charset="ut\\f-8"'],
])('the type %s is taken', async (type) => {
  const bed = await startServerBed()
  const answer = await ask(bed, `${HOOKS}/${ID}/ping`, { ...post('{}', { 'content-type': type }), key })
  expect(answer.status).toBe(202)
})

test('another type is refused with what to send', async () => {
  const bed = await startServerBed()
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const answer = await ask(bed, `${HOOKS}/${ID}/ping`, { ...post('{}', form), key })
  expect(answer.json.detail).toContain('the header Content-Type: application/json')
})

const OTHER = [
  ['another type', { 'content-type': 'application/merge-patch+json' }],
  ['a type that only begins like it', { 'content-type': 'application/json-seq' }],
  ['several types', { 'content-type': 'application/json, text/plain' }],
  ['no type', { 'content-type': '' }],
  ['another character set', { 'content-type': 'application/json; charset="latin1"' }],
  ['a character set that there is not', { 'content-type': 'application/json; charset=none' }],
] as const
const CODED = { 'content-encoding': 'gzip' }

test.each([
  { method: 'POST', path: HOOKS, name: 'accept' },
  { method: 'PUT', path: `${ORG}/secrets-settings`, name: 'accept' },
  { method: 'PATCH', path: `${HOOKS}/${ID}`, name: 'accept-patch' },
  {
    method: 'PATCH',
    path: `${ORG}/registry-credentials/${credentialIn(ORGANIZATION)}`,
    name: 'accept-patch',
  },
])('415 to $method $path says what is taken', async ({ method, path, name }) => {
  const bed = await startServerBed()
  const refused = async (headers: Record<string, string>) => {
    const answer = await ask(bed, path, { method, key, body: '{}', headers })
    expect([answer.status, answer.json.code]).toEqual([415, 'unsupported_media_type'])
    return ['accept', 'accept-patch', 'accept-encoding'].map((one) => answer.headers.get(one))
  }
  const [accept, patch] = name === 'accept' ? [JSON_TYPE, null] : [null, JSON_TYPE]
  for (const [what, headers] of OTHER)
    expect([what, await refused(headers)]).toEqual([what, [accept, patch, null]])
  expect(await refused(CODED)).toEqual([accept, patch, 'identity'])
  expect(bed.services.asked).toEqual([])
})

test('a path that takes PATCH says what of, whatever else is asked of it', async () => {
  const bed = await startServerBed()
  const patch = async (path: string, method: string) =>
    (await ask(bed, path, { method, key })).headers.get('accept-patch')
  for (const method of ['OPTIONS', 'PUT']) {
    expect(await patch(`${HOOKS}/${ID}`, method)).toBe(JSON_TYPE)
    expect(await patch(`${HOOKS}/event-types`, method)).toBeNull()
  }
})

test('a body of exactly the limit is taken', async () => {
  const bed = await startServerBed()
  const [head, tail] = ['{"type":"a.b","data":"', '"}']
  const body = head + 'a'.repeat(256 * 1024 - head.length - tail.length) + tail
  expect((await ask(bed, `${ORG}/events`, { ...post(body), key })).status).toBe(202)
})

test('without a key there is nothing but the pages that need none', async () => {
  const bed = await startServerBed()
  for (const path of ['/', '/nothing', HOOKS, `${LOG}/${DELIVERY_ID}`, '/docs/', '/docs/x', '/favicon.ico']) {
    const answer = await ask(bed, path)
    expect([path, answer.status, answer.json.code]).toEqual([path, 401, 'unauthenticated'])
    expect(answer.headers.get('www-authenticate')).toBe('ApiKey realm="davit"')
  }
  const hint = await ask(bed, HOOKS, { key: `Bearer ${key}` })
  expect([hint.status, hint.json.detail]).toEqual([
    401,
    expect.stringContaining('without a prefix such as Bearer'),
  ])
  expect(bed.reviewed).toEqual([])
})
