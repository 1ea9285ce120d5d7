import { afterAll, beforeAll, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import {
  type Asking,
  ask,
  type BedOptions,
  KEYS,
  ORGANIZATION,
  openServerBed,
  type ServerBed,
} from '../../../test/support/server-bed.ts'
import { ApiError } from '../../kube/client.ts'
import { DirectRoutes } from './app.ts'
import { Problem } from './problems.ts'
import type { Route } from './route.ts'

/** Both ways have to give the same: Express takes the requests whose URL has an escape, which means the same. */

const handle = async () => undefined
const routeOf = (method: 'get' | 'post', path: string, direct?: boolean) =>
  ({ method, path, ...(direct === undefined ? {} : { direct }) }) as Route
const routes = new DirectRoutes(
  new Map([
    [routeOf('post', '/events', true), handle],
    [routeOf('post', '/events/batch', true), handle],
    [routeOf('get', '/events'), handle],
    [routeOf('post', '/webhooks'), handle],
  ]),
)

test.each([
  ['POST', '/organizations/acme/events', 'acme'],
  ['POST', '/organizations/a-1/events/batch', 'a-1'],
  ['POST', `/organizations/${'a'.repeat(63)}/events`, 'a'.repeat(63)],
  ['GET', '/organizations/acme/events', undefined],
  ['HEAD', '/organizations/acme/events', undefined],
  ['post', '/organizations/acme/events', undefined],
  [undefined, '/organizations/acme/events', undefined],
  ['POST', undefined, undefined],
  ['POST', '/organizations/acme/webhooks', undefined],
  ['POST', '/organizations/acme/events/', undefined],
  ['POST', '/organizations/acme//events', undefined],
  ['POST', '//organizations/acme/events', undefined],
  ['POST', '/organizations//events', undefined],
  ['POST', '/organizations/acme/events?', undefined],
  ['POST', '/organizations/acme/events?a=b', undefined],
  ['POST', '/organizations/acme/events#a', undefined],
  ['POST', '/organizations/acme/events/batch/more', undefined],
  ['POST', '/organizations/%61cme/events', undefined],
  ['POST', '/organizations/acme/%65vents', undefined],
  ['POST', '/organizations/acme/Events', undefined],
  ['POST', '/Organizations/acme/events', undefined],
  ['POST', '/organizations/ACME/events', undefined],
  ['POST', '/organizations/./events', undefined],
  ['POST', '/organizations/../events', undefined],
  ['POST', '/organizations/acme/../acme/events', undefined],
  ['POST', '/organizations/acme/events\n', undefined],
  ['POST', 'http://host/organizations/acme/events', undefined],
  ['POST', `/organizations/${'a'.repeat(64)}/events`, undefined],
])('%s %s is of the organization %s, or left to Express', (method, url, want) => {
  expect(routes.find(method, url)?.organization).toBe(want)
})

type Sent = Asking & { organization?: string; path: string; failWith?: unknown; replayed?: boolean }

/** Two servers in the same state: one is asked directly, the other through Express. */
async function openBoth(options: BedOptions = {}) {
  const open = () => openServerBed({ ...options, clock: new FakeClock() })
  const beds = [await open(), await open()] as const
  const escaped = (text: string) => text.replace(/^./, (first) => `%${Buffer.from(first).toString('hex')}`)
  const one = async (bed: ServerBed, organization: string, sent: Sent) => {
    bed.services.failWith = sent.failWith
    bed.services.replayed = sent.replayed ?? false
    const { status, headers, text } = await ask(bed, `/organizations/${organization}${sent.path}`, sent)
    const names = [...headers].filter(([name]) => name !== 'x-request-id' && name !== 'date')
    const response = { status, headers: names, body: text.replaceAll(/"req_\w{20}"/g, '"req_"') }
    expect(headers.get('x-request-id')).toMatch(/^req_\w{20}$/)
    return { response, asked: bed.services.asked.splice(0), answered: bed.answered.splice(0) }
  }
  const askBoth = async (sent: Sent) => {
    const { organization = ORGANIZATION } = sent
    const direct = await one(beds[0], organization, sent)
    const matched = await one(beds[1], escaped(organization), sent)
    expect(direct).toEqual(matched)
    const [own, other] = beds.map(({ logged }) =>
      logged.splice(0).map(({ message, fields }) => [message, fields?.code, fields?.route]),
    )
    expect(own).toEqual(other)
    return direct.response
  }
  return { askBoth, close: () => Promise.all(beds.map((bed) => bed.close())) }
}

let shared: Awaited<ReturnType<typeof openBoth>>
beforeAll(async () => {
  shared = await openBoth()
})
afterAll(() => shared.close())

const key = KEYS.owner
const event = { type: 'environment.started', data: { n: 1 } }
const post = (body: unknown, more: Partial<Sent> = {}): Sent => ({
  path: '/events',
  method: 'POST',
  key,
  body: typeof body === 'string' ? body : JSON.stringify(body),
  ...more,
})
const headers = (given: Record<string, string>) => ({ headers: given })
const batch = (count: number, more: Partial<Sent> = {}) =>
  post({ events: Array.from({ length: count }, () => event) }, { path: '/events/batch', ...more })

test.each<[number, string, Sent]>([
  [202, 'an event', post(event)],
  [202, 'an event with odd digits', post('{"type":"a.b","data":{"n":9007199254740993,"f":1.0 }}')],
  [202, 'a batch', batch(3)],
  [202, 'a replayed event', post(event, { replayed: true, ...headers({ 'idempotency-key': 'k-1' }) })],
  [202, 'an id', post({ ...event, id: 'k-1' })],
  [401, 'no token', post(event, { key: undefined })],
  [401, 'a token with a scheme', post(event, { key: `Bearer ${key}` })],
  [401, 'an expired token', post(event, { key: KEYS.expired })],
  [401, 'an invented token', post(event, { key: KEYS.invented })],
  [202, 'a publisher', post(event, { key: KEYS.publisher })],
  [403, 'a viewer', post(event, { key: KEYS.viewer })],
  [404, 'the owner of another organization', post(event, { key: KEYS.otherOwner })],
  [404, 'an organization that does not exist', post(event, { organization: 'nowhere' })],
  [404, 'no DNS label', post(event, { organization: '-' })],
  [400, 'no body', { path: '/events', method: 'POST', key }],
  [400, 'no JSON', post('{"type":')],
  [400, 'a duplicate member', post('{"type":"a.b","type":"a.b","data":1}')],
  [415, 'another type', post(event, headers({ 'content-type': 'text/plain' }))],
  [415, 'an encoding', post(event, headers({ 'content-encoding': 'gzip' }))],
  [413, 'a body that is too large', post({ ...event, data: 'a'.repeat(256 * 1024) })],
  [422, 'no data', post({ type: 'a.b' })],
  [422, 'an unknown member', post({ ...event, more: 1 })],
  [422, 'two idempotency keys', post({ ...event, id: 'a' }, headers({ 'idempotency-key': 'b' }))],
  [400, 'an invalid idempotency key', post(event, headers({ 'idempotency-key': 'a b' }))],
  [422, 'an empty batch', batch(0)],
  [422, 'a batch that is too long', batch(501)],
  [409, 'a conflict', post(event, { failWith: new Problem('idempotency_conflict') })],
  [503, 'a full log', post(event, { failWith: new Problem('intake_full', { retryAfter: 7 }) })],
  [503, 'no API server', post(event, { failWith: new ApiError('Unavailable', 'dial tcp 10.0.0.1') })],
  [500, 'a defect', post(event, { failWith: new TypeError('a is not a function') })],
  [202, 'a query without parameters', post(event, { path: '/events?' })],
  [422, 'a query', post(event, { path: '/events?a=b' })],
  [404, 'a slash at the end', post(event, { path: '/events/' })],
  [405, 'a method', { path: '/events', method: 'PUT', key }],
])('%i for %s, both ways', async (status, _what, sent) => {
  expect((await shared.askBoth(sent)).status).toBe(status)
})

test('limits are the same, also of a batch, which counts as all of its events', async () => {
  const { askBoth, close } = await openBoth({ limits: { perKey: 8, perOrganization: 6 } })
  const statuses = []
  for (const sent of [post(event), batch(3), batch(3), post(event), post(event), post(event)])
    statuses.push((await askBoth(sent)).status)
  expect(statuses).toEqual([202, 202, 429, 202, 429, 429])
  await close()
})

test('a server that takes no more requests says so, both ways', async () => {
  const { askBoth, close } = await openBoth({ limits: { requests: 0 } })
  expect((await askBoth(post(event))).status).toBe(503)
  await close()
})

test('whatever is sent, both ways give the same', async () => {
  const organization = fc.oneof(
    { weight: 4, arbitrary: fc.constant(ORGANIZATION) },
    { weight: 1, arbitrary: fc.constantFrom('umbrella', 'nowhere', 'ACME', 'a.b', '-', 'a'.repeat(70)) },
  )
  const body = fc.oneof(
    fc
      .record({ type: fc.constantFrom('environment.started', 'a.b', 'A', ''), data: fc.jsonValue() })
      .map(toJson),
    fc
      .array(fc.record({ type: fc.constant('a.b'), data: fc.jsonValue() }), { maxLength: 4 })
      .map((events) => toJson({ events })),
    fc.json(),
    fc.string({ maxLength: 20 }),
  )
  const headerOf = (values: readonly string[]) => fc.option(fc.constantFrom(...values), { nil: undefined })
  const request = fc.record({
    organization,
    path: fc.constantFrom('/events', '/events/batch', '/events?x=1', '/events/', '/events/batch/'),
    method: fc.constantFrom('POST', 'POST', 'POST', 'GET', 'PUT', 'DELETE'),
    key: fc.constantFrom(...Object.values(KEYS), undefined, 'a.b', 'Basic x'),
    body,
    type: headerOf(['text/plain', 'application/json; charset=utf-8', 'application/json; charset=latin1']),
    idempotencyKey: headerOf(['k-1', 'a b', 'a'.repeat(256)]),
  })
  await fc.assert(
    fc.asyncProperty(request, async ({ body, type, idempotencyKey, ...sent }) => {
      const given = {
        ...(type === undefined ? {} : { 'content-type': type }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      }
      await shared.askBoth({ ...sent, headers: given, ...(sent.method === 'GET' ? {} : { body }) })
    }),
    { numRuns: 200 },
  )
})

function toJson(value: unknown): string {
  return JSON.stringify(value)
}
