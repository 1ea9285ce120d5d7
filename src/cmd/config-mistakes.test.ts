/** What is refused of settings, and how that is said. */
import { expect, test } from 'vitest'
import { ConfigError, type Environment, parseConfig } from './config.ts'

function mistakesOf(environment: Environment) {
  try {
    parseConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes
    throw error
  }
  return []
}

test.each([
  { given: { DAVIT_NAMESPACE: 'Ops' }, want: 'valid namespace name' },
  { given: { DAVIT_NAMESPACE: '../x' }, want: 'valid namespace name' },
  { given: { DAVIT_REPLICA: 'a.b' }, want: 'lowercase letters' },
  { given: { DAVIT_ALLOWED_NETWORKS: '10.0.0.1' }, want: 'CIDR' },
  { given: { DAVIT_DENIED_NETWORKS: '203.0.114.7' }, want: 'CIDR' },
  { given: { DAVIT_DENIED_NETWORKS: '::ffff:203.0.114.7/128' }, want: '::ffff' },
  { given: { DAVIT_ALLOWED_NETWORKS: '10.0.0.0/33' }, want: 'CIDR' },
  { given: { DAVIT_ALLOWED_NETWORKS: 'fd00::/129' }, want: 'CIDR' },
  { given: { DAVIT_ALLOWED_NETWORKS: '10.0.0.0/8,' }, want: 'CIDR' },
  { given: { DAVIT_ALLOWED_NETWORKS: '10.0.0.0/8/8' }, want: 'CIDR' },
  { given: { DAVIT_ALLOWED_NETWORKS: 'fe80::1%eth0/64' }, want: 'CIDR' },
  { given: { DAVIT_ALLOWED_NETWORKS: 'example.com/8' }, want: 'CIDR' },
  { given: { DAVIT_OPS_ADDRESS: '9090' }, want: 'address and a port' },
  { given: { DAVIT_OPS_ADDRESS: '0.0.0.0:65536' }, want: 'address and a port' },
  { given: { DAVIT_OPS_ADDRESS: '[0.0.0.0]:80' }, want: 'address and a port' },
  { given: { DAVIT_OPS_ADDRESS: 'example.com:80' }, want: 'address and a port' },
  { given: { DAVIT_API_KEY_FILE: '/tls.key' }, want: 'TLS requires both files' },
  { given: { DAVIT_API_CERTIFICATE_FILE: '/tls.crt' }, want: 'TLS requires both files' },
  { given: { DAVIT_LOG_LEVEL: 'verbose' }, want: 'info, warn or error' },
  { given: { DAVIT_WAIT_SCALE: '0' }, want: '0.001 to 1' },
  { given: { DAVIT_WAIT_SCALE: '2' }, want: '0.001 to 1' },
  { given: { DAVIT_WAIT_SCALE: '1e-2' }, want: '0.001 to 1' },
  { given: { DAVIT_SMTP_FROM: 'davit' }, want: 'email address' },
  { given: { DAVIT_SMTP_FROM: 'a@b.c\r\nBcc: x@y.z' }, want: 'email address' },
  { given: { DAVIT_SMTP_FROM: 'A\n<a@b.c>' }, want: 'email address' },
  ...[
    'davit',
    'localhost',
    '127.0.0.1',
    '[127.0.0.1',
    '[::1]',
    'davit.example.com\r\nMAIL',
    'a..b',
    '-a.b',
    'bücher.example',
  ].map((name) => ({ given: { DAVIT_SMTP_EHLO_NAME: name }, want: 'must be a host name with a dot' })),
  { given: { DAVIT_SMTP_URL: 'smtp://mail:25' }, want: 'must be set if DAVIT_SMTP_URL is set' },
  { given: { DAVIT_PARAMETER_PREFIX: 'davit' }, want: 'a path such as /davit' },
  { given: { DAVIT_PARAMETER_PREFIX: '/davit/' }, want: 'a path such as /davit' },
  { given: { DAVIT_PARAMETER_PREFIX: '/' }, want: 'a path such as /davit' },
  { given: { DAVIT_PARAMETER_PREFIX: '/davit/*' }, want: 'a path such as /davit' },
  { given: { DAVIT_PARAMETER_PREFIX: '/Aws-davit' }, want: 'must not begin with aws or ssm' },
  { given: { DAVIT_PARAMETER_PREFIX: '/ssm' }, want: 'must not begin with aws or ssm' },
  { given: { DAVIT_PARAMETER_PREFIX: `/${'a'.repeat(100)}` }, want: 'at most 100' },
  { given: { DAVIT_PARAMETER_PREFIX: '/a'.repeat(9) }, want: 'at most 8 parts' },
  { given: { DAVIT_REQUIRE_WRITE_ONLY: 'yes' }, want: 'true or false' },
  { given: { DAVIT_OPERATOR_PRINCIPAL_ARN: 'arn:aws:iam::123456789012:root' }, want: 'IAM role or user' },
  { given: { DAVIT_OPERATOR_PRINCIPAL_ARN: '*' }, want: 'IAM role or user' },
  {
    given: { DAVIT_FORMER_ORGANIZATION_UIDS: 'acme=0d9c2f61-2f5b-4a55-8a39-6f4f4f0f8d10' },
    want: 'pairs of UIDs',
  },
  { given: { DAVIT_BAKE_IMAGE_PULL_POLICY: 'always' }, want: 'Always, IfNotPresent or Never' },
  { given: { DAVIT_BAKE_IMAGE_PULL_SECRETS: 'a,,b' }, want: 'names of objects' },
  { given: { DAVIT_BAKE_IMAGE_PULL_SECRETS: 'A_B' }, want: 'names of objects' },
  { given: { DAVIT_BAKE_POD_SECURITY_CONTEXT: 'runAsUser: null' }, want: 'as JSON' },
  { given: { DAVIT_BAKE_POD_SECURITY_CONTEXT: '{"runAsUser":0}' }, want: 'runAsUser' },
  { given: { DAVIT_BAKE_POD_SECURITY_CONTEXT: '{"runAsNonRoot":false}' }, want: 'runAsNonRoot' },
  { given: { DAVIT_BAKE_POD_SECURITY_CONTEXT: '{"seccompProfile":{"type":"Unconfined"}}' }, want: 'type' },
  { given: { DAVIT_BAKE_POD_SECURITY_CONTEXT: '{"appArmorProfile":{"type":"Unconfined"}}' }, want: 'type' },
  {
    given: { DAVIT_BAKE_POD_SECURITY_CONTEXT: '{"windowsOptions":{"hostProcess":true}}' },
    want: 'windowsOptions',
  },
  { given: { DAVIT_BAKE_POD_SECURITY_CONTEXT: '{"sysctls":[]}' }, want: 'sysctls' },
  { given: { DAVIT_BAKE_NODE_SELECTOR: 'pool=bakes' }, want: 'a node selector as JSON' },
  { given: { DAVIT_BAKE_NODE_SELECTOR: '{"pool":true}' }, want: 'pool' },
  { given: { DAVIT_BAKE_NODE_SELECTOR: '{"a b":"c"}' }, want: 'a node selector as JSON' },
  { given: { DAVIT_BAKE_TOLERATIONS: '{"key":"bakes"}' }, want: 'a list of tolerations as JSON' },
  { given: { DAVIT_BAKE_TOLERATIONS: '[{"operator":"exists"}]' }, want: '0.operator' },
  { given: { DAVIT_BAKE_TOLERATIONS: '[{"seconds":1}]' }, want: 'seconds' },
  { given: { DAVIT_BAKE_AFFINITY: '{"hostAffinity":{}}' }, want: 'hostAffinity' },
  { given: { DAVIT_BAKE_PRIORITY_CLASS: 'Batch Low' }, want: 'PriorityClass' },
  { given: { DAVIT_BAKE_POD_LABELS: '{"team":"a b"}' }, want: 'team' },
  { given: { DAVIT_BAKE_POD_ANNOTATIONS: '{"note":1}' }, want: 'note' },
  { given: { DAVIT_MAX_IN_FLIGHT: '0' }, want: 'from 1 to 65536' },
  { given: { DAVIT_MAX_IN_FLIGHT: '1.5' }, want: 'from 1 to 65536' },
  { given: { DAVIT_MAX_IN_FLIGHT: '0x10' }, want: 'from 1 to 65536' },
  { given: { DAVIT_MAX_IN_FLIGHT: ' 5' }, want: 'from 1 to 65536' },
  { given: { DAVIT_MAX_LOG_BYTES: '5' }, want: 'from 1Mi' },
  { given: { DAVIT_MAX_PENDING: '10', DAVIT_MAX_PENDING_PER_ORGANIZATION: '11' }, want: 'not be more than' },
  { given: { DAVIT_MAX_WRITTEN_BYTES: '2000000' }, want: 'not be more than DAVIT_MAX_WRITTEN_BYTES' },
  { given: { DAVIT_BAKE_IMAGE: 'https://davit' }, want: 'an image reference' },
  { given: { DAVIT_BAKE_MEMORY: 'much' }, want: 'memory' },
  { given: { DAVIT_BAKE_CA_CONFIG_MAP: 'Trust' }, want: 'name of a ConfigMap' },
  { given: { DAVIT_BAKE_CA_CONFIG_MAP: 'trust/' }, want: 'name of a ConfigMap' },
  { given: { DAVIT_BAKE_CA_CONFIG_MAP: 'trust/..' }, want: 'name of a ConfigMap' },
  { given: { DAVIT_BAKE_CA_CONFIG_MAP: 'acme/trust/ca.crt' }, want: 'name of a ConfigMap' },
  { given: { AWS_ENDPOINT_URL_SSM: 'ssm.example.com' }, want: 'http or https URL' },
  { given: { AWS_USE_FIPS_ENDPOINT: 'yes' }, want: 'true or false' },
  { given: { DAVIT_BAKE_DEADLINE: '59s' }, want: 'from 1m to 12h' },
  { given: { DAVIT_MAX_BAKES: '4' }, want: 'not be more than DAVIT_MAX_BAKES' },
  { given: { DAVIT_NAMESPCAE: 'ops' }, want: 'is not a setting; valid settings are DAVIT_NAMESPACE' },
])('$given is refused and says what is allowed', ({ given, want }) => {
  expect(() => parseConfig(given as Environment)).toThrow(want)
  expect(mistakesOf(given as Environment)).toHaveLength(1)
})

test.each([
  'http://mail:25',
  'smtp://',
  'mail:25',
  'smtp://u@mail',
  'smtp://m?tls.rejectUnauthorized=false',
  'smtp://m/x',
])('the mail server %s is refused without being shown', (url) => {
  const [mistake, ...others] = mistakesOf({ DAVIT_SMTP_URL: url, DAVIT_SMTP_FROM: 'a@b.c' })
  expect(others).toEqual([])
  expect(mistake).toEqual({
    variable: 'DAVIT_SMTP_URL',
    allowed: expect.stringContaining('smtp://host:port'),
  })
})

test.each(['https://user:canary@ssm.example.com', 'https://canary@ssm.example.com', 'ftp://canary'])(
  'the endpoint %s of AWS, which Jobs would show, is refused without being shown',
  (url) => {
    expect(mistakesOf({ AWS_ENDPOINT_URL_SSM: url })).toEqual([
      {
        variable: 'AWS_ENDPOINT_URL_SSM',
        allowed: expect.stringContaining('without a user name or password'),
      },
    ])
  },
)

test('all mistakes are reported at once, each with the value that was given', () => {
  const mistakes = mistakesOf({
    DAVIT_NAMESPACE: 'Ops',
    DAVIT_MAX_IN_FLIGHT: 'many',
    DAVIT_TYPO: 'x',
    DAVIT_SMTP_URL: 'ftp://user:canary@mail',
  })
  expect(mistakes.map(({ variable, given }) => [variable, given])).toEqual([
    ['DAVIT_TYPO', undefined],
    ['DAVIT_NAMESPACE', '"Ops"'],
    ['DAVIT_SMTP_URL', undefined],
    ['DAVIT_MAX_IN_FLIGHT', '"many"'],
    ['DAVIT_SMTP_FROM', undefined],
  ])
  expect(() => parseConfig({ DAVIT_SMTP_URL: 'ftp://user:canary@mail' })).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('canary') }),
  )
})

test('the variables that Kubernetes makes for Services named davit are no mistakes', () => {
  const links = {
    DAVIT_SERVICE_HOST: '10.0.0.1',
    DAVIT_METRICS_SERVICE_PORT: '9090',
    DAVIT_METRICS_SERVICE_PORT_HTTP: '9090',
    DAVIT_METRICS_PORT: 'tcp://10.0.0.1:9090',
    DAVIT_METRICS_PORT_9090_TCP: 'tcp://10.0.0.1:9090',
    DAVIT_METRICS_PORT_9090_TCP_ADDR: '10.0.0.1',
  }
  expect(mistakesOf(links)).toEqual([])
})
