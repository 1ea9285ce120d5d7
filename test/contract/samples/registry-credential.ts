import { registryCredentialKind } from '../../../src/apis/registry-credential.ts'
import { EMOJI, type Good, NAME_ALLOWED, samplesOf } from './sample.ts'

export const goodCredential = {
  name: 'ghcr',
  spec: {
    type: 'token',
    label: 'GitHub packages',
    registry: 'ghcr.io',
    username: 'acme-bot',
    secretRef: { name: 'ghcr-handover' },
  },
} satisfies Good

const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
const ecr = { type: 'ecr', registry: ECR, username: undefined, secretRef: undefined }
const L63 = 'a'.repeat(63)
const N253 = `${L63}.${L63}.${L63}.${'a'.repeat(61)}`

const REGISTRY_ALLOWED = ['spec.registry', 'must be the host of a registry such as ghcr.io']
const USERNAME_ALLOWED = ['spec.username', 'must be a user name without colons or control characters']
const SECRET_ALLOWED = ['spec.secretRef.name', 'the name of a Secret']

const hosts = [
  'registry.example.com:5000',
  'GHCR.IO',
  'ghcr.io.',
  'localhost',
  'registry:1',
  'registry:65535',
  '10.0.0.1:5000',
  '[2001:db8::1]:5000',
  'xn--bcher-kva.example',
  `${L63}.example`,
  N253,
  `${N253}:5000`,
  ECR,
]

const noHosts: [given: string, registry: string][] = [
  ['a scheme', 'https://ghcr.io'],
  ['a path', 'ghcr.io/acme'],
  ['a slash at the end', 'ghcr.io/'],
  ['a reference', 'ghcr.io/acme/api:1.4'],
  ['a tag', 'ghcr.io:latest'],
  ['a user', 'me@ghcr.io'],
  ['a query', 'ghcr.io?a=b'],
  ['a fragment', 'ghcr.io#a'],
  ['a space', 'ghcr.io '],
  ['a line end', 'ghcr.io\n'],
  ['a control character', 'ghcr\u0007.io'],
  ['an international name', 'b\u00fccher.example'],
  ['letters that look like others', 'gh\u0441r.io'],
  ['a name without dot and port', 'registry'],
  ['64 hexadecimal digits', '0123456789abcdef'.repeat(4)],
  ['64 characters between dots', `${L63}a.example`],
  ['an empty part', 'ghcr..io'],
  ['a dash at the end of a part', 'ghcr-.io'],
  ['an underscore', 'my_registry.example'],
  ['port 0', 'ghcr.io:0'],
  ['port 65536', 'ghcr.io:65536'],
  ['a port with a zero before it', 'ghcr.io:0443'],
  ['no port behind the colon', 'ghcr.io:'],
  ['IPv6 without brackets', '2001:db8::1'],
  ['IPv6 with a zone', '[fe80::1%eth0]:5000'],
]

export const credentialSamples = samplesOf(registryCredentialKind, goodCredential, [
  ['a token with its Secret', {}],
  ['a token as REST makes it, without a Secret', { spec: { secretRef: undefined } }],
  ['a token for ECR', { spec: { registry: ECR, username: 'AWS' } }],
  ['ecr', { spec: ecr }],
  ...hosts.map((registry): [string, object] => [`the registry ${registry}`, { spec: { registry } }]),
  ...noHosts.map(([given, registry]): [string, { spec: object; refusal: string[] }] => [
    `a registry with ${given}`,
    { spec: { registry }, refusal: REGISTRY_ALLOWED },
  ]),
  [
    'a registry of 260 characters',
    { spec: { registry: `${N253}.:65535` }, refusal: ['spec.registry: Too long', '259'] },
  ],
  ['an empty registry', { spec: { registry: '' }, refusal: ['spec.registry', 'at least 1 chars'] }],
  ['no registry', { spec: { registry: undefined }, refusal: ['spec.registry: Required value'] }],
  ['no type', { spec: { type: undefined }, refusal: ['spec.type: Required value'] }],
  ['an unknown type', { spec: { type: 'gcr' }, refusal: ['spec.type: Unsupported value', '"token", "ecr"'] }],
  ['no label', { spec: { label: undefined }, refusal: ['spec.label: Required value'] }],
  ['an empty label', { spec: { label: '' }, refusal: ['spec.label', 'at least 1 chars'] }],
  ['a label of 100 emoji', { spec: { label: EMOJI.repeat(100) } }],
  ['a label of 101 emoji', { spec: { label: EMOJI.repeat(101) }, refusal: ['spec.label: Too long', '100'] }],
  [
    'a token without a user name',
    { spec: { username: undefined }, refusal: ['spec', 'username must be set if type is token'] },
  ],
  [
    'ecr with a user name',
    { spec: { ...ecr, username: 'AWS' }, refusal: ['spec', 'username must not be set unless type is token'] },
  ],
  [
    'ecr with a Secret',
    {
      spec: { ...ecr, secretRef: { name: 'a' } },
      refusal: ['spec', 'secretRef must not be set unless type is token'],
    },
  ],
  ['a user name with a colon', { spec: { username: 'acme:bot' }, refusal: USERNAME_ALLOWED }],
  ['a user name with a line end', { spec: { username: 'acme\nbot' }, refusal: USERNAME_ALLOWED }],
  [
    'a user name with a control character',
    { spec: { username: 'acme\u0000bot' }, refusal: USERNAME_ALLOWED },
  ],
  ['an empty user name', { spec: { username: '' }, refusal: ['spec.username', 'at least 1 chars'] }],
  ['a user name of a robot', { spec: { username: 'robot$acme+pull' } }],
  ['a user name of 255 characters', { spec: { username: 'a'.repeat(255) } }],
  [
    'a user name of 256 characters',
    { spec: { username: 'a'.repeat(256) }, refusal: ['spec.username: Too long', '255'] },
  ],
  ['a Secret in another namespace', { spec: { secretRef: { name: 'other/a' } }, refusal: SECRET_ALLOWED }],
  ['a Secret named ..', { spec: { secretRef: { name: '..' } }, refusal: SECRET_ALLOWED }],
  ['a Secret without a name', { spec: { secretRef: {} }, refusal: ['spec.secretRef.name: Required value'] }],
  [
    'a secret in the spec',
    { spec: { secret: 'no' }, refusal: ['unknown field "spec.secret"'], serverOnly: true },
  ],
  ['a name of 63 characters', { name: L63 }],
  ['a name of 64 characters', { name: `${L63}a`, refusal: NAME_ALLOWED, serverOnly: true }],
  ['a name with a dot', { name: 'ghcr.io', refusal: NAME_ALLOWED, serverOnly: true }],
])
