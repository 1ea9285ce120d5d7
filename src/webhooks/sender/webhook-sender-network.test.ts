import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Dialled, watchDialling } from '../../../test/support/dialled.ts'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { LOOPBACK_HOSTS } from '../../../test/support/receiver-hosts.ts'
import { type RawReceiver, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { ForbiddenAddressError, type NameServer } from '../../net/dial.ts'
import { createAddressPolicy } from '../../net/egress-policy.ts'
import { createDialTarget } from './connections.ts'
import type { SendRequest } from './send-failures.ts'
import { createWebhookSender } from './sender.ts'

const clock = new FakeClock()

/** On all addresses of this machine, so that no spelling of it can be reached unseen. */
let everywhere: RawReceiver
beforeAll(async () => {
  everywhere = await startRawReceiver(
    (socket) => socket.on('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')),
    { host: '::' },
  )
})
afterAll(() => everywhere.close())

/** Every address that this process tries to connect to. */
let dialled: Dialled
beforeEach(() => {
  dialled = watchDialling()
})

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  dialled.stop()
  for (const closable of toClose.splice(0)) await closable.close()
})

/** DNS with one name; each question takes the next answer, the last one stays. */
function dns(...answers: string[][]): NameServer {
  let asked = 0
  const next = (family: string) => async () => {
    const answer = answers[Math.min(asked, answers.length - 1)] ?? []
    if (family === 'AAAA') asked += 1
    const found = answer.filter((address) => address.includes(':') === (family === 'AAAA'))
    if (found.length > 0) return found
    throw Object.assign(new Error('no data'), { code: 'ENODATA' })
  }
  return { resolve4: next('A'), resolve6: next('AAAA'), lookup: () => Promise.reject(new Error('not asked')) }
}

function sender(allowedNetworks: string[], nameServer: NameServer = dns([])) {
  const created = createWebhookSender({ networks: { allowed: allowedNetworks }, clock, nameServer })
  toClose.push(created)
  return created
}

function request(url: string): SendRequest {
  return { url, headers: {}, body: Buffer.from('{}'), deadlineMs: 20_000 }
}

const BLOCKED = {
  kind: 'failure',
  class: 'blocked',
  error: 'connection refused',
  latencyMs: expect.any(Number),
}

test('the counter of this file sees a connection that is allowed', async () => {
  const before = everywhere.connections()
  const outcome = await sender(['127.0.0.0/8']).send(request(`http://127.0.0.1:${everywhere.port}/`))
  expect(outcome).toMatchObject({ code: 200 })
  expect(everywhere.connections()).toBe(before + 1)
  expect(dialled.addresses).toEqual(['127.0.0.1'])
})

test.each(LOOPBACK_HOSTS)('%s is blocked, and nothing is dialled, by https and by http', async (host) => {
  const before = everywhere.connections()
  const send = sender([])
  for (const scheme of ['https', 'http']) {
    expect(await send.send(request(`${scheme}://${host}:${everywhere.port}/`))).toEqual(BLOCKED)
  }
  expect(dialled.addresses).toEqual([])
  expect(everywhere.connections()).toBe(before)
})

test.each([
  { address: '127.0.0.1' },
  { address: '10.0.0.1' },
  { address: '169.254.169.254' },
  { address: '100.100.100.200' },
  { address: '0.0.0.0' },
  { address: '192.88.99.1' },
  { address: '::1' },
  { address: '::' },
  { address: '::ffff:127.0.0.1' },
  { address: '::7f00:1' },
  { address: '64:ff9b::7f00:1' },
  { address: '64:ff9b:1::7f00:1' },
  { address: '2002:7f00:1::' },
  { address: '2001:0:7f00:1::' },
  { address: 'fd00:ec2::254' },
  { address: 'fec0::1' },
  { address: 'fe80::1' },
])('a name that resolves to $address is blocked, and nothing is dialled', async ({ address }) => {
  const outcome = await sender([], dns([address])).send(request(`https://hooks.example:${everywhere.port}/`))
  expect(outcome).toEqual(BLOCKED)
  expect(dialled.addresses).toEqual([])
})

test('one forbidden address among public ones blocks the name', async () => {
  const send = sender([], dns(['93.184.216.34', '2606:2800:220:1::1', '10.0.0.1']))
  expect(await send.send(request('https://hooks.example/'))).toEqual(BLOCKED)
  expect(dialled.addresses).toEqual([])
})

test('a name that was allowed and now resolves elsewhere is judged anew, and dialled as it was vetted', async () => {
  const send = sender(['127.0.0.1/32'], dns(['127.0.0.1'], ['127.0.0.2'], ['127.0.0.1']))
  const url = `http://rebind.example:${everywhere.port}/`
  expect(await send.send(request(url))).toMatchObject({ code: 200 })
  expect(await send.send(request(url))).toEqual(BLOCKED)
  expect(await send.send(request(url))).toMatchObject({ code: 200 })
  expect(dialled.addresses).toEqual(['127.0.0.1', '127.0.0.1'])
})

test.each([
  { name: 'plain http', url: 'http://hooks.example/' },
  { name: 'a cluster-internal name', url: 'https://hooks.acme.svc/' },
  { name: 'a single label', url: 'https://hooks/' },
  { name: 'a dot at the end', url: 'https://hooks.example./' },
])('$name reaches allowed networks only, not the public one', async ({ url }) => {
  expect(await sender(['10.0.0.0/8'], dns(['93.184.216.34'])).send(request(url))).toEqual(BLOCKED)
  expect(dialled.addresses).toEqual([])
})

test('a name inside an allowed network is reached under its own name', async () => {
  const send = sender(['127.0.0.0/8'], dns(['127.0.0.3']))
  const outcome = await send.send(request(`http://receiver.acme.svc:${everywhere.port}/`))
  expect(outcome).toMatchObject({ code: 200 })
  expect(dialled.addresses).toEqual(['127.0.0.3'])
})

test('where the first address refuses, the next one is tried', async () => {
  const only = await startRawReceiver(
    (socket) => socket.on('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')),
    { host: '127.0.0.5' },
  )
  toClose.push(only)
  const send = sender(['127.0.0.0/8'], dns(['127.0.0.4', '127.0.0.5']))
  expect(await send.send(request(`http://two.example:${only.port}/`))).toMatchObject({ code: 200 })
  expect(dialled.addresses).toEqual(['127.0.0.4', '127.0.0.5'])
})

test('names that do not resolve, and name servers in trouble, are told apart', async () => {
  const failing = (code: string): NameServer => {
    const fail = () => Promise.reject(Object.assign(new Error(code), { code }))
    return { resolve4: fail, resolve6: fail, lookup: fail }
  }
  const outcomeOf = (code: string) => sender([], failing(code)).send(request('https://hooks.example/'))
  expect(await outcomeOf('ENOTFOUND')).toMatchObject({ class: 'dns', error: 'host name does not resolve' })
  expect(await outcomeOf('ESERVFAIL')).toMatchObject({
    class: 'dns',
    error: expect.stringContaining('DNS server failed'),
  })
  expect(await outcomeOf('ETIMEOUT')).toMatchObject({
    class: 'dns',
    error: expect.stringContaining('no response'),
  })
})

test('a name server that never answers ends at the deadline', async () => {
  let asked = () => {}
  const question = new Promise<void>((resolve) => {
    asked = resolve
  })
  const never = () => {
    asked()
    return new Promise<string[]>(() => undefined)
  }
  const running = sender([], { resolve4: never, resolve6: never, lookup: never }).send(
    request('https://slow.example/'),
  )
  await question
  clock.advance(20_000)
  expect(await running).toMatchObject({ class: 'timeout', error: 'no response within 20 s' })
})

test('the dialler judges a literal itself, before the first packet', async () => {
  const dial = createDialTarget(
    createAddressPolicy({ allowed: [] }),
    () => Promise.reject(new Error('not asked')),
    undefined,
  )
  const target = {
    origin: '',
    secure: false,
    hostname: '127.0.0.1',
    port: everywhere.port,
    path: '/',
    internal: true,
  }
  const error = await new Promise((resolve) => dial(target, resolve))
  expect(error).toBeInstanceOf(ForbiddenAddressError)
  expect(dialled.addresses).toEqual([])
})

test('a connection that ends up elsewhere than at a vetted address is given up', async () => {
  const policy = createAddressPolicy({ allowed: ['127.0.0.1/32'] })
  const dial = createDialTarget(policy, async () => ['127.0.0.1'], undefined)
  const target = {
    origin: '',
    secure: false,
    hostname: 'x.example',
    port: everywhere.port,
    path: '/',
    internal: true,
  }
  const settled = await new Promise<unknown[]>((resolve) => {
    const socket = dial(target, (...result) => resolve(result))
    Object.defineProperty(socket, 'remoteAddress', { value: '10.0.0.1' })
  })
  expect(settled).toEqual([expect.any(ForbiddenAddressError), null])
})
