import { expect, test, vi } from 'vitest'
import { MAX_DEADLINE_SECONDS } from '../apis/bake.ts'
import { type Environment, parseConfig, parseSecrets, readEnvironment } from './config.ts'

test('without any variable everything has its documented default', () => {
  const { replica, ...config } = parseConfig({})
  expect(replica).toMatch(/^[a-z0-9-]{1,63}$/)
  expect(config).toEqual({
    namespace: 'davit-system',
    kubeconfig: undefined,
    networks: { allowed: [], denied: [], hosts: [] },
    api: {
      address: { host: '0.0.0.0', port: 8080 },
      certificate: undefined,
      rate: { key: 10_000, organization: 10_000 },
      maxConnections: 2_000,
      maxDeliveries: 2_000_000,
      idempotencyKeys: { organization: 100_000, all: 500_000 },
      lingerMs: 5000,
    },
    ops: { host: '0.0.0.0', port: 9090 },
    logLevel: 'info',
    smtpFrom: undefined,
    extraCaFile: undefined,
    formerOrganizations: [],
    waitScale: 1,
    omittedEventTypes: [],
    retention: {
      succeededMs: 86_400_000,
      failedMs: 604_800_000,
      maxFinishedPerEndpoint: 10_000,
      maxFinishedBytes: 209_715_200,
      maxLogBytes: 268_435_456,
    },
    intake: {
      pending: { organization: 20_000, all: 200_000 },
      openBytes: { organization: 67_108_864, all: 201_326_592 },
      writtenBytes: { organization: 402_653_184, all: 603_979_776 },
    },
    cloud: {
      parameterPrefix: '/davit',
      principalArn: undefined,
      requireWriteOnly: false,
      writesPerSecond: 3,
      credentialsPerOrganization: 500,
      accountCheckMs: 3_600_000,
      driftCheckMs: 900_000,
    },
    bake: {
      image: undefined,
      deadlineSeconds: 3600,
      ttlSeconds: 3600,
      cpu: '500m',
      memory: '512Mi',
      scratch: '20Gi',
      realms: [],
      ca: undefined,
      awsEndpoints: {},
      maxTemplates: 500,
      limits: { organization: 5, all: 50 },
    },
    limits: {
      endpointsPerOrganization: 500,
      inFlight: 2048,
      payloadBytes: 128 * 1024 * 1024,
      viewsPerSecond: 15,
    },
    isReplicaGiven: false,
    leaseMs: 9000,
    drainMs: 25_000,
  })
})

test.each([
  { given: { DAVIT_NAMESPACE: 'ops' }, want: { namespace: 'ops' } },
  { given: { DAVIT_REPLICA: 'davit-0' }, want: { replica: 'davit-0', isReplicaGiven: true } },
  {
    given: {
      DAVIT_FORMER_ORGANIZATION_UIDS:
        '0d9c2f61-2f5b-4a55-8a39-6f4f4f0f8d10=4ea74ba9-69e4-4cd5-b67c-f9fe9723e01a',
    },
    want: {
      formerOrganizations: [['0d9c2f61-2f5b-4a55-8a39-6f4f4f0f8d10', '4ea74ba9-69e4-4cd5-b67c-f9fe9723e01a']],
    },
  },
  { given: { KUBECONFIG: '/etc/davit/kubeconfig' }, want: { kubeconfig: '/etc/davit/kubeconfig' } },
  {
    given: {
      DAVIT_ALLOWED_NETWORKS: '10.0.0.0/8, fd00::/8,127.0.0.1/32',
      DAVIT_DENIED_NETWORKS: '10.96.0.0/12,203.0.114.7/32',
    },
    want: {
      networks: {
        allowed: ['10.0.0.0/8', 'fd00::/8', '127.0.0.1/32'],
        denied: ['10.96.0.0/12', '203.0.114.7/32'],
        hosts: [],
      },
    },
  },
  { given: { DAVIT_OPS_ADDRESS: '[::]:8080' }, want: { ops: { host: '::', port: 8080 } } },
  { given: { DAVIT_OPS_ADDRESS: 'localhost:0' }, want: { ops: { host: 'localhost', port: 0 } } },
  {
    given: {
      DAVIT_API_ADDRESS: '127.0.0.1:0',
      DAVIT_MAX_REQUESTS_PER_KEY: '1',
      DAVIT_MAX_REQUESTS_PER_ORGANIZATION: '2',
      DAVIT_MAX_CONNECTIONS: '10',
      DAVIT_MAX_SHOWN_DELIVERIES: '3',
      DAVIT_MAX_IDEMPOTENCY_KEYS: '5',
      DAVIT_MAX_IDEMPOTENCY_KEYS_PER_ORGANIZATION: '4',
    },
    want: {
      api: {
        address: { host: '127.0.0.1', port: 0 },
        rate: { key: 1, organization: 2 },
        maxConnections: 10,
        maxDeliveries: 3,
        idempotencyKeys: { organization: 4, all: 5 },
      },
    },
  },
  {
    given: {
      DAVIT_BAKE_IMAGE: 'registry.example.com:5000/davit:1',
      DAVIT_BAKE_DEADLINE: '1m',
      DAVIT_BAKE_TTL: '3601s',
      DAVIT_BAKE_CPU: '2',
      DAVIT_BAKE_MEMORY: '1Gi',
      DAVIT_BAKE_SCRATCH: '500M',
      DAVIT_BAKE_REALMS: 'auth.example.com, Tokens.example.com:8443',
      DAVIT_BAKE_CA_CONFIG_MAP: 'davit-bake-ca',
      AWS_ENDPOINT_URL: 'http://aws.example.com:4566',
      AWS_ENDPOINT_URL_SSM: 'https://ssm.example.com',
      AWS_ENDPOINT_URL_S3: 'https://s3.example.com',
      AWS_USE_FIPS_ENDPOINT: 'true',
      AWS_SECRET_ACCESS_KEY: 'of-the-operator',
      DAVIT_MAX_TEMPLATES_PER_ORGANIZATION: '7',
      DAVIT_MAX_BAKES: '4',
      DAVIT_MAX_BAKES_PER_ORGANIZATION: '3',
    },
    want: {
      bake: {
        image: 'registry.example.com:5000/davit:1',
        deadlineSeconds: 60,
        ttlSeconds: 3601,
        cpu: '2',
        memory: '1Gi',
        scratch: '500M',
        realms: ['auth.example.com', 'tokens.example.com:8443'],
        ca: { configMap: 'davit-bake-ca', key: 'ca.crt' },
        awsEndpoints: {
          AWS_ENDPOINT_URL: 'http://aws.example.com:4566',
          AWS_ENDPOINT_URL_SSM: 'https://ssm.example.com',
          AWS_USE_FIPS_ENDPOINT: 'true',
        },
        maxTemplates: 7,
        limits: { organization: 3, all: 4 },
      },
    },
  },
  {
    given: {
      DAVIT_BAKE_IMAGE_PULL_POLICY: 'Always',
      DAVIT_BAKE_IMAGE_PULL_SECRETS: 'mirror, other.example',
      DAVIT_BAKE_POD_SECURITY_CONTEXT: '{"runAsUser":null,"fsGroup":0,"seccompProfile":null}',
      DAVIT_BAKE_NODE_SELECTOR: '{"kubernetes.io/os":"linux","pool":""}',
      DAVIT_BAKE_TOLERATIONS: '[{"operator":"Exists"},{"key":"a","value":"b","tolerationSeconds":60}]',
      DAVIT_BAKE_AFFINITY: '{"nodeAffinity":{"x":[1]}}',
      DAVIT_BAKE_PRIORITY_CLASS: 'batch.low',
      DAVIT_BAKE_POD_LABELS: '{"example.com/team":"platform"}',
      DAVIT_BAKE_POD_ANNOTATIONS: '{"example.com/note":"of ours"}',
    },
    want: {
      bake: {
        imagePullPolicy: 'Always',
        imagePullSecrets: ['mirror', 'other.example'],
        podSecurityContext: { runAsUser: null, fsGroup: 0, seccompProfile: null },
        nodeSelector: { 'kubernetes.io/os': 'linux', pool: '' },
        tolerations: [{ operator: 'Exists' }, { key: 'a', value: 'b', tolerationSeconds: 60 }],
        affinity: { nodeAffinity: { x: [1] } },
        priorityClassName: 'batch.low',
        podLabels: { 'example.com/team': 'platform' },
        podAnnotations: { 'example.com/note': 'of ours' },
      },
    },
  },
  {
    given: { DAVIT_BAKE_CA_CONFIG_MAP: 'trust/ca-bundle.crt' },
    want: { bake: expect.objectContaining({ ca: { configMap: 'trust', key: 'ca-bundle.crt' } }) },
  },
  { given: { DAVIT_LOG_LEVEL: 'error' }, want: { logLevel: 'error' } },
  {
    given: { DAVIT_SMTP_FROM: 'Davit <davit@example.com>' },
    want: { smtpFrom: 'Davit <davit@example.com>' },
  },
  ...[
    'davit.example.com',
    'MAIL-1.example.org',
    'xn--bcher-kva.example',
    '[192.0.2.1]',
    '[IPv6:2001:db8::1]',
  ].map((name) => ({ given: { DAVIT_SMTP_EHLO_NAME: name }, want: { smtpEhloName: name } })),
  { given: { DAVIT_EXTRA_CA_FILE: '/etc/ca.pem' }, want: { extraCaFile: '/etc/ca.pem' } },
  { given: { DAVIT_WAIT_SCALE: '0.001' }, want: { waitScale: 0.001 } },
  { given: { DAVIT_WAIT_SCALE: '1' }, want: { waitScale: 1 } },
  { given: { DAVIT_SHUTDOWN_TIMEOUT: '0s' }, want: { drainMs: 0, api: { lingerMs: 0 } } },
  { given: { DAVIT_SHUTDOWN_TIMEOUT: '3s' }, want: { drainMs: 3000, api: { lingerMs: 1500 } } },
  { given: { DAVIT_SHUTDOWN_DELAY: '7s' }, want: { drainMs: 25_000, api: { lingerMs: 7000 } } },
  {
    given: { DAVIT_RETENTION_SUCCEEDED: '1m', DAVIT_RETENTION_FAILED: '2m' },
    want: { retention: expect.objectContaining({ succeededMs: 60_000, failedMs: 120_000 }) },
  },
  {
    given: {
      DAVIT_MAX_FINISHED_PER_ENDPOINT: '11',
      DAVIT_MAX_FINISHED_BYTES: '1048576',
      DAVIT_MAX_LOG_BYTES: '1048576',
    },
    want: {
      retention: expect.objectContaining({
        maxFinishedPerEndpoint: 11,
        maxFinishedBytes: 1_048_576,
        maxLogBytes: 1_048_576,
      }),
    },
  },
  {
    given: {
      DAVIT_MAX_PENDING: '4',
      DAVIT_MAX_PENDING_PER_ORGANIZATION: '3',
      DAVIT_MAX_OPEN_BYTES: '2097152',
      DAVIT_MAX_OPEN_BYTES_PER_ORGANIZATION: '1048576',
      DAVIT_MAX_WRITTEN_BYTES: '3000000',
      DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: '2000000',
      DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION: '2',
      DAVIT_MAX_IN_FLIGHT: '1',
    },
    want: {
      intake: {
        pending: { organization: 3, all: 4 },
        openBytes: { organization: 1_048_576, all: 2_097_152 },
        writtenBytes: { organization: 2_000_000, all: 3_000_000 },
      },
      limits: { endpointsPerOrganization: 2, inFlight: 1 },
    },
  },
  {
    given: {
      DAVIT_PARAMETER_PREFIX: '/platform/davit_1.x',
      DAVIT_OPERATOR_PRINCIPAL_ARN: 'arn:aws-cn:iam::123456789012:role/ops/davit',
      DAVIT_REQUIRE_WRITE_ONLY: 'true',
      DAVIT_CLOUD_WRITES_PER_SECOND: '40',
      DAVIT_MAX_CREDENTIALS_PER_ORGANIZATION: '2',
      DAVIT_ACCOUNT_CHECK_INTERVAL: '1m',
      DAVIT_DRIFT_CHECK_INTERVAL: '61s',
    },
    want: {
      cloud: {
        parameterPrefix: '/platform/davit_1.x',
        principalArn: 'arn:aws-cn:iam::123456789012:role/ops/davit',
        requireWriteOnly: true,
        writesPerSecond: 40,
        credentialsPerOrganization: 2,
        accountCheckMs: 60_000,
        driftCheckMs: 61_000,
      },
    },
  },
  { given: { DAVIT_PARAMETER_PREFIX: `/${'a'.repeat(99)}` }, want: {} },
  { given: { DAVIT_PARAMETER_PREFIX: '/a'.repeat(8) }, want: {} },
  {
    given: { DAVIT_NAMESPACE: '', DAVIT_ALLOWED_NETWORKS: '' },
    want: { namespace: 'davit-system', networks: { allowed: [] } },
  },
])('$given is understood', ({ given, want }) => {
  expect(parseConfig(given as Environment)).toMatchObject(want)
})

test('an operator may let a bake take as long as any bake may, and no longer', () => {
  const set = (seconds: number) => parseConfig({ DAVIT_BAKE_DEADLINE: `${seconds}s` })
  expect(set(MAX_DEADLINE_SECONDS).bake.deadlineSeconds).toBe(MAX_DEADLINE_SECONDS)
  expect(() => set(MAX_DEADLINE_SECONDS + 1)).toThrow('DAVIT_BAKE_DEADLINE')
})

test('secrets are apart from what may be logged', () => {
  const environment = { DAVIT_SMTP_URL: 'smtps://user:canary@mail:465', DAVIT_SMTP_FROM: 'a@b.c' }
  expect(parseSecrets(environment)).toEqual({ smtpUrl: 'smtps://user:canary@mail:465' })
  expect(JSON.stringify(parseConfig(environment))).not.toContain('canary')
})

test('the environment of this process is readable', () => {
  expect(readEnvironment().PATH).toBeDefined()
})

test('libraries do not print requests, whatever the environment says', async () => {
  process.env.DEBUG = '*'
  vi.resetModules()
  await import('./config.ts')
  expect(process.env.DEBUG).toBeUndefined()
})
