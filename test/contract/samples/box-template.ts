import { boxTemplateKind } from '../../../src/apis/box-template.ts'
import { type Good, NAME_ALLOWED, samplesOf } from './sample.ts'

const api = { name: 'api', kind: 'custom', image: 'ghcr.io/acme/api:1.4', registryCredentialId: 'rc_ghcr' }
const db = { name: 'db', kind: 'catalog', image: 'docker.io/library/postgres:17' }

export const goodTemplate = {
  name: 'shop',
  spec: {
    services: [api, db],
    instanceRole: { serviceAccountName: 'box' },
    output: { persistentVolumeClaim: 'boxes' },
  },
} satisfies Good

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`
const IMAGE_ALLOWED = ['services[0].image', 'must be an image reference such as ghcr.io/acme/api:1.4']
const ID_ALLOWED = [
  'services[0].registryCredentialId',
  'must be the ID of a credential: rc_ followed by the name',
]
const SERVICE_ALLOWED = ['services[0].name', 'must be a name of at most 40 lowercase letters']

/** With one service. */
const only = (change: Record<string, unknown>) => ({ services: [{ ...api, ...change }] })
const many = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ ...db, name: `service-${index}` }))

const images = [
  'postgres',
  'postgres:17',
  `postgres@${DIGEST}`,
  `ghcr.io/acme/api:1.4@${DIGEST}`,
  'GHCR.IO/acme/api',
  'registry:5000/api',
  'localhost/api',
  'localhost:5000/a/b/c',
  '10.0.0.1:5000/api:TAG',
  '[2001:db8::1]:5000/api',
  'acme/api__one-two.three---four',
  `acme/api:${'a'.repeat(128)}`,
  '123456789012.dkr.ecr.eu-west-1.amazonaws.com/acme/api:1.4',
]

const noImages: [given: string, image: string][] = [
  ['with a scheme', 'https://ghcr.io/acme/api'],
  ['as skopeo writes it', 'docker://ghcr.io/acme/api'],
  ['with a repository in upper case', 'ghcr.io/Acme/api'],
  ['with a name that Docker takes for a host', 'Acme/api'],
  ['with a space', 'ghcr.io/acme/api 1.4'],
  ['with a line end', 'ghcr.io/acme/api\n'],
  ['with a control character', 'ghcr.io/acme/\u0007'],
  ['with an international name', 'b\u00fccher.example/api'],
  ['with an empty tag', 'ghcr.io/acme/api:'],
  ['with a tag of 129 characters', `acme/api:${'a'.repeat(129)}`],
  ['with a tag that begins with a dash', 'acme/api:-a'],
  ['with a short digest', 'acme/api@sha256:0123'],
  ['with a digest of another kind', `acme/api@md5:${'0'.repeat(32)}`],
  ['with two tags', 'acme/api:a:b'],
  ['with two slashes', 'acme//api'],
  ['with a slash at its end', 'acme/api/'],
  ['of a host alone', 'registry.example.com:5000/'],
  ['with a user', 'me@ghcr.io/acme/api'],
  ['with port 0', 'ghcr.io:0/acme/api'],
  ['with a dash at the end of a part', 'acme-/api'],
  ['with two dots', 'acme/a..b'],
]

export const templateSamples = samplesOf(boxTemplateKind, goodTemplate, [
  ['a custom service with a credential, and a catalog service', {}],
  ['a custom service without a credential', { spec: only({ registryCredentialId: undefined }) }],
  [
    'two services of one host with a credential each',
    {
      spec: { services: [api, { ...api, name: 'web', registryCredentialId: 'rc_other' }] },
    },
  ],
  ['20 services', { spec: { services: many(20) } }],
  ['21 services', { spec: { services: many(21) }, refusal: ['spec.services', '20 items'] }],
  ['no services', { spec: { services: undefined }, refusal: ['spec.services: Required value'] }],
  ['an empty list of services', { spec: { services: [] }, refusal: ['spec.services', 'at least 1 items'] }],
  [
    'two services of one name',
    { spec: { services: [api, { ...db, name: 'api' }] }, refusal: ['spec.services[1]: Duplicate value'] },
  ],
  ...images.map((image): [string, object] => [`the image ${image.slice(0, 60)}`, { spec: only({ image }) }]),
  ...noImages.map(([given, image]): [string, { spec: object; refusal: string[] }] => [
    `an image ${given}`,
    { spec: only({ image }), refusal: IMAGE_ALLOWED },
  ]),
  [
    'an image of 64 digits',
    { spec: only({ image: '0'.repeat(64) }), refusal: ['services[0]', 'not a 64-digit image ID'] },
  ],
  ['an empty image', { spec: only({ image: '' }), refusal: ['services[0].image', 'at least 1 chars'] }],
  ['no image', { spec: only({ image: undefined }), refusal: ['services[0].image: Required value'] }],
  [
    'an image of 717 characters',
    { spec: only({ image: `a${'/a'.repeat(358)}` }), refusal: ['services[0].image: Too long', '716'] },
  ],
  [
    'a credential on a catalog service',
    {
      spec: { services: [{ ...db, registryCredentialId: 'rc_ghcr' }] },
      refusal: ['services[0]', 'registryCredentialId must not be set unless kind is custom: catalog images'],
    },
  ],
  [
    'a credential without a role',
    {
      spec: { instanceRole: undefined },
      refusal: ['spec', 'instanceRole must be set if a service has a credential'],
    },
  ],
  ['neither credential nor role', { spec: { services: [db], instanceRole: undefined } }],
  ['a credential without its prefix', { spec: only({ registryCredentialId: 'ghcr' }), refusal: ID_ALLOWED }],
  [
    'a credential of another namespace',
    { spec: only({ registryCredentialId: 'rc_other/ghcr' }), refusal: ID_ALLOWED },
  ],
  ['a credential in upper case', { spec: only({ registryCredentialId: 'rc_GHCR' }), refusal: ID_ALLOWED }],
  ['a credential of 63 characters', { spec: only({ registryCredentialId: `rc_${'a'.repeat(63)}` }) }],
  [
    'a credential of 64 characters',
    {
      spec: only({ registryCredentialId: `rc_${'a'.repeat(64)}` }),
      refusal: ['services[0].registryCredentialId: Too long'],
    },
  ],
  [
    'an unknown kind of service',
    {
      spec: only({ kind: 'other' }),
      refusal: ['services[0].kind: Unsupported value', '"custom", "catalog"'],
    },
  ],
  ['no kind of service', { spec: only({ kind: undefined }), refusal: ['services[0].kind: Required value'] }],
  ['a service of 40 characters', { spec: only({ name: 'a'.repeat(40) }) }],
  [
    'a service of 41 characters',
    { spec: only({ name: 'a'.repeat(41) }), refusal: ['services[0].name: Too long', '40'] },
  ],
  ['a service with a dot', { spec: only({ name: 'a.b' }), refusal: SERVICE_ALLOWED }],
  ['a service named ..', { spec: only({ name: '..' }), refusal: SERVICE_ALLOWED }],
  [
    'an account of another namespace',
    {
      spec: { instanceRole: { serviceAccountName: 'other/box' } },
      refusal: ['spec.instanceRole.serviceAccountName', 'the name of a ServiceAccount'],
    },
  ],
  [
    'a role without an account',
    { spec: { instanceRole: {} }, refusal: ['spec.instanceRole.serviceAccountName: Required value'] },
  ],
  ['no output', { spec: { output: undefined } }],
  [
    'a claim named ..',
    {
      spec: { output: { persistentVolumeClaim: '..' } },
      refusal: ['spec.output.persistentVolumeClaim', 'the name of a PersistentVolumeClaim'],
    },
  ],
  [
    'an output without a claim',
    { spec: { output: {} }, refusal: ['spec.output.persistentVolumeClaim: Required value'] },
  ],
  ['a platform', { spec: { platform: 'linux/amd64' } }],
  ['a platform with a variant', { spec: { platform: 'linux/arm64/v8' } }],
  [
    'half a platform',
    { spec: { platform: 'amd64' }, refusal: ['spec.platform', 'must be a platform such as linux/amd64'] },
  ],
  [
    'a secret in a service',
    {
      spec: only({ password: 'no' }),
      refusal: ['unknown field "spec.services[0].password"'],
      serverOnly: true,
    },
  ],
  ['a name of 63 characters', { name: 'a'.repeat(63) }],
  ['a name of 64 characters', { name: 'a'.repeat(64), refusal: NAME_ALLOWED, serverOnly: true }],
  ['a name with a dot', { name: 'shop.web', refusal: NAME_ALLOWED, serverOnly: true }],
])
