/** What single values make of the chart's objects. */
import { beforeAll, describe, expect, test } from 'vitest'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { type Manifest, RELEASE, template, type Values } from '../support/chart/helm.ts'

type Pod = {
  metadata: { labels: Record<string, string>; annotations?: Record<string, string> }
  spec: {
    securityContext: Record<string, unknown>
    containers: { env: { name: string; value?: string }[] }[]
    [more: string]: unknown
  }
}

beforeAll(() => findChartTools(), BUILD_LIMIT_MS)

function render(values: Values): Promise<Manifest[]> {
  return template('helm4', values, RELEASE)
}

/** By the name of what makes them. */
async function podsOf(values: Values): Promise<Record<string, Pod>> {
  const pods = (await render(values)).flatMap((manifest) => {
    if (manifest.kind === 'Pod') return [[manifest.metadata.name, manifest as unknown as Pod] as const]
    const { template: pod } = (manifest.spec ?? {}) as { template?: Pod }
    return pod ? [[manifest.metadata.name, pod] as const] : []
  })
  return Object.fromEntries(pods)
}

function named(manifests: readonly Manifest[], kind: string, name: string): Manifest | undefined {
  return manifests.find((each) => each.kind === kind && each.metadata.name === name)
}

const ALL = ['davit-api', 'davit-check', 'davit-cleanup', 'davit-controller', 'davit-stop']

describe('what the chart says of pods gives way to what values say', () => {
  test('fields of the security context, also to what is 0 or false', async () => {
    const podSecurityContext = { runAsUser: 0, runAsNonRoot: false, supplementalGroups: [7] }
    const pods = await podsOf({ podSecurityContext })
    expect(Object.keys(pods).sort()).toEqual(ALL)
    for (const { spec } of Object.values(pods))
      expect(spec.securityContext).toEqual({
        runAsUser: 0,
        runAsNonRoot: false,
        runAsGroup: 65_532,
        fsGroup: 65_532,
        supplementalGroups: [7],
        seccompProfile: { type: 'RuntimeDefault' },
      })
  })

  test('labels and annotations, and those of one role before those of all', async () => {
    const version = 'app.kubernetes.io/version'
    const pods = await podsOf({
      commonLabels: { team: 'all', [version]: 'all' },
      controller: {
        podLabels: { [version]: 'one' },
        podAnnotations: { 'kubectl.kubernetes.io/default-container': 'other' },
      },
    })
    const of = (name: string) => pods[name]?.metadata
    expect(of('davit-controller')?.labels).toMatchObject({ team: 'all', [version]: 'one' })
    expect(of('davit-controller')?.annotations).toEqual({
      'kubectl.kubernetes.io/default-container': 'other',
    })
    for (const name of ALL) expect(of(name)?.labels).toMatchObject({ team: 'all' })
    expect(of('davit-api')?.labels[version]).toBe('all')
  })
})

test('labels of all objects are in no selector', async () => {
  const manifests = await render({ commonLabels: { team: 'all' } })
  const selectors = manifests.map(({ spec }) => {
    const { selector, podSelector } = (spec ?? {}) as { selector?: object; podSelector?: object }
    return JSON.stringify([selector, podSelector])
  })
  expect(selectors.join('\n')).not.toContain('team')
})

test('the pod of the test and those of the uninstall come to a node as those of the controller do', async () => {
  const place = {
    nodeSelector: { pool: 'davit' },
    tolerations: [{ key: 'dedicated', operator: 'Exists' }],
    priorityClassName: 'system-cluster-critical',
  }
  const pods = await podsOf({ controller: place, imagePullSecrets: [{ name: 'login' }] })
  for (const name of ALL.filter((name) => name !== 'davit-api'))
    expect(pods[name]?.spec).toMatchObject({ ...place, imagePullSecrets: [{ name: 'login' }] })
})

test('the right to Secrets that the chart gives in an organization has another name than the one that people are told to make', async () => {
  const manifests = await render({ organizations: ['acme'] })
  const names = manifests
    .filter(({ kind, metadata }) => kind === 'RoleBinding' && metadata.namespace === 'acme')
    .map(({ metadata }) => metadata.name)
  expect(names).toEqual(['davit-chart-secrets'])
})

describe('without bakes', () => {
  const OFF = { bakes: { enabled: false }, config: { bakeImage: 'r/davit:1', bakeCaConfigMap: 'trust' } }

  test('no role has an image for them', async () => {
    const pods = await podsOf(OFF)
    const names = ['davit-api', 'davit-controller'].flatMap((name) => pods[name]?.spec.containers ?? [])
    expect(names.flatMap(({ env }) => env).map(({ name }) => name)).not.toContain('DAVIT_BAKE_IMAGE')
  })

  test('the controller follows templates, to say so, and has no other right for them', async () => {
    const role = named(await render(OFF), 'ClusterRole', 'davit-controller-bakes')
    expect(role?.rules).toEqual([
      { apiGroups: ['davit.dev'], resources: ['boxtemplates'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: ['davit.dev'], resources: ['boxtemplates/status'], verbs: ['patch'] },
    ])
  })
})

test('a certificate of a public issuer has no name that only the cluster knows', async () => {
  const certificate = async (internalNames: boolean) => {
    const certManager = {
      enabled: true,
      issuerRef: { name: 'i' },
      internalNames,
      dnsNames: ['hooks.example.com'],
    }
    const manifests = await render({ api: { tls: { enabled: true, certManager } } })
    const certificate = named(manifests, 'Certificate', 'davit-api')
    return (certificate?.spec as { dnsNames: string[] } | undefined)?.dnsNames
  }
  expect(await certificate(false)).toEqual(['hooks.example.com'])
  expect(await certificate(true)).toContain('davit-api.davit-system.svc')
})

describe('the hosts that webhooks may reach at private addresses', () => {
  const VARIABLE = 'DAVIT_ALLOWED_HOSTS'
  const hosts = async (values: Values) => {
    const pods = await podsOf(values)
    const [controller, api] = ['davit-controller', 'davit-api'].map(
      (name) => pods[name]?.spec.containers[0]?.env.find((each) => each.name === VARIABLE)?.value,
    )
    expect(api).toBe(controller)
    return controller?.split(',') ?? []
  }
  const CHECK = 'davit-check.davit-system.svc.cluster.local'

  test('are the Pod of the release test, and what the values name', async () => {
    expect(await hosts({})).toEqual([CHECK])
    const receivers = {
      config: { allowedHosts: ['hooks.internal'] },
      clusterReceivers: [{ namespace: 'acme', service: 'receiver' }],
      clusterDomain: 'cluster.example',
      helmTest: { delivery: false },
    }
    expect(await hosts(receivers)).toEqual([
      'hooks.internal',
      'receiver.acme.svc',
      'receiver.acme.svc.cluster.example',
    ])
  })

  test('are none where the release test sends nothing', async () => {
    expect(await hosts({ helmTest: { delivery: false } })).toEqual([])
    expect(await hosts({ api: { tls: { enabled: true, secretName: 'tls' } } })).toEqual([])
  })
})

describe('what the controller may reach', () => {
  type Block = { cidr: string; except?: string[] }
  type Rule = { to?: { ipBlock?: Block }[]; ports?: { port: number }[] }

  async function egress(values: Values): Promise<Rule[]> {
    const policy = named(await render(values), 'NetworkPolicy', 'davit-controller')
    return (policy?.spec as { egress: Rule[] } | undefined)?.egress ?? []
  }

  async function reaches(networkPolicy: Values): Promise<string[]> {
    return (await egress({ networkPolicy })).flatMap(({ to = [], ports }) =>
      to.flatMap(({ ipBlock }) =>
        ipBlock ? [`${ipBlock.cidr} ${ports?.map(({ port }) => port) ?? 'all'}`] : [],
      ),
    )
  }

  test('is every address on the ports of the Kubernetes API, until that is narrowed', async () => {
    expect(await reaches({})).toContain('0.0.0.0/0 443,6443')
    const narrowed = await reaches({ apiServer: [{ ipBlock: { cidr: '10.0.0.1/32' } }] })
    expect(narrowed).toEqual(['10.0.0.1/32 443,6443', '0.0.0.0/0 all', '::/0 all'])
  })

  test('is not what the operator has closed', async () => {
    const closed = async (...deniedNetworks: string[]) =>
      (await egress({ config: { deniedNetworks }, networkPolicy: { apiServer: [] } })).flatMap(
        ({ to = [] }) => to.flatMap(({ ipBlock }) => ipBlock ?? []),
      )
    const [ipv4, ipv6] = await closed('203.0.114.0/24', '2001:db9::/32')
    expect(ipv4?.except).toContain('203.0.114.0/24')
    expect(ipv6?.except).toContain('2001:db9::/32')
    expect((await closed('::/0')).map(({ cidr }) => cidr)).toEqual(['0.0.0.0/0'])
  })

  test('is the Pods of the receivers in the cluster that are named, by their namespace and labels', async () => {
    const peers = async (clusterReceivers: object[]) =>
      (await egress({ clusterReceivers, helmTest: { delivery: false } })).flatMap(({ to = [], ports }) =>
        to.flatMap((peer) => ('podSelector' in peer || 'namespaceSelector' in peer ? [{ peer, ports }] : [])),
      )
    const acme = { matchLabels: { 'kubernetes.io/metadata.name': 'acme' } }
    const [dns] = await peers([])
    const podLabels = { app: 'receiver' }
    expect(
      await peers([
        { namespace: 'acme', service: 'receiver', podLabels },
        { namespace: 'acme', service: 'other' },
      ]),
    ).toEqual([
      dns,
      { peer: { namespaceSelector: acme, podSelector: { matchLabels: podLabels } }, ports: undefined },
      { peer: { namespaceSelector: acme }, ports: undefined },
    ])
  })

  test('is AWS at private addresses, where it is named', async () => {
    const apiServer = [{ ipBlock: { cidr: '10.0.0.1/32' } }]
    const aws = [{ ipBlock: { cidr: '10.9.0.0/24' } }]
    expect(await reaches({ apiServer, aws })).toContain('10.9.0.0/24 443')
  })
})

describe('the new space of the heap of the REST API', () => {
  const optionsOf = async (values: Values, role = 'davit-api') => {
    const pods = await podsOf(values)
    const env = pods[role]?.spec.containers[0]?.env ?? []
    return env.filter(({ name }) => name === 'NODE_OPTIONS').map(({ value }) => value)
  }

  test.each<[string | undefined, string[]]>([
    ['256Mi', ['--max-semi-space-size=8']],
    ['1Gi', ['--max-semi-space-size=32']],
    ['16Gi', ['--max-semi-space-size=64']],
    // V8 chooses.
    ['500M', []],
    ['16Mi', []],
    [undefined, []],
  ])('grows with its memory limit: %s', async (memory, want) => {
    const api = { resources: { limits: { memory: memory ?? null } } }
    expect(await optionsOf({ api })).toEqual(want)
  })

  test('is what the values say if they say it, and is not set for controllers', async () => {
    const option = { name: 'NODE_OPTIONS', value: '--max-semi-space-size=16' }
    expect(await optionsOf({ api: { extraEnv: [option] } })).toEqual([option.value])
    expect(await optionsOf({}, 'davit-controller')).toEqual([])
  })
})
