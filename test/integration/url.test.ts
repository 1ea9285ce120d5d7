/** Where webhooks may go (interface §2.3; settled, "Events and deliveries"). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { conditionOf, hasCondition } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { createTestAuthority } from '../support/tls.ts'

const authority = createTestAuthority()
const NAMES = ['inside.example.com', 'outside.example.com', 'both.example.com', 'moves.example.com']
/** What DNS says; a name without an entry does not exist. */
const addresses = new Map<string, string[]>()

let davit: TestDavit
/** In the network that the operator allows, by http and by https; and one outside of it. */
let allowed: Receiver
let secure: Receiver
let forbidden: Receiver

beforeAll(async () => {
  const tls = authority.issue(NAMES)
  allowed = await startReceiver({ host: '127.0.0.2' })
  secure = await startReceiver({ host: '127.0.0.2', tls })
  // Without TLS it sees every connection, and not only those that come to a handshake.
  forbidden = await startReceiver({ host: '127.0.0.1' })
  addresses.set('inside.example.com', ['127.0.0.2'])
  addresses.set('outside.example.com', ['127.0.0.1'])
  addresses.set('both.example.com', ['127.0.0.2', '127.0.0.1'])
  davit = await startDavit('url', {
    env: { DAVIT_ALLOWED_NETWORKS: '127.0.0.2/32' },
    ca: authority.ca,
    nameServer: { resolve4: resolve, resolve6: notFound },
  })
})

afterAll(async () => {
  await davit?.stop()
  for (const receiver of [allowed, secure, forbidden]) await receiver?.close()
})

async function resolve(hostname: string): Promise<string[]> {
  return addresses.get(hostname) ?? (await notFound())
}

async function notFound(): Promise<string[]> {
  throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
}

/** The result of the first attempt of an event to an endpoint with this URL. */
async function firstAttempt(name: string, url: string): Promise<WebhookDelivery | undefined> {
  const type = await ownEventType(davit)
  await davit.endpoint(name, { url, eventTypes: [type] })
  await davit.publish(type, {})
  const [delivery] = await driveToAttempt(davit, name, 1)
  return delivery
}

describe('a literal address', () => {
  test.each([
    ['https://127.0.0.1/hooks', 'the address 127.0.0.1 is not public (loopback)'],
    ['https://2130706433/hooks', 'the address 127.0.0.1 is not public (loopback)'],
    ['https://10.1.2.3/hooks', 'the address 10.1.2.3 is not public (private)'],
    ['https://169.254.169.254/latest', 'the address 169.254.169.254 is not public (link-local)'],
    ['https://[::1]:8443/', 'the address ::1 is not public (loopback)'],
    ['https://[fd00::1]/', 'the address fd00::1 is not public (unique local)'],
    ['https://[::ffff:10.0.0.1]/', 'is not public'],
  ])('that is forbidden is refused with the reason: %s', async (url, reason) => {
    const name = `literal-${url.replaceAll(/[^a-z0-9]+/g, '-').slice(8, 40)}x`
    const { endpoint } = await davit.endpoint(name, { url, eventTypes: [await ownEventType(davit)] })
    for (const [type, status] of [
      ['Ready', 'False'],
      ['Stalled', 'True'],
    ] as const) {
      expect(conditionOf(endpoint, type)).toMatchObject({ status, reason: 'UrlNotAllowed' })
      expect(conditionOf(endpoint, type)?.message).toMatch(/^spec\.url is not allowed: .*\.$/)
      expect(conditionOf(endpoint, type)?.message).toContain(reason)
    }
  })

  test('that is forbidden gets nothing, not even a connection; another URL mends it', async () => {
    const before = forbidden.connections()
    const delivery = await firstAttempt('mended', `https://127.0.0.1:${forbidden.port}/mended`)
    expect(delivery?.status).toMatchObject({ state: 'retrying', attemptCount: 1 })
    expect(delivery?.status?.attempts).toMatchObject([{ error: 'connection refused' }])
    expect(forbidden.connections()).toBe(before)
    await davit.patchSpec('mended', { url: `${allowed.url}/mended` })
    await davit.endpointWhen('mended', (object) => hasCondition(object, 'Ready', { status: 'True' }))
    const [ended] = await driveToEnd(davit, 'mended')
    expect(ended?.status).toMatchObject({ state: 'succeeded', attemptCount: 2 })
    expect(allowed.received('/mended')).toHaveLength(1)
  })
})

describe('plain http', () => {
  test('goes to a network that the operator allows, by its address and by a name', async () => {
    const literal = await firstAttempt('http-literal', `${allowed.url}/http-literal`)
    const named = await firstAttempt('http-name', `http://inside.example.com:${allowed.port}/http-name`)
    expect([literal, named].map((delivery) => delivery?.status?.state)).toEqual(['succeeded', 'succeeded'])
    expect(hasCondition(await davit.endpointWhen('http-name', () => true), 'Ready', { status: 'True' })).toBe(
      true,
    )
  })

  test('is refused with the reason towards a public address', async () => {
    const url = 'http://93.184.215.14/hooks'
    const { endpoint } = await davit.endpoint('http-public', { url, eventTypes: [await ownEventType(davit)] })
    expect(conditionOf(endpoint, 'Ready')).toMatchObject({
      status: 'False',
      reason: 'UrlNotAllowed',
      message: expect.stringContaining('must start with https://'),
    })
  })

  test('to a name whose address is not in an allowed network looks like a refused connection', async () => {
    addresses.set('public.example.com', ['93.184.215.14'])
    const delivery = await firstAttempt('http-dns', 'http://public.example.com/hooks')
    expect(delivery?.status?.attempts).toMatchObject([{ error: 'connection refused' }])
    expect(conditionOf(await davit.endpointWhen('http-dns', () => true), 'Ready')).toMatchObject({
      status: 'True',
      reason: 'Accepted',
      message: expect.stringContaining('Davit sends plain HTTP only to networks'),
    })
    await davit.eventSeen('http-dns', 'PlainHttp')
  })
})

describe('what only DNS shows', () => {
  test('looks like a refused connection, and there is none', async () => {
    const before = forbidden.connections()
    const outside = await firstAttempt('dns', `https://outside.example.com:${forbidden.port}/`)
    const both = await firstAttempt('dns-2', `https://both.example.com:${forbidden.port}/`)
    // A port without a listener: 1 needs rights that no test has.
    const really = await firstAttempt('dns-refused', 'https://inside.example.com:1/')
    const shown = [outside, both, really].map((delivery) => {
      const { at, latencyMs, ...words } = delivery?.status?.attempts?.[0] ?? { at: '', latencyMs: 0 }
      return words
    })
    expect(shown[2]).toEqual({ error: 'connection refused' })
    expect(shown).toEqual([shown[2], shown[2], shown[2]])
    expect(forbidden.connections()).toBe(before)
    for (const name of ['dns', 'dns-2', 'dns-refused']) {
      const object = await davit.endpointWhen(name, () => true)
      expect(conditionOf(object, 'Ready')).toMatchObject({ status: 'True', reason: 'Accepted' })
    }
  })

  test('is looked at for each connection: a name that moves is followed only where it may go', async () => {
    const path = '/moves'
    secure.answer(path, { status: 500, headers: { connection: 'close' } }, { status: 200 })
    addresses.set('moves.example.com', ['127.0.0.2'])
    const before = forbidden.connections()
    const first = await firstAttempt('moves', `https://moves.example.com:${secure.port}${path}`)
    expect(first?.status?.attempts).toMatchObject([{ code: 500 }])
    addresses.set('moves.example.com', ['127.0.0.1'])
    await driveToAttempt(davit, 'moves', 2)
    addresses.set('moves.example.com', ['127.0.0.2'])
    const [ended] = await driveToEnd(davit, 'moves')
    expect(ended?.status?.attempts?.map(({ code, error }) => code ?? error)).toEqual([
      500,
      'connection refused',
      200,
    ])
    expect(forbidden.connections()).toBe(before)
  })
})

test('a URL that is changed between attempts is used at the next one', async () => {
  allowed.answer('/before', { status: 500 })
  const first = await firstAttempt('changed', `${allowed.url}/before`)
  await davit.patchSpec('changed', { url: `https://inside.example.com:${secure.port}/after` })
  await davit.endpointWhen('changed', ({ status }) => status?.observedGeneration === 2)
  const [ended] = await driveToEnd(davit, 'changed')
  expect(ended?.status).toMatchObject({ state: 'succeeded', attemptCount: 2 })
  expect(allowed.received('/before')).toHaveLength(1)
  const [request] = secure.received('/after')
  expect(request?.headers['webhook-id']).toBe(first?.spec.deliveryId)
})

test.each([301, 302, 303, 307, 308])(
  'a redirect with %i is a failed attempt, and is not followed',
  async (status) => {
    const path = `/redirect-${status}`
    allowed.answer(path, { status, headers: { location: `${allowed.url}/elsewhere` } })
    const delivery = await firstAttempt(`redirect-${status}`, allowed.url + path)
    expect(delivery?.status).toMatchObject({ state: 'retrying', attemptCount: 1 })
    expect(delivery?.status?.attempts).toMatchObject([{ code: status }])
    await passBy(davit, allowed)
    expect(allowed.received('/elsewhere')).toHaveLength(0)
  },
)
