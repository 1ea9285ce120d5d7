import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Dialled, watchDialling } from '../../../test/support/dialled.ts'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { LOOPBACK_HOSTS } from '../../../test/support/receiver-hosts.ts'
import { type RawReceiver, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { ForbiddenAddressError } from '../../net/dial.ts'
import { createAddressPolicy } from '../../net/egress-policy.ts'
import type { NameServer } from '../../net/resolver.ts'
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
  return { resolve4: next('A'), resolve6: next('AAAA') }
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
  { name: 'upper case', url: 'HTTP://Hooks.Example:PORT/' },
  { name: 'mixed case and a dot at the end', url: 'hTTp://hooks.EXAMPLE.:PORT/' },
  { name: 'a dot at the end', url: 'http://hooks.example.:PORT/' },
])('$name names the same receiver', async ({ url }) => {
  const asked: string[] = []
  const answers = dns(['127.0.0.3'])
  const nameServer: NameServer = {
    ...answers,
    resolve4: (name) => {
      asked.push(name)
      return answers.resolve4(name)
    },
  }
  const outcome = await sender(['127.0.0.0/8'], nameServer).send(
    request(url.replace('PORT', String(everywhere.port))),
  )
  expect(outcome).toMatchObject({ code: 200 })
  expect(asked).toEqual(['hooks.example'])
  expect(dialled.addresses).toEqual(['127.0.0.3'])
})

test.each(['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1'])(
  'a name with a dot at the end that resolves to %s is blocked, and nothing is dialled',
  async (address) => {
    for (const url of ['https://hooks.example./', 'HTTPS://HOOKS.EXAMPLE./', 'https://hooks.example.:8443/'])
      expect(await sender([], dns([address])).send(request(url))).toEqual(BLOCKED)
    expect(dialled.addresses).toEqual([])
  },
)

test.each([
  { name: 'plain http', url: 'http://hooks.example/' },
  { name: 'a cluster-internal name', url: 'https://hooks.acme.svc/' },
  { name: 'a single label', url: 'https://hooks/' },
  { name: 'a cluster-internal name with a dot at the end', url: 'https://hooks.acme.svc./' },
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
    return { resolve4: fail, resolve6: fail }
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

describe('whether a name exists inside of the cluster cannot be found out', () => {
  const IN_CLUSTER = new Map([
    ['kubernetes.default.svc.cluster.local', ['10.96.0.1']],
    ['vault.corp.internal', ['10.0.0.9']],
    ['printer.local', ['192.168.0.9']],
    ['nas', ['192.168.0.8']],
    ['receiver.acme.svc.cluster.local', ['127.0.0.3']],
  ])

  /** Each question takes a while, as it does on a network. */
  function clusterDns(upstream = 'ENOTFOUND'): NameServer {
    const noSuchName = (name: string) => {
      const code = name.endsWith('.cluster.local') ? 'ENOTFOUND' : upstream
      return Promise.reject(Object.assign(new Error('no'), { code }))
    }
    return {
      resolve4: async (name) => {
        clock.advance(3)
        return IN_CLUSTER.get(name) ?? (await noSuchName(name))
      },
      resolve6: noSuchName,
      machineNames: async () => ({
        hosts: new Map([['gateway', ['192.168.0.1']]]),
        search: ['davit.svc.cluster.local', 'svc.cluster.local', 'cluster.local'],
        ndots: 5,
      }),
    }
  }

  async function shown(host: string, allowed = ['127.0.0.0/8'], upstream?: string) {
    const outcome = await sender(allowed, clusterDns(upstream)).send(request(`https://${host}/`))
    if (outcome.kind !== 'failure') throw new Error(`${host} responded`)
    const { class: _, ...rest } = outcome
    return rest
  }

  test.each([
    { exists: 'kubernetes.default.svc.cluster.local', not: 'nobody.default.svc.cluster.local' },
    { exists: 'kubernetes.default.svc.cluster.local.', not: 'nobody.default.svc.cluster.local.' },
    { exists: 'kubernetes.default.svc', not: 'nobody.default.svc' },
    { exists: 'kubernetes.default', not: 'nobody.default' },
    { exists: 'vault.corp.internal', not: 'nobody.corp.internal' },
    { exists: 'printer.local', not: 'nobody.local' },
    { exists: 'nas', not: 'nobody' },
    { exists: 'gateway', not: 'nobody' },
  ])('$exists, which does, reads like $not, which does not', async ({ exists, not }) => {
    expect(await shown(exists)).toEqual(await shown(not))
    // And so it does where no network is allowed: most of these names are then rejected as they are.
    expect(await shown(exists, [])).toEqual(await shown(not, []))
    expect(dialled.addresses).toEqual([])
  })

  describe.each(['ESERVFAIL', 'EREFUSED', 'ETIMEOUT'])('nor while the upstream DNS says %s', (upstream) => {
    test.each([
      { exists: 'kubernetes.default.svc.cluster.local', not: 'nobody.default.svc.cluster.local' },
      { exists: 'kubernetes.default.svc', not: 'nobody.default.svc' },
      { exists: 'kubernetes.default', not: 'nobody.default' },
      { exists: 'gateway', not: 'nobody' },
    ])('the one that exists reads the same: $exists', async ({ exists, not }) => {
      const { latencyMs: _, ...found } = await shown(exists, undefined, upstream)
      const { latencyMs: __, ...unknown } = await shown(not, undefined, upstream)
      expect(found).toEqual(unknown)
      expect(dialled.addresses).toEqual([])
    })

    test('one at an allowed address is reached', async () => {
      const send = sender(['127.0.0.0/8'], clusterDns(upstream))
      for (const host of ['receiver.acme', 'receiver.acme.svc'])
        expect(await send.send(request(`http://${host}:${everywhere.port}/`))).toMatchObject({ code: 200 })
    })
  })

  test('names that only public DNS can have say that they do not exist', async () => {
    for (const host of ['nobody.example.com', 'nobody.example.com.', 'nobody.example'])
      expect(await shown(host)).toMatchObject({ error: 'host name does not resolve' })
  })

  test('one at an allowed address is reached', async () => {
    const send = sender(['127.0.0.0/8'], clusterDns())
    for (const host of ['receiver.acme', 'receiver.acme.svc', 'receiver.acme.svc.cluster.local.'])
      expect(await send.send(request(`http://${host}:${everywhere.port}/`))).toMatchObject({ code: 200 })
  })

  test('the metrics tell them apart', async () => {
    const send = sender(['127.0.0.0/8'], clusterDns())
    const classOf = async (host: string) => await send.send(request(`https://${host}/`))
    expect(await classOf('kubernetes.default.svc')).toMatchObject({ class: 'blocked' })
    expect(await classOf('nobody.default.svc')).toMatchObject({ class: 'dns' })
    expect(await classOf('kubernetes.default')).toMatchObject({ class: 'blocked' })
    expect(await classOf('nobody.default')).toMatchObject({ class: 'dns' })
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
  const running = sender([], { resolve4: never, resolve6: never }).send(request('https://slow.example/'))
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
    queryName: '127.0.0.1',
    port: everywhere.port,
    path: '/',
    isInternalName: false,
    internal: true,
  }
  const error = await new Promise((resolve) => dial(target, resolve))
  expect(error).toBeInstanceOf(ForbiddenAddressError)
  expect(dialled.addresses).toEqual([])
})

test.each([
  {
    what: 'its own address, where it has one',
    addresses: ['127.0.0.1'],
    error: undefined,
    want: '127.0.0.1',
  },
  {
    what: 'that of the machine, where it has none',
    addresses: [],
    error: { code: 'ENOTFOUND' },
    want: '127.0.0.2',
  },
  {
    what: 'that of the machine, where DNS fails',
    addresses: [],
    error: { code: 'ETIMEOUT' },
    want: '127.0.0.2',
  },
])(
  'a public name that the search list knows first is dialed at $what',
  async ({ addresses, error, want }) => {
    const policy = createAddressPolicy({ allowed: ['127.0.0.0/8'] })
    const asWritten = Promise.resolve({ addresses, error })
    const found = { addresses: ['127.0.0.2'], isMachineName: true as const, asWritten }
    const dial = createDialTarget(policy, async () => found, undefined)
    const target = {
      origin: '',
      secure: false,
      hostname: 'hooks.example.com',
      queryName: 'hooks.example.com',
      port: everywhere.port,
      path: '/',
      isInternalName: false,
      internal: true,
    }
    await new Promise((resolve) => dial(target, resolve))
    expect(dialled.addresses.at(-1)).toBe(want)
  },
)

test('a connection that ends up elsewhere than at a vetted address is given up', async () => {
  const policy = createAddressPolicy({ allowed: ['127.0.0.1/32'] })
  const found = { addresses: ['127.0.0.1'], isMachineName: false as const }
  const dial = createDialTarget(policy, async () => found, undefined)
  const target = {
    origin: '',
    secure: false,
    hostname: 'x.example',
    queryName: 'x.example',
    port: everywhere.port,
    path: '/',
    isInternalName: false,
    internal: true,
  }
  const settled = await new Promise<unknown[]>((resolve) => {
    const socket = dial(target, (...result) => resolve(result))
    Object.defineProperty(socket, 'remoteAddress', { value: '10.0.0.1' })
  })
  expect(settled).toEqual([expect.any(ForbiddenAddressError), null])
})
