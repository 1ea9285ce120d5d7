/** Values that would break an installation in the middle, or would have no effect, are rejected before it begins, by their name. */
import { beforeAll, describe, expect, test } from 'vitest'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { HELMS, type Manifest, RELEASE, template, type Values } from '../support/chart/helm.ts'
import { VALUE_SETS } from '../support/chart/value-sets.ts'

const ROLE = 'arn:aws:iam::123456789012:role/davit'
const WEB_IDENTITY = { identity: 'web-identity', roleArn: ROLE }
const TLS = { tls: { enabled: true, secretName: 'davit-tls' } }
const CA = { extraCa: { configMap: 'authorities' } }
const RECEIVER = { clusterReceivers: [{ namespace: 'acme', service: 'receiver' }] }

beforeAll(() => findChartTools(), BUILD_LIMIT_MS)

/** A variable of this name in `extraEnv` of a role, with more values. */
function variable(name: string, more: Values = {}, role: 'controller' | 'api' = 'controller'): Values {
  const own = (more[role] ?? {}) as Values
  return { ...more, [role]: { ...own, extraEnv: [{ name, value: 'x' }] } }
}

const mount = (mountPath: string) => ({ name: 'scratch', mountPath })

const TWICE: [what: string, values: Values, words: string][] = [
  [
    'a region',
    variable('AWS_REGION', { aws: { region: 'eu-west-1' } }),
    'controller.extraEnv: must not contain AWS_REGION, which aws.region sets',
  ],
  [
    'a role of AWS',
    variable('AWS_ROLE_ARN', { aws: WEB_IDENTITY }, 'api'),
    'api.extraEnv: must not contain AWS_ROLE_ARN, which aws.identity sets',
  ],
  [
    'the file of a token',
    variable('AWS_WEB_IDENTITY_TOKEN_FILE', { aws: WEB_IDENTITY }),
    'AWS_WEB_IDENTITY_TOKEN_FILE, which aws.identity sets',
  ],
  [
    'a setting',
    variable('DAVIT_MAX_PENDING', { config: { maxPending: 1000 } }),
    'DAVIT_MAX_PENDING, which config.maxPending sets',
  ],
  [
    'an endpoint of AWS',
    variable('AWS_ENDPOINT_URL_SSM', { config: { awsEndpointUrlSsm: 'https://ssm.example.com' } }, 'api'),
    'api.extraEnv: must not contain AWS_ENDPOINT_URL_SSM, which config.awsEndpointUrlSsm sets',
  ],
  [
    'allowed hosts',
    variable('DAVIT_ALLOWED_HOSTS', { config: { allowedHosts: ['a.example'] } }),
    'DAVIT_ALLOWED_HOSTS, which config.allowedHosts sets',
  ],
  [
    'hosts of Services in the cluster',
    variable('DAVIT_ALLOWED_HOSTS', RECEIVER),
    'DAVIT_ALLOWED_HOSTS, which clusterReceivers sets',
  ],
  [
    'the host of the release test',
    variable('DAVIT_ALLOWED_HOSTS'),
    'DAVIT_ALLOWED_HOSTS, which helmTest.delivery sets',
  ],
  ['the image of bakes', variable('DAVIT_BAKE_IMAGE'), 'DAVIT_BAKE_IMAGE, which bakes.enabled sets'],
  [
    'another image of bakes',
    variable('DAVIT_BAKE_IMAGE', { config: { bakeImage: 'r/davit:1' } }, 'api'),
    'DAVIT_BAKE_IMAGE, which config.bakeImage sets',
  ],
  [
    'a mail server',
    variable('DAVIT_SMTP_URL', { smtp: { existingSecret: 'mail' }, config: { smtpFrom: 'a@example.com' } }),
    'DAVIT_SMTP_URL, which smtp.existingSecret sets',
  ],
  ['authorities', variable('DAVIT_EXTRA_CA_FILE', CA), 'DAVIT_EXTRA_CA_FILE, which extraCa.configMap sets'],
  [
    'a certificate',
    variable('DAVIT_API_KEY_FILE', { api: TLS }, 'api'),
    'DAVIT_API_KEY_FILE, which api.tls.enabled sets',
  ],
  ['what only the chart knows', variable('DAVIT_REPLICA'), 'DAVIT_REPLICA, which the chart sets'],
  [
    'a variable in the list itself',
    { api: { extraEnv: [{ name: 'A', value: '1' }, { name: 'B' }, { name: 'A', value: '1' }] } },
    'api.extraEnv: must not contain A twice',
  ],
  [
    'the volume of a token',
    { aws: WEB_IDENTITY, controller: { extraVolumes: [{ name: 'aws-token', emptyDir: {} }] } },
    'controller.extraVolumes: must not contain aws-token, which aws.identity sets',
  ],
  [
    'the volume of authorities',
    { ...CA, api: { extraVolumes: [{ name: 'ca', emptyDir: {} }] } },
    'api.extraVolumes: must not contain ca, which extraCa.configMap sets',
  ],
  [
    'the volume of a certificate',
    { api: { ...TLS, extraVolumes: [{ name: 'tls', emptyDir: {} }] } },
    'api.extraVolumes: must not contain tls, which api.tls.enabled sets',
  ],
  [
    'a volume in the list itself',
    { controller: { extraVolumes: [{ name: 'scratch' }, { name: 'scratch', emptyDir: {} }] } },
    'controller.extraVolumes: must not contain scratch twice',
  ],
  [
    'the path of authorities',
    { ...CA, controller: { extraVolumeMounts: [mount('/etc/davit/ca')] } },
    'controller.extraVolumeMounts: must not contain /etc/davit/ca, which extraCa.configMap sets',
  ],
  [
    'the path of a certificate, in another spelling',
    { api: { ...TLS, extraVolumeMounts: [mount('/etc/davit//tls/')] } },
    'api.extraVolumeMounts: must not contain /etc/davit/tls, which api.tls.enabled sets',
  ],
  [
    'a path in the list itself',
    { controller: { extraVolumeMounts: [mount('/tmp'), mount('/tmp/')] } },
    'controller.extraVolumeMounts: must not contain /tmp twice',
  ],
  [
    'a login',
    { imagePullSecrets: [{ name: 'login' }, { name: 'login' }] },
    'imagePullSecrets: must not contain login twice',
  ],
  [
    'a constraint',
    {
      api: {
        topologySpreadConstraints: [
          { topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', maxSkew: 1 },
          { topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', maxSkew: 2 },
        ],
      },
    },
    'api.topologySpreadConstraints: must not contain zone DoNotSchedule twice',
  ],
  [
    'a label that selects Services',
    { commonLabels: { 'davit.dev/serves': 'ops' } },
    'commonLabels: must not contain davit.dev/serves, which the chart sets',
  ],
  [
    'the label of organizations',
    { commonLabels: { 'davit.dev/organization': 'true' } },
    'commonLabels: must not contain davit.dev/organization, which the chart sets',
  ],
  [
    'a label that makes every role one of admins',
    { commonLabels: { 'rbac.authorization.k8s.io/aggregate-to-admin': 'true' } },
    'commonLabels: must not contain rbac.authorization.k8s.io/aggregate-to-admin, which the chart sets',
  ],
  [
    'a label that selects Pods',
    { controller: { podLabels: { 'app.kubernetes.io/component': 'api' } } },
    'controller.podLabels: must not contain app.kubernetes.io/component, which the chart sets',
  ],
  [
    'the annotation for a role',
    {
      aws: { identity: 'irsa', roleArn: ROLE },
      api: { serviceAccount: { annotations: { 'eks.amazonaws.com/role-arn': ROLE } } },
    },
    'api.serviceAccount.annotations: must not contain eks.amazonaws.com/role-arn, which aws.identity sets',
  ],
  [
    'the severity of alerts',
    { metrics: { prometheusRule: { alertLabels: { severity: 'page' } } } },
    'metrics.prometheusRule.alertLabels: must not contain severity, which the chart sets',
  ],
]

const HOST = 'hooks.example.com'
const ingress = (names: string[], ...hosts: string[]) => ({
  enabled: true,
  hosts: hosts.map((host) => ({ host })),
  tls: names.length === 0 ? [] : [{ hosts: names }],
})

const UNENCRYPTED: [what: string, api: Values, words: string][] = [
  [
    'a load balancer',
    { service: { type: 'LoadBalancer' } },
    'api.service.type LoadBalancer requires api.tls',
  ],
  [
    'a port of nodes',
    { service: { type: 'NodePort' } },
    'api.service.type NodePort requires api.tls.enabled',
  ],
  [
    'a load balancer for a few networks',
    { service: { type: 'LoadBalancer', loadBalancerSourceRanges: ['192.0.2.0/24'], port: 443 } },
    'api.service.type LoadBalancer requires api.tls.enabled',
  ],
  ['an Ingress', { ingress: ingress([], HOST) }, `api.ingress.tls must contain the host ${HOST}`],
  [
    'a host of an Ingress, among others with a certificate',
    { ingress: ingress([HOST], HOST, 'other.example.com') },
    'api.ingress.tls must contain the host other.example.com',
  ],
  [
    'a host of an Ingress that a certificate for all names does not cover',
    { ingress: ingress(['*.example.com'], 'a.b.example.com') },
    'api.ingress.tls must contain the host a.b.example.com',
  ],
  [
    'the domain of a certificate for all names',
    { ingress: ingress(['*.example.com'], 'example.com') },
    'api.ingress.tls must contain the host example.com',
  ],
  [
    'an Ingress before Pods with TLS',
    { ...TLS, ingress: ingress([], HOST) },
    `api.ingress.tls must contain the host ${HOST}`,
  ],
]

const NAMES: [what: string, values: Values, path: string][] = [
  ['a dot in the name of all', { fullnameOverride: 'hooks.prod' }, '/fullnameOverride'],
  ['a dot at the end', { fullnameOverride: 'hooks.' }, '/fullnameOverride'],
  ['a digit first', { fullnameOverride: '1hooks' }, '/fullnameOverride'],
  ['upper case', { fullnameOverride: 'Hooks' }, '/fullnameOverride'],
  ['a dot in the end of the name of all', { nameOverride: 'davit.v1' }, '/nameOverride'],
  ['an underscore', { nameOverride: 'davit_v1' }, '/nameOverride'],
  [
    'two dots in the name of a ServiceAccount',
    { api: { serviceAccount: { name: 'a..b' } } },
    '/api/serviceAccount/name',
  ],
  [
    'upper case in a Secret of bakes',
    { bakes: { imagePullSecrets: [{ name: 'Mirror' }] } },
    '/bakes/imagePullSecrets/0/name',
  ],
  ['white space in a label of bakes', { bakes: { podLabels: { team: 'a b' } } }, '/bakes/podLabels/team'],
  [
    'an effect that there is not',
    { bakes: { tolerations: [{ effect: 'None' }] } },
    '/bakes/tolerations/0/effect',
  ],
  ['a dot in the name of an organization', { organizations: ['acme.eu'] }, '/organizations/0'],
]

const SHARED = 'controller.serviceAccount.name and api.serviceAccount.name must differ'
const accounts = (controller: Values, api: Values) => ({
  controller: { serviceAccount: controller },
  api: { serviceAccount: api },
})

const SAME_NAMES: [what: string, values: Values, words: string][] = [
  ['a ServiceAccount of both roles', accounts({ name: 'davit' }, { name: 'davit' }), SHARED],
  [
    'a ServiceAccount of both roles that exists',
    accounts({ name: 'davit', create: false }, { name: 'davit', create: false }),
    SHARED,
  ],
  [
    'a ServiceAccount of both roles that one of them creates',
    accounts({ name: 'davit' }, { name: 'davit', create: false }),
    SHARED,
  ],
  ['the default name of the other ServiceAccount', accounts({ name: 'davit-api' }, {}), SHARED],
  [
    'the default name with a prefix of its own',
    { fullnameOverride: 'hooks', ...accounts({}, { name: 'hooks-controller' }) },
    SHARED,
  ],
  [
    'the ServiceAccount of the release test',
    accounts({ name: 'davit-check' }, {}),
    'controller.serviceAccount.name must not be davit-check',
  ],
  [
    'the ServiceAccount of the Job before an uninstall',
    accounts({}, { name: 'davit-stop' }),
    'api.serviceAccount.name must not be davit-stop',
  ],
  [
    'the ServiceAccount of the Job after an uninstall',
    { nameOverride: 'hooks', ...accounts({}, { name: 'davit-hooks-cleanup', create: false }) },
    'api.serviceAccount.name must not be davit-hooks-cleanup',
  ],
]

const PRIVILEGES: [what: string, context: Values][] = [
  ['the user root', { runAsUser: 0 }],
  ['that root may be the user', { runAsNonRoot: false }],
  ['any system call', { seccompProfile: { type: 'Unconfined' } }],
  ['no AppArmor', { appArmorProfile: { type: 'Unconfined' } }],
  ['settings of the kernel', { sysctls: [{ name: 'net.ipv4.tcp_syncookies', value: '0' }] }],
  ['processes of a Windows host', { windowsOptions: { hostProcess: true } }],
  ['a field that there is not', { runAsUsers: 1000 }],
]

describe.each(HELMS)('%s rejects', (name) => {
  test.each(PRIVILEGES)('%s in Pods of bakes', async (_, podSecurityContext) => {
    const [field = ''] = Object.keys(podSecurityContext)
    await expect(template(name, { bakes: { podSecurityContext } }, RELEASE)).rejects.toThrow(
      `bakes.podSecurityContext: must not contain ${field}: `,
    )
  })

  test.each(TWICE)('%s that is given twice', async (_, values, words) => {
    await expect(template(name, values, RELEASE)).rejects.toThrow(words)
  })

  test.each(SAME_NAMES)('%s, as the name of something else', async (_, values, words) => {
    await expect(template(name, values, RELEASE)).rejects.toThrow(words)
  })

  test.each(UNENCRYPTED)('%s without TLS', async (_, api, words) => {
    await expect(template(name, { api }, RELEASE)).rejects.toThrow(words)
  })

  test.each(NAMES)('%s', async (_, values, path) => {
    await expect(template(name, values, RELEASE)).rejects.toThrow(`at '${path}'`)
  })
})

describe('what is asked for by a value is taken', () => {
  test.each(UNENCRYPTED)('%s without TLS', async (_, api) => {
    expect(await template('helm4', { api: { ...api, allowUnencrypted: true } }, RELEASE)).not.toEqual([])
  })

  test.each<[string, Values]>([
    ['a load balancer', { ...TLS, service: { type: 'LoadBalancer' } }],
    ['a port of nodes', { ...TLS, service: { type: 'NodePort' } }],
    ['an Ingress', { ingress: ingress([HOST], HOST) }],
    ['hosts of a certificate for all names', { ingress: ingress(['*.example.com'], HOST, '*.example.com') }],
  ])('%s with TLS', async (_, api) => {
    expect(await template('helm4', { api }, RELEASE)).not.toEqual([])
  })
})

test('the release test has a namespace that no other release has', async () => {
  const releases = [
    { name: 'davit', namespace: 'davit-system' },
    { name: 'davit', namespace: 'davit-test' },
    { name: 'hooks', namespace: 'davit-system' },
    { name: 'my.davit', namespace: 'davit-system' },
    { name: 'd'.repeat(53), namespace: 'n'.repeat(63) },
  ]
  const names = await Promise.all(
    releases.map(async (release) => testNamespaceOf(await template('helm4', {}, release))),
  )
  expect(new Set(names).size).toBe(releases.length)
  for (const name of names) expect(name).toMatch(/^[a-z][a-z0-9-]{0,48}-test-[0-9a-f]{8}$/)
})

function testNamespaceOf(manifests: readonly Manifest[]): string | undefined {
  return manifests.find(({ kind }) => kind === 'Namespace')?.metadata.name
}

test('variables, volumes and paths are taken where no value sets them', async () => {
  const role = {
    extraEnv: [{ name: 'AWS_REGION', value: 'eu-west-1' }, { name: 'aws_region' }, { name: 'my.var' }],
    extraVolumes: [{ name: 'ca', emptyDir: {} }],
    extraVolumeMounts: [
      { name: 'ca', mountPath: '/etc/davit/ca' },
      { name: 'ca', mountPath: '/etc/davit/ca/more' },
    ],
  }
  const values = { controller: role, api: role, organizations: ['acme', 'acme'] }
  const rendered = await template('helm4', values, RELEASE)
  expect(twiceIn(rendered)).toEqual([])
})

test.each(Object.entries(VALUE_SETS))('nothing is given twice where %s', async (_, values) => {
  const rendered = await template('helm4', values, RELEASE)
  expect(rendered.length).toBeGreaterThan(10)
  expect(twiceIn(rendered)).toEqual([])
})

type Named = { name: string }
type PodSpec = {
  volumes?: Named[]
  imagePullSecrets?: Named[]
  containers: { env?: Named[]; volumeMounts?: { mountPath: string }[] }[]
}

/** What the API server takes only once: objects by their names, and the keys of lists in Pods. */
function twiceIn(manifests: readonly Manifest[]): string[] {
  const ids = manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`)
  const keys = manifests.flatMap(({ kind, metadata, spec }) => {
    const { template: inner } = (spec ?? {}) as { template?: { spec?: PodSpec } }
    const pod = kind === 'Pod' ? (spec as PodSpec) : inner?.spec
    if (!pod) return []
    const { containers, volumes = [], imagePullSecrets = [] } = pod
    const container = containers.flatMap(({ env = [], volumeMounts = [] }) => [
      ...env.map((each) => `variable ${each.name}`),
      ...volumeMounts.map(({ mountPath }) => `path ${mountPath}`),
    ])
    const more = [
      ...volumes.map((each) => `volume ${each.name}`),
      ...imagePullSecrets.map((each) => each.name),
    ]
    return [...container, ...more].map((key) => `${kind} ${metadata.name}: ${key}`)
  })
  const all = [...ids, ...keys]
  return all.filter((each, index) => all.indexOf(each) !== index)
}
