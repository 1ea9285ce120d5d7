/** What the NetworkPolicies open: the public addresses that Davit's own rules know, DNS on its ports, and nothing by an empty list. */

import ipaddr from 'ipaddr.js'
import { beforeAll, describe, expect, test } from 'vitest'
import { createAddressPolicy } from '../../src/net/egress-policy.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { type Manifest, RELEASE, template, type Values } from '../support/chart/helm.ts'
import { fc } from '../support/fast-check.ts'

type Block = { cidr: string; except?: string[] }
type Peer = { ipBlock?: Block; namespaceSelector?: object }
type Port = { port: number | string; protocol?: string }
type Rule = { to?: Peer[]; ports?: Port[] }
type Policy = Manifest & { spec: { egress?: Rule[] | null } }

beforeAll(() => findChartTools(), BUILD_LIMIT_MS)

async function policiesOf(values: Values): Promise<Map<string, Rule[]>> {
  const rendered = await template('helm4', values, RELEASE)
  const policies = rendered.filter(({ kind }) => kind === 'NetworkPolicy') as Policy[]
  return new Map(policies.map(({ metadata, spec }) => [metadata.name, spec.egress ?? []]))
}

async function rulesOf(name: string, values: Values): Promise<Rule[]> {
  return (await policiesOf(values)).get(name) ?? []
}

function isIn(address: string, network: string): boolean {
  const [parsed, range] = [ipaddr.parse(address), ipaddr.parseCIDR(network)]
  return parsed.kind() === range[0].kind() && parsed.match(range)
}

/** As a network plugin decides. A rule without peers is for all addresses. */
function opens(rules: readonly Rule[], address: string): boolean {
  return rules.some(({ to = [] }) => {
    if (to.length === 0) return true
    return to.some(
      ({ ipBlock }) =>
        ipBlock !== undefined &&
        isIn(address, ipBlock.cidr) &&
        !(ipBlock.except ?? []).some((network) => isIn(address, network)),
    )
  })
}

/** Without the rule for the API server, which is for every address by default. */
const CLOSED = { networkPolicy: { apiServer: [] } }
const ROLES = ['davit-controller', 'davit-api']

const NOT_PUBLIC = [
  ...['0.0.0.0', '10.0.0.1', '100.64.0.1', '127.0.0.1', '168.63.129.16', '169.254.169.254', '172.31.255.255'],
  ...['192.0.0.1', '192.0.2.1', '192.31.196.1', '192.52.193.1', '192.88.99.1', '192.168.0.1', '192.175.48.1'],
  ...[
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
  ],
  ...[
    '::',
    '::1',
    '::7f00:1',
    '::ffff:10.0.0.1',
    '::ffff:0:10.0.0.1',
    '64:ff9b:1::808:808',
    '100::1',
    '1fff::1',
  ],
  ...[
    '2001::1',
    '2001:2::1',
    '2001:10::1',
    '2001:1ff::1',
    '2001:db8::1',
    '2002:808:808::1',
    '2620:4f:8000::1',
  ],
  ...['3fff::1', '4000::1', '5f00::1', 'fc00::1', 'fd00:ec2::254', 'fe80::1', 'fec0::1', 'ff02::1'],
  ...['64:ff9b::', '64:ff9b::a00:1', '64:ff9b::7f00:1', '64:ff9b::a9fe:a9fe', '64:ff9b::c0a8:101'],
  ...['64:ff9b::a83f:8110', '64:ff9b::c000:1', '64:ff9b::c612:1', '64:ff9b::ffff:ffff'],
]
const PUBLIC = [
  ...[
    '1.1.1.1',
    '8.8.8.8',
    '9.255.255.255',
    '11.0.0.0',
    '100.128.0.0',
    '168.63.129.17',
    '192.0.1.1',
    '198.20.0.0',
  ],
  ...['2000::1', '2001:200::1', '2001:4860:4860::8888', '2606:4700:4700::1111', '2a00:1450::1', '3ffe::1'],
  ...['64:ff9b::808:808', '64:ff9b::101:101', '64:ff9b::c000:101'],
]

describe.each(ROLES)('the public addresses of %s', (name) => {
  let rules: Rule[]

  beforeAll(async () => {
    rules = await rulesOf(name, CLOSED)
  })

  test.each(NOT_PUBLIC)('do not contain %s', (address) => {
    expect(opens(rules, address)).toBe(false)
  })

  test.each(PUBLIC)('contain %s', (address) => {
    expect(opens(rules, address)).toBe(true)
  })

  test('are those of the rules for webhooks, but for what is not assigned', () => {
    const policy = createAddressPolicy({ allowed: [] })
    const unassigned = '64::/16'
    const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
    const within = (network: string) => {
      const [first, bits] = ipaddr.parseCIDR(network)
      const start = first.toByteArray()
      return bytes(start.length).map((random) =>
        // Keeps the first bits of the network.
        start.map((byte, index) => {
          const kept = Math.max(0, Math.min(8, bits - 8 * index))
          const mask = (0xff << (8 - kept)) & 0xff
          return (byte & mask) | ((random[index] ?? 0) & ~mask & 0xff)
        }),
      )
    }
    const networks = rules.flatMap(({ to = [] }) => to.flatMap(({ ipBlock }) => ipBlock?.except ?? []))
    const some = fc.oneof(
      bytes(4),
      bytes(16),
      ...[...new Set(networks), '64:ff9b::/96', '2000::/3'].map(within),
    )
    fc.assert(
      fc.property(some, (address) => {
        const text = ipaddr.fromByteArray([...address]).toString()
        const isOpen = opens(rules, text)
        if (isIn(text, unassigned) && !isIn(text, '64:ff9b::/96')) return
        expect({ text, isOpen }).toEqual({ text, isOpen: policy.classify(text).kind === 'public' })
      }),
      { numRuns: 5000 },
    )
  })
})

describe('networks that the operator denies', () => {
  const deniedNetworks = ['198.20.0.0/16', '8.8.8.8/32', '2606:4700::/32']

  test.each(['198.20.1.1', '64:ff9b::c614:101', '8.8.8.8', '64:ff9b::808:808', '2606:4700:4700::1111'])(
    'are closed to the controller, also as %s',
    async (address) => {
      expect(opens(await rulesOf('davit-controller', CLOSED), address)).toBe(true)
      const denied = await rulesOf('davit-controller', { ...CLOSED, config: { deniedNetworks } })
      expect(opens(denied, address)).toBe(false)
    },
  )

  test('may be all: then no rule for receivers is left, which would be one for all', async () => {
    const all = { config: { deniedNetworks: ['0.0.0.0/0', '::/0'] }, helmTest: { delivery: false } }
    const rules = await rulesOf('davit-controller', { ...CLOSED, ...all })
    for (const address of ['8.8.8.8', '10.0.0.1', '2606:4700::1']) expect(opens(rules, address)).toBe(false)
  })
})

describe('the DNS server', () => {
  const NAMES = [...ROLES, 'davit-stop', 'davit-check']
  const isDns = ({ ports = [] }: Rule) => ports.some(({ protocol }) => protocol === 'UDP')

  test.each<[what: string, networkPolicy: Values, want: (string | number)[], peers: number]>([
    ['every Pod, on port 53', {}, ['53/UDP', '53/TCP'], 1],
    ['OpenShift', { dnsPorts: [5353] }, ['5353/UDP', '5353/TCP'], 1],
    ['two ports', { dnsPorts: [53, 8053] }, ['53/UDP', '53/TCP', '8053/UDP', '8053/TCP'], 1],
    [
      'NodeLocal DNSCache',
      { dns: [{ namespaceSelector: {} }, { ipBlock: { cidr: '169.254.20.10/32' } }] },
      ['53/UDP', '53/TCP'],
      2,
    ],
  ])('of every Pod: %s', async (_, networkPolicy, want, peers) => {
    const policies = await policiesOf({ networkPolicy })
    expect([...policies.keys()]).toEqual(expect.arrayContaining(NAMES))
    for (const name of NAMES) {
      const [rule, ...more] = (policies.get(name) ?? []).filter(isDns)
      expect(more).toEqual([])
      expect(rule?.ports?.map(({ port, protocol }) => `${port}/${protocol}`)).toEqual(want)
      expect(rule?.to).toHaveLength(peers)
    }
  })

  test('is none where the list is empty', async () => {
    const policies = await policiesOf({ networkPolicy: { dns: [], apiServer: [] } })
    for (const name of NAMES)
      for (const rule of policies.get(name) ?? []) expect(rule.to?.length).toBeGreaterThan(0)
  })
})

test('AWS has the ports that the values name', async () => {
  const aws = [{ ipBlock: { cidr: '10.9.0.0/24' } }]
  for (const awsPorts of [[443], [8443], [443, 5000]]) {
    const rules = await rulesOf('davit-api', { networkPolicy: { aws, awsPorts, apiServer: [] } })
    const toAws = rules.filter(({ to = [] }) => to.some(({ ipBlock }) => ipBlock !== undefined))
    expect(toAws).toHaveLength(2)
    for (const { ports } of toAws) expect(ports).toEqual(awsPorts.map((port) => ({ port })))
  }
})
