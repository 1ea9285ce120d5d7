import { describe, expect, test } from 'vitest'
import { LOOPBACK_HOSTS } from '../../test/support/receiver-hosts.ts'
import { createAddressPolicy, createUrlPolicy, targetOf, type WebhookNetworks } from './egress-policy.ts'

const strict = createUrlPolicy({ allowed: [] })
const open = createUrlPolicy({ allowed: ['127.0.0.0/8', '::1/128', '10.0.0.0/8'] })

test.each(LOOPBACK_HOSTS)('https://%s/ is refused as an address that is not public', (host) => {
  expect(strict.check(`https://${host}/x`)).toEqual({
    ok: false,
    reason: expect.stringContaining('is not public ('),
  })
})

test.each([
  ['10.0.0.1', 'the address 10.0.0.1 is not public (private)', 'config.allowedNetworks'],
  ['billing.acme.svc', 'the name billing.acme.svc is not public', 'clusterReceivers or config.allowedHosts'],
])('%s, which is not public, is rejected with who can allow it and how', (host, what, where) => {
  expect(strict.check(`https://${host}/x`)).toEqual({
    ok: false,
    reason: `${what}; only the cluster operator can allow it, in ${where}`,
  })
})

test.each([
  '169.254.169.254',
  '10.0.0.1',
  '192.168.1.1',
  '172.16.0.1',
  '100.64.0.1',
  '[fd00:ec2::254]',
  '[fe80::1]',
  '[fec0::1]',
  '224.0.0.1',
])('https://%s/ is refused as an address that is not public', (host) => {
  expect(strict.check(`https://${host}/latest/meta-data`)).toMatchObject({
    ok: false,
    reason: expect.stringContaining('not public'),
  })
})

test.each([
  'localhost',
  'LOCALHOST',
  'a.localhost',
  'localhost.',
  'printer.local',
  'metadata.google.internal',
  'billing.acme.svc',
  'billing.acme.svc.cluster.local',
  'kubernetes',
  'kubernetes.default.svc.',
  'nas.home.arpa',
  'billing.acme.svc.cluster.local.',
])('the name %s is refused while no network is allowed, and left to its addresses otherwise', (host) => {
  expect(strict.check(`https://${host}/x`)).toMatchObject({
    ok: false,
    reason: expect.stringContaining('is not public'),
  })
  expect(open.check(`https://${host}/x`)).toEqual({ ok: true })
})

test.each([
  { url: 'ftp://example.com/', want: 'https://' },
  { url: 'file:///etc/passwd', want: 'https://' },
  { url: 'http://example.com/', want: 'plain HTTP' },
  { url: 'http://8.8.8.8/', want: 'plain HTTP' },
  { url: 'https://user@example.com/', want: 'user name' },
  { url: 'https://:pass@example.com/', want: 'user name' },
  { url: 'https://example.com/#x', want: 'fragment' },
  { url: 'https://example.com/#', want: 'fragment' },
  { url: 'https://example.com:0/', want: 'port' },
  { url: 'https://example.com../', want: 'host name' },
  { url: 'https://hooks..example.com/', want: 'host name' },
  { url: 'https://.example.com/', want: 'host name' },
  { url: 'https://./', want: 'host name' },
  { url: 'https://example.com:65536/', want: 'cannot be parsed' },
  { url: 'https://[fe80::1%25lo]/', want: 'cannot be parsed' },
  { url: 'https://', want: 'cannot be parsed' },
  { url: '/hook', want: 'cannot be parsed' },
  { url: '', want: 'cannot be parsed' },
  { url: 'https://example.com\\@127.0.0.1/', want: 'cannot be parsed' },
  { url: 'https://exa\tmple.com/', want: 'cannot be parsed' },
  { url: ' https://example.com/', want: 'cannot be parsed' },
  { url: 'https://example.com/\n', want: 'cannot be parsed' },
  { url: `https://example.com/${'x'.repeat(2048)}`, want: '2,048' },
])('$url is refused: $want', ({ url, want }) => {
  expect(strict.check(url)).toEqual({ ok: false, reason: expect.stringContaining(want) })
})

test.each([
  'https://example.com',
  'https://example.com:8443/hooks?a=b%20c',
  'https://8.8.8.8/',
  'https://[2606:4700::1]/',
  'https://bücher.example/',
  'HTTPS://EXAMPLE.COM/',
  'hTTps://example.com/',
  'https://example.com./',
  'HTTPS://Example.COM.:8443/hooks',
  'https://bücher.example./',
  'https://internal.example.com/',
  'https://my-local.example/',
])('%s is accepted', (url) => {
  expect(strict.check(url)).toEqual({ ok: true })
})

test.each([
  { url: 'http://127.0.0.1:8080/x', want: true },
  { url: 'http://[::1]/x', want: true },
  { url: 'http://receiver.acme.svc.cluster.local/x', want: true },
  { url: 'http://example.com/', want: true },
  { url: 'https://10.1.2.3/', want: true },
  { url: 'http://8.8.8.8/', want: false },
  { url: 'https://192.168.0.1/', want: false },
])('with networks allowed, $url: $want (names are left to their addresses)', ({ url, want }) => {
  expect(open.check(url).ok).toBe(want)
})

test.each([
  {
    url: 'https://Example.com/a/../b?c=d e'.replace(' ', '%20'),
    want: {
      origin: 'https://example.com',
      hostname: 'example.com',
      queryName: 'example.com',
      port: 443,
      path: '/b?c=d%20e',
      secure: true,
      isInternalName: false,
      internal: false,
    },
  },
  {
    url: 'http://[::1]:81',
    want: { origin: 'http://[::1]:81', hostname: '::1', port: 81, path: '/', secure: false, internal: true },
  },
  {
    url: 'https://example.com.:8443/',
    want: {
      origin: 'https://example.com:8443',
      hostname: 'example.com',
      queryName: 'example.com.',
      port: 8443,
      internal: false,
    },
  },
  {
    url: 'https://kubernetes.default.SVC./',
    want: { hostname: 'kubernetes.default.svc', isInternalName: true, internal: true },
  },
  {
    url: 'http://example.com./',
    want: { hostname: 'example.com', isInternalName: false, internal: true },
  },
  { url: 'https://0x7f.1/', want: { origin: 'https://127.0.0.1', hostname: '127.0.0.1', internal: false } },
])('$url names its target', ({ url, want }) => {
  expect(targetOf(url, createAddressPolicy({ allowed: ['127.0.0.0/8', '::1/128'] }))).toMatchObject({
    ok: true,
    target: want,
  })
})

describe('a URL whose name has to be in an allowed network', () => {
  const warningOf = (url: string, networks: WebhookNetworks = { allowed: ['10.0.0.0/8'] }) => {
    const decision = createUrlPolicy(networks).check(url)
    return decision.ok ? decision.warning : 'rejected'
  }

  test.each([
    ['http://example.com/x', 'example.com'],
    ['HTTP://EXAMPLE.com./', 'example.com'],
    ['http://hooks.corp.example:8080/', 'hooks.corp.example'],
    ['http://receiver.acme/', 'receiver.acme'],
  ])('has a warning that names it: %s', (url, name) => {
    expect(warningOf(url)).toBe(
      `Davit sends plain HTTP only to networks that the cluster operator allows. If ${name} resolves to an address outside those networks, every attempt fails with "connection refused". Use https:// instead.`,
    )
  })

  test.each([
    'https://example.com/x',
    'http://10.0.0.1/',
    'http://receiver.acme.svc/',
    'http://receiver/',
    'http://a.internal./',
  ])('is not %s', (url) => {
    expect(warningOf(url)).toBeUndefined()
  })

  test('is not one whose name is allowed', () => {
    const networks = { allowed: ['10.0.0.0/8'], hosts: ['hooks.corp.example'] }
    expect(warningOf('http://hooks.corp.example/', networks)).toBeUndefined()
    expect(warningOf('http://hooks.corp.example./', networks)).toBeUndefined()
    expect(warningOf('http://other.corp.example/', networks)).toMatch(/^Davit sends plain HTTP/)
  })
})

const RECEIVER = 'receiver.acme.svc.cluster.local'
const named = { allowed: [], hosts: [RECEIVER] }

test.each([
  `http://${RECEIVER}:8080/hooks`,
  `https://${RECEIVER}/hooks`,
  `http://${RECEIVER.toUpperCase()}./`,
])('a host that is allowed by its name may receive at %s', (url) => {
  expect(createUrlPolicy(named).check(url)).toEqual({ ok: true })
})

test.each([
  `http://other.acme.svc.cluster.local/`,
  'http://example.com/',
  'http://10.0.0.1/',
  `https://a.${RECEIVER}/`,
])('while one host is allowed, %s is not', (url) => {
  expect(createUrlPolicy(named).check(url)).toMatchObject({ ok: false })
})

test.each([
  { address: '10.96.0.7', kind: 'allowed' },
  { address: 'fd00::7', kind: 'allowed' },
  { address: '93.184.216.34', kind: 'public' },
  { address: '127.0.0.1', kind: 'forbidden' },
  { address: '169.254.169.254', kind: 'forbidden' },
  { address: 'fd00:ec2::254', kind: 'forbidden' },
  { address: '10.1.0.7', kind: 'forbidden' },
])('of an allowed host, the address $address is $kind', ({ address, kind }) => {
  const policy = createAddressPolicy({ ...named, denied: ['10.1.0.0/16'] })
  expect(policy.classify(address, RECEIVER).kind).toBe(kind)
  expect(policy.classify('10.96.0.7', 'other.acme.svc.cluster.local').kind).toBe('forbidden')
})
