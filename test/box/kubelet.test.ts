/**
 * kubelet's own code, from reading the configuration of the page to the login for a pull, with davit-credential-provider as it
 * runs it, tokens of a real API server, and an account that trusts those.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BoxCredential } from '../../src/apis/box-credentials.ts'
import type { Role } from '../../test-support/aws/account.ts'
import { ACCOUNT, BoxBed, PROGRAMS, REGION, readerOf } from '../support/box/box-bed.ts'
import { blockOf } from '../support/box/page.ts'
import { testNamespace } from '../support/control-plane.ts'
import { BUILD_LIMIT_MS } from '../support/go-program.ts'
import { makeServiceAccount, tokenOf, trustCluster } from '../support/kubelet/cluster-identity.ts'
import { buildKubeletPull, KubeletPull, type PullAnswer } from '../support/kubelet/kubelet-pull.ts'
import { AUDIENCE, addPodRole, ROLE_KEY, SERVICE_ACCOUNT } from '../support/kubelet/pod-role.ts'
import { RecordedProvider } from '../support/kubelet/recorded-provider.ts'

const NAME = 'davit-credential-provider'
const HOST = 'registry.example.com:5000'
const ECR = `${ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com`
const VERSION = 'credentialprovider.kubelet.k8s.io/v1'
const NONE: PullAnswer = { credentials: [], audiences: [AUDIENCE] }

let bed: BoxBed
let program: string
let issuer: string
let acme: string
let other: string
let role: Role
let provider: RecordedProvider
let kubelet: KubeletPull

beforeAll(async () => {
  program = await buildKubeletPull()
  bed = await BoxBed.start()
  issuer = await trustCluster(bed.account)
  acme = await testNamespace('box')
  other = await testNamespace('box-other')
  await Promise.all([makeServiceAccount(acme), makeServiceAccount(other)])
  role = podRole('box', acme)
  await fillMaps()
}, BUILD_LIMIT_MS)

beforeEach(async () => {
  provider = await RecordedProvider.make(bed.folder, NAME, join(PROGRAMS, NAME))
  kubelet = await startKubelet(blockOf('yaml', 'CredentialProviderConfig'), provider.folder)
  bed.aws.trail.clear()
})

afterEach(() => kubelet?.stop())

afterAll(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

async function fillMaps(): Promise<void> {
  const token = (id: string, repository: string, organization: string) =>
    bed.token({ id, registry: HOST, repositories: [repository], secret: `secret of ${id}`, organization })
  const ecr: BoxCredential = { id: 'rc_ecr', type: 'ecr', registry: ECR, repositories: ['api'] }
  await bed.map(
    'web',
    [await token('rc_one', 'one/api', acme), await token('rc_two', 'two/web', acme), ecr],
    acme,
  )
  await bed.map('web', [await token('rc_own', 'own/api', other)], other)
}

function podRole(name: string, namespace: string, audience?: string): Role {
  return addPodRole(bed.account, { name, namespace, issuer, ...(audience !== undefined && { audience }) })
}

/** @param text a CredentialProviderConfig, but for where the maps are */
async function startKubelet(text: string, folder: string): Promise<KubeletPull> {
  const path = join(folder, 'config.yaml')
  const environment = bed.environment()
  await writeFile(path, text.replace('value: /etc/davit', `value: ${environment.DAVIT_CREDENTIALS}`))
  return new KubeletPull(program, path, folder, environment)
}

async function pull(
  image: string,
  more: { namespace?: string; roleArn?: string | undefined } = {},
): Promise<PullAnswer> {
  const { namespace = acme } = more
  const roleArn = 'roleArn' in more ? more.roleArn : role.arn
  return await kubelet.ask({
    namespace,
    pod: 'web-0',
    uid: 'uid-of-web-0',
    serviceAccount: SERVICE_ACCOUNT,
    annotations: roleArn === undefined ? {} : { [ROLE_KEY]: roleArn },
    token: await tokenOf(namespace),
    image,
  })
}

const count = (operation: string) => bed.aws.trail.entries({ operation }).length
const passwordOf = ({ credentials }: PullAnswer) => credentials.map(({ password }) => password)

describe('a pod without imagePullSecrets', () => {
  it('pulls with what its own role may read, asked for with its own token', async () => {
    expect(await pull(`${HOST}/one/api`)).toEqual({
      credentials: [{ username: 'acme-bot', password: 'secret of rc_one' }],
      audiences: [AUDIENCE],
    })
    const [read] = bed.aws.trail.entries({ operation: 'GetParameter' })
    expect(read?.principal).toBe(`arn:aws:sts::${ACCOUNT}:assumed-role/box/davit-${acme}`)
  })

  it('has the right one of two credentials of a host, and the image beside it too', async () => {
    expect(passwordOf(await pull(`${HOST}/two/web`))).toEqual(['secret of rc_two'])
    expect(passwordOf(await pull(`${HOST}/one/worker`))).toEqual(['secret of rc_one'])
  })

  it('asks AWS once for an image, and once for each image', async () => {
    await pull(`${HOST}/one/api`)
    await pull(`${HOST}/one/api`)
    expect(count('GetParameter')).toBe(1)
    await pull(`${HOST}/one/worker`)
    expect(count('GetParameter')).toBe(2)
  })

  it('asks ECR once for a registry', async () => {
    const [first, second] = [await pull(`${ECR}/api`), await pull(`${ECR}/team/other`)]
    expect(first.credentials).toEqual(second.credentials)
    const [login] = first.credentials
    expect(bed.aws.verifyEcrPassword({ username: '', password: '', region: REGION, ...login }).ok).toBe(true)
    expect(count('GetAuthorizationToken')).toBe(1)
  })

  it('has none for an image that no map knows, which is no error', async () => {
    expect(await pull(`${HOST}/three/api`)).toEqual(NONE)
    expect(await pull('docker.io/library/postgres')).toEqual(NONE)
    expect(kubelet.log).toBe('')
    expect(bed.aws.trail.entries({})).toEqual([])
  })

  it('has none that is of another organization', async () => {
    expect(await pull(`${HOST}/own/api`)).toEqual(NONE)
    const { arn } = podRole('box-of-other', other)
    expect(await pull(`${HOST}/one/api`, { namespace: other, roleArn: arn })).toEqual(NONE)
    expect(passwordOf(await pull(`${HOST}/own/api`, { namespace: other, roleArn: arn }))).toEqual([
      'secret of rc_own',
    ])
  })

  it('has none where its account names no role: the provider does not run', async () => {
    expect(await pull(`${HOST}/one/api`, { roleArn: undefined })).toEqual({ credentials: [], audiences: [] })
    expect(await provider.dialogues()).toEqual([])
  })

  it("has none with another organization's role, and kubelet's log says why", async () => {
    expect(await pull(`${HOST}/own/api`, { namespace: other })).toEqual(NONE)
    expect(kubelet.log).toContain('rc_own: AccessDenied (sts:AssumeRoleWithWebIdentity)')
    expect(kubelet.log).toContain(`The trust policy of ${role.arn} must allow`)
  })

  it('has none where the role wants another audience', async () => {
    const { arn } = podRole('box-elsewhere', acme, 'elsewhere.example.com')
    expect(await pull(`${HOST}/one/api`, { roleArn: arn })).toEqual(NONE)
    expect(kubelet.log).toContain('and the audience that is configured in kubelet')
  })
})

describe('a node whose role fetches', () => {
  const OPTIONAL = blockOf('yaml', 'CredentialProviderConfig').replace(
    'requiredServiceAccountAnnotationKeys',
    'optionalServiceAccountAnnotationKeys',
  )

  it('pulls for a pod whose account has no role, out of the maps of its organization', async () => {
    kubelet.stop()
    kubelet = await startKubelet(OPTIONAL, provider.folder)
    bed.account.changeRole(bed.role, { policies: { reader: readerOf(acme) } })
    const answer = await pull(`${HOST}/one/api`, { roleArn: undefined })
    expect(passwordOf(answer)).toEqual(['secret of rc_one'])
    const [read] = bed.aws.trail.entries({ operation: 'GetParameter' })
    expect(read?.principal).toContain('assumed-role/machine/')
    expect(await pull(`${HOST}/own/api`, { roleArn: undefined })).toEqual(NONE)
  })

  it('pulls for nobody where it is not told whose pod it is, and there are several organizations', async () => {
    kubelet.stop()
    const text = OPTIONAL.replace(/^ {4}tokenAttributes:\n(?: {6}.*\n)+/m, '')
    expect(text).not.toContain('sts.amazonaws.com')
    kubelet = await startKubelet(text, provider.folder)
    expect(await pull(`${HOST}/one/api`)).toEqual({ credentials: [], audiences: [] })
    expect(kubelet.log).toContain('set tokenAttributes in its CredentialProviderConfig')
  })
})

describe('what goes between kubelet and the provider', () => {
  it('is of the types of Kubernetes, which kubelet reads strictly', async () => {
    await pull(`${HOST}/one/api`)
    const [dialogue] = await provider.dialogues()
    const request = JSON.parse(dialogue?.request ?? '')
    expect({ ...request, serviceAccountToken: '' }).toEqual({
      kind: 'CredentialProviderRequest',
      apiVersion: VERSION,
      image: `${HOST}/one/api`,
      serviceAccountToken: '',
      serviceAccountAnnotations: { [ROLE_KEY]: role.arn },
    })
    expect(JSON.parse(dialogue?.response ?? '')).toEqual({
      apiVersion: VERSION,
      kind: 'CredentialProviderResponse',
      cacheKeyType: 'Image',
      cacheDuration: '300s',
      auth: { [`${HOST}/one/api`]: { username: 'acme-bot', password: 'secret of rc_one' } },
    })
  })

  it.each([
    ['a field that there is not', { davit: true }],
    ['a duration that is none', { cacheDuration: 300 }],
    ['a kind of key that there is not', { cacheKeyType: 'Host' }],
    ['another version', { apiVersion: 'credentialprovider.kubelet.k8s.io/v1beta1' }],
  ])('would be refused with %s', async (_what, change) => {
    const response = {
      apiVersion: VERSION,
      kind: 'CredentialProviderResponse',
      cacheKeyType: 'Image',
      cacheDuration: '0s',
    }
    const auth = { [`${HOST}/one/api`]: { username: 'u', password: 'p' } }
    const saying = (value: object) => `printf '%s' '${JSON.stringify(value)}'`
    const answers = async (value: object) => {
      const { folder } = await RecordedProvider.make(bed.folder, NAME, saying(value))
      kubelet.stop()
      kubelet = await startKubelet(blockOf('yaml', 'CredentialProviderConfig'), folder)
      return passwordOf(await pull(`${HOST}/one/api`))
    }
    expect(await answers({ ...response, auth })).toEqual(['p'])
    expect(await answers({ ...response, auth, ...change })).toEqual([])
  })
})
