/** Rejections of a real REST server: each is a problem with a documented code, and reveals no internals. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import type { FrontAnswer, FrontRequest } from '../support/api-front.ts'
import {
  EVENTS,
  type FrontedServer,
  HOOKS,
  ORGANIZATION,
  startFrontedServer,
} from '../support/fronted-server.ts'
import { installLooseCrds } from '../support/loose-crds.ts'
import { type Asking, ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const INSIDE = 'words-of-inside etcd-0.davit-system.svc:2379'
const DRAFT = { url: 'https://127.0.0.1/hook', eventTypes: ['environment.started'] }
const JSON_TYPE = 'application/json'

let bed: FrontedServer
/** What the documentation lists. */
let codes: ReadonlySet<string>
/** Path of an endpoint. */
let hook: string

beforeAll(async () => {
  const page = await readFile(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8')
  codes = new Set([...page.matchAll(/^\| \d{3} \| `(\w+)` \|/gm)].map(([, code]) => code ?? ''))
  bed = await startFrontedServer()
  hook = (await bed.post(HOOKS, DRAFT)).location
}, 240_000)

afterAll(() => bed?.stop())

type Answered = Awaited<ReturnType<typeof ask>>

/** @returns status and code */
function problemIn({ status, headers, json, text }: Answered): [number, string] {
  expect(headers.get('content-type')).toBe('application/problem+json')
  const { code, requestId } = json as { code: string; requestId: string }
  expect(json).toMatchObject({ type: `urn:davit:problem:${code}`, status, title: expect.any(String) })
  expect(codes).toContain(code)
  expect(requestId).toBe(headers.get('x-request-id'))
  if (status === 429 || status === 503) expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  for (const word of ['words-of-inside', 'davit-system', 'etcd', 'whsec_', 'at async', 'node:', '.ts:'])
    expect(text).not.toContain(word)
  return [status, code]
}

const post = (body: string, headers: Record<string, string> = {}): Asking => ({
  method: 'POST',
  body,
  headers,
})
const none = `msg_${'0'.repeat(26)}`

const BAD: { what: string; path: string; asking?: Asking; want: [number, string] }[] = [
  { what: 'an unknown path', path: '/nothing', want: [404, 'not_found'] },
  { what: 'another organization', path: '/organizations/umbrella/webhooks', want: [404, 'not_found'] },
  { what: 'an endpoint that is none', path: `${HOOKS}/whe_none`, want: [404, 'not_found'] },
  { what: 'an escaped slash', path: `${HOOKS}/whe_a%2fping`, want: [404, 'not_found'] },
  { what: 'NUL', path: `${HOOKS}/whe_a%00`, want: [400, 'bad_request'] },
  { what: 'a long URL', path: `${HOOKS}?cursor=${'a'.repeat(3000)}`, want: [414, 'uri_too_long'] },
  {
    what: 'long headers',
    path: HOOKS,
    asking: { headers: { 'x-long': 'a'.repeat(20_000) } },
    want: [431, 'headers_too_large'],
  },
  { what: 'a parameter twice', path: `${HOOKS}?limit=1&limit=2`, want: [400, 'bad_request'] },
  { what: 'an unknown parameter', path: `${HOOKS}?limt=1`, want: [422, 'invalid'] },
  { what: 'a limit that is none', path: `${HOOKS}?limit=201`, want: [422, 'invalid'] },
  { what: 'a cursor that is none', path: `${HOOKS}?cursor=abc`, want: [422, 'invalid'] },
  { what: 'no such method', path: HOOKS, asking: { method: 'PUT' }, want: [405, 'method_not_allowed'] },
  { what: 'no body', path: HOOKS, asking: { method: 'POST' }, want: [400, 'bad_json'] },
  { what: 'no JSON', path: HOOKS, asking: post('{"url"'), want: [400, 'bad_json'] },
  { what: 'a member twice', path: HOOKS, asking: post('{"url":"a","url":"b"}'), want: [400, 'bad_json'] },
  { what: '__proto__', path: HOOKS, asking: post('{"__proto__":{"a":1}}'), want: [400, 'bad_json'] },
  { what: 'a deep body', path: HOOKS, asking: post('['.repeat(50_000)), want: [400, 'bad_json'] },
  {
    what: 'unknown fields',
    path: HOOKS,
    asking: post(JSON.stringify({ ...DRAFT, secret: 'x' })),
    want: [422, 'invalid'],
  },
  { what: 'missing fields', path: HOOKS, asking: post('{}'), want: [422, 'invalid'] },
  {
    what: 'a forbidden address',
    path: HOOKS,
    asking: post(JSON.stringify({ ...DRAFT, url: 'https://10.0.0.1/' })),
    want: [422, 'invalid'],
  },
  {
    what: 'another type of body',
    path: HOOKS,
    asking: post('{}', { 'content-type': 'text/plain' }),
    want: [415, 'unsupported_media_type'],
  },
  {
    what: 'a compressed body',
    path: HOOKS,
    asking: post('{}', { 'content-encoding': 'gzip' }),
    want: [415, 'unsupported_media_type'],
  },
  {
    what: 'a type that there is not',
    path: EVENTS,
    asking: post('{"type":"no.such","data":1}'),
    want: [422, 'invalid'],
  },
  {
    what: 'an empty key',
    path: EVENTS,
    asking: post('{"type":"environment.started","data":{}}', { 'idempotency-key': '' }),
    want: [400, 'bad_request'],
  },
  { what: 'a delivery that is none', path: `/${none}`, want: [404, 'not_found'] },
]

describe('a request that is not as it has to be', () => {
  test.each(BAD)('is refused and does nothing: $what', async ({ path, asking, want }) => {
    const writes = () => bed.front.requests.filter(isWrite).length
    const before = writes()
    const at = path === `/${none}` ? `${hook}/deliveries${path}` : path
    const headers = { 'content-type': JSON_TYPE, ...asking?.headers }
    const given = { ...asking, ...(asking?.body === undefined ? {} : { headers }) }
    expect(problemIn(await ask(bed.server, at, { key: bed.key, ...given }))).toEqual(want)
    expect(writes()).toBe(before)
  })

  test('is refused without a key, and with one that is none', async () => {
    for (const key of [undefined, 'no-key'])
      expect(problemIn(await ask(bed.server, HOOKS, { key }))).toEqual([401, 'unauthenticated'])
  })
})

/** Of what a request is for; reviews are on the way to that, and a Lease is renewed in any case. */
function isWrite({ method, path }: FrontRequest): boolean {
  return method !== 'GET' && !path.endsWith('reviews') && !path.includes('/leases')
}

function failure(code: number, reason: string): FrontAnswer {
  const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message: INSIDE }
  return { status: code, headers: { 'content-type': JSON_TYPE }, body: JSON.stringify(status) }
}

const TROUBLES: { what: string; answer: FrontAnswer; want: [number, string] }[] = [
  { what: 'fails', answer: failure(500, 'InternalError'), want: [503, 'unavailable'] },
  { what: 'has too much to do', answer: failure(429, 'TooManyRequests'), want: [503, 'overloaded'] },
  { what: 'forbids it to Davit', answer: failure(403, 'Forbidden'), want: [503, 'overloaded'] },
  {
    what: 'is a proxy that says something else',
    answer: { status: 502, body: `<html>${INSIDE}` },
    want: [503, 'unavailable'],
  },
  { what: 'says what nobody understands', answer: { status: 201, body: INSIDE }, want: [503, 'unavailable'] },
]

describe('an API server that', () => {
  test.each(TROUBLES)('$what is nothing that a client is told about', async ({ answer, want }) => {
    const isCreate = ({ method, path }: FrontRequest) =>
      method === 'POST' && path.endsWith('/webhookendpoints')
    const end = bed.front.answer(isCreate, answer, Number.POSITIVE_INFINITY)
    const refused = await bed.post(HOOKS, DRAFT)
    end()
    expect(problemIn(refused)).toEqual(want)
  })
})

test('an endpoint that is stored in a form that cannot be used is refused as that, and can be deleted', async () => {
  // As a version of tomorrow may have stored it.
  await installLooseCrds(bed.davit.controlPlane)
  const metadata = { name: 'odd', namespace: ORGANIZATION }
  const odd = { apiVersion: API_VERSION, kind: 'WebhookEndpoint', metadata, spec: { url: { of: INSIDE } } }
  await until(
    async () => await bed.davit.api.create(webhookEndpoints, odd).catch(() => undefined),
    () => 'the cluster does not take it',
  )
  const path = `${HOOKS}/whe_odd`
  for (const asking of [{}, { method: 'PATCH', body: '{"ordered":true}' }, post('{}')] as const) {
    const at = 'method' in asking && asking.method === 'POST' ? `${path}/secret/roll` : path
    expect(problemIn(await ask(bed.server, at, { key: bed.key, ...asking }))).toEqual([409, 'unreadable'])
  }
  expect((await ask(bed.server, path, { method: 'DELETE', key: bed.key })).status).toBe(204)
  expect(problemIn(await ask(bed.server, path, { key: bed.key }))).toEqual([404, 'not_found'])
})
