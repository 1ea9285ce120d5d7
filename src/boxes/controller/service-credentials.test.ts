import { describe, expect, test } from 'vitest'
import { bakeStatus } from '../../apis/bake.ts'
import type { BoxTemplateSpec } from '../../apis/box-template.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import { FIXES } from './outcome.ts'
import { type BakeView, prepareBake } from './service-credentials.ts'

const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
const AT = '2026-01-31T12:00:00.000Z'

type Status = NonNullable<RegistryCredential['status']>

function condition(type: string, status: 'True' | 'False', reason = 'Stored') {
  return { type, status, reason, message: `${reason} it is.`, lastTransitionTime: AT }
}

const READY: Status = {
  observedGeneration: 2,
  parameter: {
    name: '/davit/acme/rc_ghcr',
    version: 3,
    region: 'eu-west-1',
    account: '123456789012',
    roleArn: 'arn:aws:iam::123456789012:role/davit',
  },
  conditions: [condition('Ready', 'True'), condition('Stalled', 'False')],
}

function credential(
  spec: Partial<RegistryCredential['spec']> = {},
  status: Status | undefined = READY,
): RegistryCredential {
  return {
    metadata: { name: 'ghcr', namespace: 'acme', uid: 'u-1', resourceVersion: '1', generation: 2 },
    spec: { type: 'token', label: 'GitHub', registry: 'ghcr.io', username: 'bot', ...spec },
    ...(status ? { status } : {}),
  }
}

const ecr = (registry = ECR) => {
  const { username: _none, ...spec } = credential({ type: 'ecr', registry }).spec
  const { parameter: _nothing, ...status } = READY
  return { ...credential(), spec, status }
}

type Service = BoxTemplateSpec['services'][number]
const API: Service = {
  name: 'api',
  kind: 'custom',
  image: 'ghcr.io/acme/api:1.4',
  registryCredentialId: 'rc_ghcr',
}

type Change = Partial<Omit<BakeView, 'credentials'>> & {
  service?: Partial<Service>
  credential?: RegistryCredential | null
}

function prepare({ service, credential: given = credential(), ...change }: Change = {}) {
  return prepareBake({
    isOrganization: true,
    bakeImage: 'davit:1',
    spec: {
      services: [{ ...API, ...service }],
      instanceRole: { serviceAccountName: 'box' },
      output: { persistentVolumeClaim: 'boxes' },
    },
    credentials: new Map(given ? [['ghcr', given]] : []),
    missing: { serviceAccount: false, output: false },
    ...change,
  })
}

/** Every four words that follow each other. */
function rowsOfWords(text: string): string[] {
  const words = text.toLowerCase().match(/[\w./=-]*\w/g) ?? []
  return words.slice(3).map((_, at) => words.slice(at, at + 4).join(' '))
}

describe('what is wrong before there is a Job', () => {
  const rows: [
    given: string,
    change: Change,
    want: { code: string; words: string[]; waits?: true; service?: undefined },
  ][] = [
    [
      'a namespace that is no organization',
      { isOrganization: false },
      { code: 'not_an_organization', words: ['davit.dev/organization is not "true"'], service: undefined },
    ],
    [
      'an image that cannot be read',
      { service: { image: 'ghcr.io/Acme/api' } },
      { code: 'invalid_image', words: ['The image reference must have a lowercase repository name'] },
    ],
    [
      'a credential on a catalog service',
      { service: { kind: 'catalog' } },
      { code: 'catalog_credential', words: ['from a public registry'] },
    ],
    [
      'a credential that is not there',
      { credential: null },
      { code: 'credential_unknown', words: ['rc_ghcr'], waits: true },
    ],
    [
      'a credential of another host',
      { credential: credential({ registry: 'quay.io' }) },
      { code: 'host_mismatch', words: ['rc_ghcr is for quay.io, but the image is in ghcr.io.'] },
    ],
    [
      'a credential of another port',
      { credential: credential({ registry: 'ghcr.io:8443' }) },
      { code: 'host_mismatch', words: ['ghcr.io:8443', 'the image is in ghcr.io'] },
    ],
    [
      'a credential of ECR for an image elsewhere',
      { credential: ecr() },
      { code: 'host_mismatch', words: [ECR, 'the image is in ghcr.io'] },
    ],
    [
      'a credential for another region of ECR',
      { credential: ecr(), service: { image: `${ECR.replace('eu-west-1', 'us-east-1')}/api` } },
      { code: 'ecr_region_mismatch', words: [`rc_ghcr is for ${ECR}, but`, 'us-east-1'] },
    ],
    [
      'a credential for another account of ECR',
      { credential: ecr(), service: { image: `${ECR.replace('1234', '9999')}/api` } },
      { code: 'ecr_account_mismatch', words: [`rc_ghcr is for ${ECR}, but`, '999956789012'] },
    ],
    [
      'a credential for the same ECR under another name',
      { credential: ecr(), service: { image: '123456789012.dkr-ecr.eu-west-1.on.aws/api' } },
      { code: 'host_mismatch', words: ['Both names refer to the same registry'] },
    ],
    [
      'a credential for what only looks like its ECR',
      { credential: ecr(), service: { image: `${ECR}.evil.example/api` } },
      { code: 'host_mismatch', words: [`the image is in ${ECR}.evil.example`] },
    ],
    [
      'a credential that nobody has looked at',
      { credential: credential({}, { observedGeneration: -1 }) },
      {
        code: 'credential_not_ready',
        words: ['has not yet processed the latest change to rc_ghcr'],
        waits: true,
      },
    ],
    [
      'a credential whose spec has changed since',
      { credential: credential({}, { ...READY, observedGeneration: 1 }) },
      {
        code: 'credential_not_ready',
        words: ['has not yet processed the latest change to rc_ghcr'],
        waits: true,
      },
    ],
    [
      'a credential that waits for its Secret',
      {
        credential: credential(
          {},
          {
            ...READY,
            conditions: [condition('Ready', 'False', 'SecretMissing'), condition('Stalled', 'False')],
          },
        ),
      },
      {
        code: 'credential_not_ready',
        words: ['The Ready condition of rc_ghcr has the reason SecretMissing. SecretMissing it is.'],
        waits: true,
      },
    ],
    [
      'a credential that somebody has to mend',
      {
        credential: credential(
          {},
          {
            ...READY,
            conditions: [
              condition('Ready', 'False', 'AccessDenied'),
              condition('Stalled', 'True', 'AccessDenied'),
            ],
          },
        ),
      },
      { code: 'credential_not_ready', words: ['AccessDenied'] },
    ],
    [
      'a role that is not there',
      { missing: { serviceAccount: true, output: false } },
      { code: 'service_account_missing', words: ['the ServiceAccount box'], waits: true, service: undefined },
    ],
    [
      'a claim that is not there',
      { missing: { serviceAccount: false, output: true } },
      { code: 'output_missing', words: ['the PersistentVolumeClaim boxes'], waits: true, service: undefined },
    ],
    [
      'no image for bakes',
      { bakeImage: undefined },
      { code: 'bake_image_missing', words: ['No bake image is configured.'], service: undefined },
    ],
  ]

  test.for(rows)('%s', ([, change, want]) => {
    const { problem, services } = prepare(change)
    expect(services).toBeUndefined()
    expect(problem).toMatchObject({ code: want.code, waits: want.waits ?? false })
    expect(problem?.service).toBe('service' in want ? undefined : 'api')
    for (const words of want.words) expect(problem?.message).toContain(words)
  })

  test.for(rows)('of %s, the details do not repeat the fix', ([, change]) => {
    const { problem } = prepare(change)
    if (problem === undefined) throw new Error('there is no problem')
    const ofFix = rowsOfWords(FIXES[problem.code])
    expect(rowsOfWords(problem.message).filter((row) => ofFix.includes(row))).toEqual([])
  })

  test.for([
    ['nothing', 'The namespace has no ConfigMap trust (DAVIT_BAKE_CA_CONFIG_MAP).'],
    ['no certificates', 'no PEM certificate under the key ca.crt'],
    ['refused', 'is not allowed to read'],
    ['certificates', undefined],
  ] as const)('of the authorities of bakes there is: %s', ([found, words]) => {
    const { problem } = prepare({ ca: { configMap: 'trust', key: 'ca.crt', found } })
    const wanted = { code: 'ca_missing', waits: true, message: expect.stringContaining(words ?? '') }
    expect(problem).toEqual(words && wanted)
  })

  test('the first of several services is named', () => {
    const services: Service[] = [API, { ...API, name: 'web', image: 'quay.io/acme/web' }]
    const { problem } = prepare({ spec: { services } })
    expect(problem).toMatchObject({ service: 'web', code: 'host_mismatch' })
  })
})

describe('what is to be pulled', () => {
  test('has its credential with the pinned version, and says why it is this one', () => {
    expect(prepare().services).toEqual([
      {
        name: 'api',
        image: 'ghcr.io/acme/api:1.4',
        credential: {
          id: 'rc_ghcr',
          uid: 'u-1',
          generation: 2,
          type: 'token',
          registry: 'ghcr.io',
          username: 'bot',
          parameter: { name: '/davit/acme/rc_ghcr', version: 3, region: 'eu-west-1' },
        },
        why: "The service references rc_ghcr, which is for ghcr.io, the host of the service's image.",
      },
    ])
  })

  test('with ECR has no parameter', () => {
    const { services } = prepare({ credential: ecr(), service: { image: `${ECR}/acme/api` } })
    expect(services?.[0]?.credential).toEqual({
      id: 'rc_ghcr',
      uid: 'u-1',
      generation: 2,
      type: 'ecr',
      registry: ECR,
    })
  })

  test('without a credential has none', () => {
    const { services } = prepare({ spec: { services: [{ name: 'db', kind: 'catalog', image: 'postgres' }] } })
    expect(services).toEqual([{ name: 'db', image: 'docker.io/library/postgres:latest' }])
  })

  test('from one host with two credentials has each its own', () => {
    const services: Service[] = [API, { ...API, name: 'web', registryCredentialId: 'rc_other' }]
    const credentials = new Map([
      ['ghcr', credential()],
      ['other', credential({ username: 'other' })],
    ])
    const view = { isOrganization: true, bakeImage: 'x', missing: { serviceAccount: false, output: false } }
    const prepared = prepareBake({ ...view, spec: { services }, credentials }).services
    expect(prepared?.map(({ credential: of }) => [of?.id, of?.username])).toEqual([
      ['rc_ghcr', 'bot'],
      ['rc_other', 'other'],
    ])
    expect(prepared?.map(({ why }) => why)).toEqual([
      expect.stringMatching(/^The service references rc_ghcr, .* Other services use rc_other for that host;/),
      expect.stringMatching(/^The service references rc_other, .* Other services use rc_ghcr for that host;/),
    ])
  })

  test('has a reason that fits into a status, however many credentials one host has', () => {
    const registry = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(61)}:65535`
    const names = Array.from({ length: 20 }, (_, index) => `${'n'.repeat(61)}${index + 10}`)
    const image = `${registry}/api`
    const services = names.map((name, index): Service => {
      return { ...API, name: `s-${index}`, image, registryCredentialId: `rc_${name}` }
    })
    const credentials = new Map(names.map((name) => [name, credential({ registry })]))
    const view = { isOrganization: true, bakeImage: 'x', missing: { serviceAccount: false, output: false } }
    const prepared = prepareBake({ ...view, spec: { services }, credentials }).services ?? []
    expect(prepared).toHaveLength(20)
    for (const { name, why = '' } of prepared) {
      expect(why).toContain('and 18 more for that host')
      const baked = { name, image, credential: { id: 'rc_a', why } }
      const status = { state: 'pending', number: 1, attempts: 1, services: [baked] }
      expect(bakeStatus.safeParse(status).error).toBeUndefined()
    }
  })

  test.for([
    ['ghcr.io:443', 'ghcr.io/acme/api'],
    ['ghcr.io', 'ghcr.io:443/acme/api'],
    ['GHCR.io.', 'Ghcr.io:443/acme/api'],
    ['ghcr.io.:443', 'ghcr.io/acme/api'],
    ['localhost:443', 'localhost/acme/api'],
    ['[2001:DB8:0::1]:443', '[2001:db8::1]/acme/api'],
  ] as const)('with a credential for %s matches the image %s', ([registry, image]) => {
    const { services, problem } = prepare({ credential: credential({ registry }), service: { image } })
    expect(problem).toBeUndefined()
    expect(services?.[0]?.image).toBe(`${services?.[0]?.credential?.registry}/acme/api:latest`)
  })

  test('with ECR matches a host with the port of HTTPS', () => {
    const { services } = prepare({ credential: ecr(`${ECR}:443`), service: { image: `${ECR}/acme/api` } })
    expect(services?.[0]?.credential).toMatchObject({ type: 'ecr', registry: ECR })
  })

  test.for([
    'docker.io',
    'index.docker.io',
    'registry-1.docker.io',
    'DOCKER.IO',
    'docker.io:443',
    'index.docker.io.:443',
    'registry.hub.docker.com',
  ])('from Docker Hub takes a credential for %s', (registry) => {
    const { services } = prepare({ credential: credential({ registry }), service: { image: 'acme/api' } })
    expect(services?.[0]?.credential?.registry).toBe('docker.io')
  })
})
