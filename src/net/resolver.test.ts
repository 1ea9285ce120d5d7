import { afterEach, describe, expect, test } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { type Reply, startNameServer } from '../../test/support/name-server.ts'
import { createClock } from '../lib/time.ts'
import {
  createNameServer,
  createResolver,
  type MachineNames,
  type NameServer,
  parseHosts,
  parseNdots,
  parseSearchList,
  type ResolverOptions,
} from './resolver.ts'

function coded(code: string): Error {
  return Object.assign(new Error(code), { code })
}

const NOTHING: MachineNames = { hosts: new Map(), search: [], ndots: 1 }

/** Addresses, the code of the failure, or no answer. */
type Given = string[] | string | 'silence'
type Answers = { v4?: Given; v6?: Given }

/** @param answersOf by name; other names do not exist */
function nameServer(answersOf: Answers | ((name: string) => Answers | undefined), machine = NOTHING) {
  const asked: string[] = []
  const reply = async (kind: 'A' | 'AAAA', name: string) => {
    asked.push(`${kind} ${name}`)
    const answers = typeof answersOf === 'function' ? answersOf(name) : answersOf
    const answer = (kind === 'A' ? answers?.v4 : answers?.v6) ?? 'ENOTFOUND'
    if (answer === 'silence') return await new Promise<string[]>(() => undefined)
    if (typeof answer === 'string') throw coded(answer)
    return answer
  }
  const server: NameServer = {
    resolve4: (name) => reply('A', name),
    resolve6: (name) => reply('AAAA', name),
    async machineNames() {
      asked.push('machine')
      return machine
    },
  }
  return { server, asked }
}

function resolver(server: NameServer, options: Partial<ResolverOptions> = {}) {
  return createResolver({ clock: new FakeClock(), machineNames: false, server, ...options })
}

test.each([
  { given: { v4: ['1.1.1.1', '2.2.2.2'], v6: ['2606::1'] }, want: ['1.1.1.1', '2606::1', '2.2.2.2'] },
  { given: { v4: ['1.1.1.1'], v6: 'ENODATA' }, want: ['1.1.1.1'] },
  { given: { v4: 'ETIMEOUT', v6: ['2606::1'] }, want: ['2606::1'] },
  { given: { v4: ['1.1.1.1', '1.1.1.2', '1.1.1.3', '1.1.1.4', '1.1.1.5', '1.1.1.6', '1.1.1.7'] }, want: 6 },
])('both families are asked for, in turn: $given', async ({ given, want }) => {
  const { addresses } = await resolver(nameServer(given).server)('example.com')
  if (typeof want === 'number') expect(addresses).toHaveLength(want)
  else expect(addresses).toEqual(want)
})

test.each([
  { given: { v4: 'ENOTFOUND', v6: 'ENOTFOUND' }, want: 'ENOTFOUND' },
  { given: { v4: 'ENODATA', v6: 'ESERVFAIL' }, want: 'ESERVFAIL' },
  { given: { v4: 'ETIMEOUT', v6: 'ENODATA' }, want: 'ETIMEOUT' },
  { given: { v4: [], v6: [] }, want: 'ENOTFOUND' },
])('without an address the failure that says most is thrown: $given', async ({ given, want }) => {
  const { server, asked } = nameServer(given)
  await expect(resolver(server)('example.com')).rejects.toMatchObject({ code: want })
  expect(asked).not.toContain('machine')
})

describe('names that DNS does not have as written', () => {
  const machine = {
    hosts: new Map([['receiver.acme', ['10.0.0.1']]]),
    search: ['davit.svc.cluster.local', 'svc.cluster.local', 'cluster.local'],
    ndots: 5,
  }
  const inCluster = (name: string): Answers | undefined =>
    name === 'hooks.billing.svc.cluster.local' ? { v4: ['10.96.0.7'], v6: 'ENODATA' } : undefined

  test('are names of the hosts file, or of a domain of the search list', async () => {
    const resolve = resolver(nameServer(inCluster, machine).server, { machineNames: true })
    expect(await resolve('receiver.acme')).toMatchObject({ addresses: ['10.0.0.1'], isMachineName: true })
    expect(await resolve('hooks.billing')).toMatchObject({ addresses: ['10.96.0.7'], isMachineName: true })
    expect(await resolve('hooks.billing.svc')).toMatchObject({
      addresses: ['10.96.0.7'],
      isMachineName: true,
    })
  })

  test.each([
    { name: 'in DNS: the machine is not asked', hostname: 'hooks.billing.svc.cluster.local', found: true },
    { name: 'with a dot at the end: only as written', hostname: 'hooks.billing.', found: false },
    { name: 'unknown everywhere', hostname: 'nobody.billing', found: false },
  ])('but not if they are $name', async ({ hostname, found }) => {
    const { server } = nameServer(inCluster, machine)
    const result = resolver(server, { machineNames: true })(hostname)
    if (found) expect(await result).toEqual({ addresses: ['10.96.0.7'], isMachineName: false })
    else await expect(result).rejects.toMatchObject({ code: 'ENOTFOUND' })
  })

  test('are looked for in the order of the search list, until one is found', async () => {
    const { server, asked } = nameServer(inCluster, machine)
    await resolver(server, { machineNames: true })('hooks.billing')
    expect(asked.filter((question) => question.startsWith('A '))).toEqual([
      'A hooks.billing',
      'A hooks.billing.davit.svc.cluster.local',
      'A hooks.billing.svc.cluster.local',
    ])
  })

  test('are not looked for any further when nobody needs them', async () => {
    const gone = new AbortController()
    const first = (name: string): Answers | undefined => {
      if (name.endsWith('davit.svc.cluster.local')) gone.abort()
      return undefined
    }
    const { server, asked } = nameServer(first, machine)
    const resolve = resolver(server, { machineNames: true })
    await expect(resolve('hooks.billing', gone.signal)).rejects.toMatchObject({ code: 'ENOTFOUND' })
    expect(asked).not.toContain('A hooks.billing.svc.cluster.local')
  })

  test('are found for another caller after the first one has given up', async () => {
    const { server } = nameServer(inCluster, machine)
    const resolve = resolver(server, { machineNames: true })
    const gone = new AbortController()
    const givenUp = resolve('hooks.billing', gone.signal).catch(() => undefined)
    gone.abort()
    expect(await resolve('hooks.billing')).toMatchObject({ addresses: ['10.96.0.7'] })
    await givenUp
  })

  test('with as many dots as ndots are not looked for because of a name server in trouble', async () => {
    const { server, asked } = nameServer({ v4: 'ESERVFAIL', v6: 'ENOTFOUND' }, { ...machine, ndots: 2 })
    const resolve = resolver(server, { machineNames: true })
    await expect(resolve('a.b.example')).rejects.toMatchObject({ code: 'ESERVFAIL' })
    expect(asked).toEqual(['A a.b.example', 'AAAA a.b.example', 'machine'])
  })
})

describe('a cluster whose DNS has a dead upstream', () => {
  const machine = {
    hosts: new Map([['gateway.corp.example', ['10.0.0.1']]]),
    search: ['davit.svc.cluster.local', 'svc.cluster.local', 'cluster.local', 'corp.example'],
    ndots: 5,
  }
  /** What the DNS of the cluster replies to all but its own names. */
  const clusterWith = (upstream: Answers) =>
    nameServer((name) => {
      if (name === 'hooks.billing.svc.cluster.local') return { v4: ['10.96.0.7'], v6: 'ENODATA' }
      return name.endsWith('.cluster.local') ? undefined : upstream
    }, machine)

  const TROUBLE: readonly Answers[] = [
    { v4: 'ESERVFAIL', v6: 'ESERVFAIL' },
    { v4: 'EREFUSED', v6: 'EREFUSED' },
    { v4: 'ETIMEOUT', v6: 'ETIMEOUT' },
    { v4: 'ENODATA', v6: 'ESERVFAIL' },
    { v4: 'ETIMEOUT', v6: 'ENOTFOUND' },
    { v4: 'silence', v6: 'silence' },
    { v4: 'silence', v6: 'ESERVFAIL' },
  ]

  async function found(hostname: string, upstream: Answers, ms = 1000) {
    const clock = new FakeClock()
    const { server, asked } = clusterWith(upstream)
    const result = resolver(server, { clock, machineNames: true })(hostname).then(
      ({ addresses, isMachineName }) => ({ addresses, isMachineName }),
      (error: NodeJS.ErrnoException) => error.code,
    )
    await clock.elapse(ms)
    return { result: await Promise.race([result, settle().then(() => 'waiting')]), asked }
  }

  describe.each(TROUBLE)('that replies $v4 and $v6', (upstream) => {
    test.each(['hooks.billing', 'hooks.billing.svc'])('finds %s in its search list', async (hostname) => {
      const { result } = await found(hostname, upstream)
      expect(result).toEqual({ addresses: ['10.96.0.7'], isMachineName: true })
    })

    test('finds the names of the hosts file', async () => {
      const { result } = await found('gateway.corp.example', upstream)
      expect(result).toEqual({ addresses: ['10.0.0.1'], isMachineName: true })
    })

    test('finds a whole name at once', async () => {
      const { result, asked } = await found('hooks.billing.svc.cluster.local', upstream, 0)
      expect(result).toEqual({ addresses: ['10.96.0.7'], isMachineName: false })
      expect(asked).not.toContain('machine')
    })
  })

  test.each(TROUBLE)('does not hide its error from unknown names: $v4 and $v6', async (upstream) => {
    const { result } = await found('nobody.billing', upstream)
    const codes = [upstream.v4, upstream.v6]
    if (codes.includes('silence')) expect(result).toBe('waiting')
    else expect(result).toBe(codes.find((code) => code !== 'ENODATA' && code !== 'ENOTFOUND'))
  })

  test('is given a second before the search list is tried', async () => {
    const { result, asked } = await found('hooks.billing', { v4: 'silence', v6: 'silence' }, 999)
    expect(result).toBe('waiting')
    expect(asked).toEqual(['A hooks.billing', 'AAAA hooks.billing'])
  })

  test('may also have a dead domain in the search list', async () => {
    const dead = nameServer(
      (name) => {
        if (name === 'hooks.billing.svc.cluster.local') return { v4: ['10.96.0.7'], v6: 'ENODATA' }
        return name.endsWith('.corp.example') ? { v4: 'ESERVFAIL', v6: 'ETIMEOUT' } : undefined
      },
      { ...machine, search: ['corp.example', 'svc.cluster.local'] },
    )
    const resolve = resolver(dead.server, { machineNames: true })
    expect(await resolve('hooks.billing')).toMatchObject({ addresses: ['10.96.0.7'] })
    await expect(resolve('nobody.billing')).rejects.toMatchObject({ code: 'ENOTFOUND' })
  })

  describe('that is only slow', () => {
    async function slow(answer: Given, search: (name: string) => Answers | undefined = () => undefined) {
      const clock = new FakeClock()
      const late = Promise.withResolvers<string[]>()
      const { server, asked } = nameServer(search, machine)
      const resolve4 = (name: string) => (name === 'hooks.example' ? late.promise : server.resolve4(name))
      const resolve = createResolver({ clock, machineNames: true, server: { ...server, resolve4 } })
      const running = resolve('hooks.example')
      const result = running.catch((error: NodeJS.ErrnoException) => error.code)
      await clock.elapse(1000)
      if (typeof answer === 'string') late.reject(coded(answer))
      else late.resolve(answer)
      await settle()
      return { result: await Promise.race([result, settle().then(() => 'waiting')]), asked }
    }

    test('is waited for after the search list', async () => {
      const { result } = await slow(['1.1.1.1'])
      expect(result).toEqual({ addresses: ['1.1.1.1'], isMachineName: false })
    })

    test('ends the search', async () => {
      const isSilent = (name: string): Answers | undefined =>
        name === 'hooks.example' ? undefined : { v4: 'silence', v6: 'silence' }
      const { result, asked } = await slow(['1.1.1.1'], isSilent)
      expect(result).toMatchObject({ addresses: ['1.1.1.1'] })
      expect(asked).not.toContain('A hooks.example.svc.cluster.local')
    })

    test('has its error thrown', async () => {
      expect((await slow('ESERVFAIL')).result).toBe('ESERVFAIL')
    })
  })
})

test.each([
  { text: '10.0.0.1 receiver receiver.acme\n', name: 'receiver.acme', want: ['10.0.0.1'] },
  { text: '# 10.0.0.1 receiver\n::1 receiver # local\n', name: 'receiver', want: ['::1'] },
  { text: '10.0.0.1\tReceiver\r\n10.0.0.2 receiver', name: 'receiver', want: ['10.0.0.1', '10.0.0.2'] },
  { text: 'receiver 10.0.0.1\n\n', name: 'receiver', want: undefined },
])('a hosts file says of $name: $want', ({ text, name, want }) => {
  expect(parseHosts(text).get(name)).toEqual(want)
})

test.each([
  { text: 'nameserver 10.96.0.10\nsearch a.svc svc\noptions ndots:5\n', want: ['a.svc', 'svc'] },
  { text: 'search a\nsearch b. C\n', want: ['b', 'c'] },
  { text: 'domain example.com\n', want: ['example.com'] },
  { text: '# search a\n;search b\nsearch .\n', want: [] },
  { text: '', want: [] },
])('a resolver configuration has the search list $want', ({ text, want }) => {
  expect(parseSearchList(text)).toEqual(want)
})

test.each([
  { text: 'search a\noptions ndots:5\n', want: 5 },
  { text: 'options timeout:1 ndots:2 attempts:3', want: 2 },
  { text: 'options ndots:2\n options\tndots:3\r\n', want: 3 },
  { text: 'options ndots:99', want: 15 },
  { text: 'options ndots:0', want: 0 },
  { text: '# options ndots:5\noptions xndots:4 ndots:x\nsearch ndots:3', want: 1 },
  { text: '', want: 1 },
])('a resolver configuration has ndots $want: $text', ({ text, want }) => {
  expect(parseNdots(text)).toBe(want)
})

test('localhost is never a question for DNS', async () => {
  const { server, asked } = nameServer({ v4: ['8.8.8.8'] })
  const resolve = resolver(server, { machineNames: true })
  for (const name of ['localhost', 'a.localhost', 'localhost.'])
    expect((await resolve(name)).addresses).toEqual(['127.0.0.1', '::1'])
  expect(asked).toEqual([])
})

test('a burst to one name is one question, and the answer is not kept', async () => {
  const { server, asked } = nameServer({ v4: ['1.1.1.1'] })
  const resolve = resolver(server)
  await Promise.all(Array.from({ length: 100 }, () => resolve('example.com')))
  expect(asked).toEqual(['A example.com', 'AAAA example.com'])
  await resolve('example.com')
  expect(asked).toHaveLength(4)
})

test('200 names whose server hangs do not keep others waiting', async () => {
  const { server } = nameServer((name) =>
    name.startsWith('slow') ? { v4: 'silence', v6: 'silence' } : { v4: ['1.1.1.1'], v6: ['2606::1'] },
  )
  const resolve = resolver(server, { machineNames: true })
  for (let i = 0; i < 200; i += 1) void resolve(`slow-${i}.example`)
  expect((await resolve('fast.example')).addresses).toEqual(['1.1.1.1', '2606::1'])
})

test('names of one organization that are slow to be looked for keep no name of another one waiting', async () => {
  const machine = { hosts: new Map(), search: ['svc.cluster.local'], ndots: 5 }
  const { server, asked } = nameServer((name) => {
    if (/^slow-\d+\.example\.svc/.test(name)) return { v4: 'silence', v6: 'silence' }
    return name === 'receiver.acme.svc.cluster.local' ? { v4: ['10.96.0.7'], v6: 'ENODATA' } : undefined
  }, machine)
  const resolve = resolver(server, { machineNames: true })
  for (let i = 0; i < 200; i += 1) void resolve(`slow-${i}.example`)
  await settle()
  expect(await resolve('receiver.acme')).toMatchObject({ addresses: ['10.96.0.7'] })
  expect(asked).toContain('A slow-199.example.svc.cluster.local')
})

describe('a question without an answer', () => {
  const canReach = (address: string) => !address.startsWith('2606')

  async function foundWithin(ms: number, answers: Answers) {
    const clock = new FakeClock()
    const found = resolver(nameServer(answers).server, { clock, canReach })('example.com').then(
      ({ addresses }) => addresses,
      (error: NodeJS.ErrnoException) => error.code,
    )
    await clock.elapse(ms)
    return await Promise.race([found, settle().then(() => 'waiting')])
  }

  test.each([
    { name: 'IPv6 silent', given: { v4: ['1.1.1.1'], v6: 'silence' }, want: ['1.1.1.1'] },
    { name: 'IPv4 silent', given: { v4: 'silence', v6: ['fd00::1'] }, want: ['fd00::1'] },
    { name: 'no such name, IPv6 silent', given: { v4: 'ENOTFOUND', v6: 'silence' }, want: 'ENOTFOUND' },
  ])('delays the other answer by 50 ms: $name', async ({ given, want }) => {
    expect(await foundWithin(49, given)).toBe('waiting')
    expect(await foundWithin(50, given)).toEqual(want)
  })

  test.each([
    { name: 'the other one has no addresses', given: { v4: 'ENODATA', v6: 'silence' } },
    { name: 'the other one is of a server in trouble', given: { v4: 'ESERVFAIL', v6: 'silence' } },
    { name: 'the other one may know IPv4 only', given: { v4: 'silence', v6: 'ENOTFOUND' } },
    { name: 'this machine cannot reach the other family', given: { v4: 'silence', v6: ['2606::1'] } },
  ])('is waited for if $name', async ({ given }) => {
    expect(await foundWithin(10_000, given)).toBe('waiting')
  })

  test('is asked once, however often the name is looked up', async () => {
    const clock = new FakeClock()
    const { server, asked } = nameServer({ v4: ['1.1.1.1'], v6: 'silence' })
    const resolve = resolver(server, { clock, canReach })
    for (let i = 0; i < 5; i += 1) {
      const found = resolve('example.com')
      await clock.elapse(50)
      expect((await found).addresses).toEqual(['1.1.1.1'])
    }
    expect(asked.filter((question) => question === 'AAAA example.com')).toHaveLength(1)
  })
})

describe('name servers on the network', () => {
  const toClose: { close(): Promise<void> }[] = []
  afterEach(async () => {
    for (const server of toClose.splice(0)) await server.close()
  })

  async function start(replies: { v4?: Reply; v6?: Reply }, count = 1) {
    const servers = await Promise.all(
      Array.from({ length: count }, () =>
        startNameServer(({ type }) => (type === 'A' ? replies.v4 : replies.v6) ?? []),
      ),
    )
    toClose.push(...servers)
    return servers
  }

  async function timed(servers: readonly { address: string }[]) {
    const server = createNameServer(servers.map(({ address }) => address))
    const resolve = createResolver({ clock: createClock(), machineNames: false, server })
    const startedAt = performance.now()
    const { addresses } = await resolve('hooks.example.com')
    return { addresses, ms: performance.now() - startedAt }
  }

  test.each([1, 2, 3])('%d that drop questions for IPv6 cost a moment', async (count) => {
    const { addresses, ms } = await timed(await start({ v4: ['127.0.0.1'], v6: 'silence' }, count))
    expect(addresses).toEqual(['127.0.0.1'])
    expect(ms).toBeLessThan(1500)
  })

  test('that drop questions for IPv4 cost a moment', async () => {
    const { addresses, ms } = await timed(await start({ v4: 'silence', v6: ['::1'] }, 2))
    expect(addresses).toEqual(['::1'])
    expect(ms).toBeLessThan(1500)
  })

  test('of which the first drops questions for IPv6 and the second fails cost a moment', async () => {
    const first = await start({ v4: ['127.0.0.1'], v6: 'silence' })
    const second = await start({ v4: 'SERVFAIL', v6: 'SERVFAIL' })
    const { addresses, ms } = await timed([...first, ...second])
    expect(addresses).toEqual(['127.0.0.1'])
    expect(ms).toBeLessThan(1500)
  })

  test.each(['REFUSED', 'SERVFAIL', 'NOTIMP', 'FORMERR'] as const)(
    'of which the first says %s leave the question to the second',
    async (code) => {
      const first = await start({ v4: code, v6: code })
      const second = await start({ v4: ['127.0.0.1'], v6: ['::1'] })
      const { addresses } = await timed([...first, ...second])
      expect(addresses).toEqual(['127.0.0.1', '::1'])
    },
  )

  test('that all fail are name servers in trouble, unless one of them knows that there is no such name', async () => {
    const failing = await start({ v4: 'SERVFAIL', v6: 'REFUSED' }, 2)
    await expect(timed(failing)).rejects.toMatchObject({ code: 'ESERVFAIL' })
    const knowing = await start({ v4: 'NXDOMAIN', v6: 'NXDOMAIN' })
    await expect(timed([...failing, ...knowing])).rejects.toMatchObject({ code: 'ENOTFOUND' })
  })

  test('of which the first is silent cost its timeout', async () => {
    const first = await start({ v4: 'silence', v6: 'silence' })
    const second = await start({ v4: ['127.0.0.1'], v6: ['::1'] })
    const { addresses, ms } = await timed([...first, ...second])
    expect(addresses.length).toBeGreaterThan(0)
    expect(ms).toBeLessThan(8000)
  })
})
