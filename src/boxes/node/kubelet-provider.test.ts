import { describe, expect, it } from 'vitest'
import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { type BoxLogin, CloudError, type PodRole } from '../../credentials/cloud.ts'
import { SecretText } from '../../lib/redact.ts'
import { answerKubelet } from './kubelet-provider.ts'

const VERSION = 'credentialprovider.kubelet.k8s.io/v1'
const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
const ROLE = 'arn:aws:iam::222222222222:role/box'
const NOW = 1_800_000_000_000

const NOTHING = {
  apiVersion: VERSION,
  kind: 'CredentialProviderResponse',
  cacheKeyType: 'Image',
  cacheDuration: '0s',
  auth: {},
}

function token(id: string, repository: string, organization = 'acme'): BoxCredential {
  const parameter = { name: `/davit/${organization}/${id}`, version: 3, region: 'eu-west-1' }
  return { id, type: 'token', registry: 'ghcr.io', repositories: [repository], username: 'bot', parameter }
}

function map(credentials: BoxCredential[], namespace = 'acme'): BoxCredentials {
  return { version: 1, template: { namespace, name: 'web' }, bake: 'web-1', credentials }
}

const ACME = map([
  token('rc_one', 'one/x'),
  token('rc_two', 'two/x'),
  { id: 'rc_ecr', type: 'ecr', registry: ECR, repositories: ['api'] },
])
const OTHER = map([token('rc_other', 'one/x', 'other')], 'other')

function podToken(namespace: string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'RS256' })}.${part({ sub: `system:serviceaccount:${namespace}:box` })}.c2ln`
}

type Asked = {
  maps?: BoxCredentials[]
  problems?: string[]
  token?: string
  annotations?: Record<string, string>
  input?: string
  failure?: unknown
}

async function ask(image: string, asked: Asked = {}) {
  const { maps = [ACME], problems = [], failure } = asked
  const fetched: { id: string; pod?: PodRole | undefined }[] = []
  const login = async ({ id, type }: BoxCredential, pod?: PodRole): Promise<BoxLogin> => {
    fetched.push({ id, pod })
    if (failure !== undefined) throw failure
    const password = new SecretText(`secret of ${id}`)
    return type === 'ecr'
      ? { username: 'AWS', password, expiresAt: NOW + 12 * 3_600_000 }
      : { username: 'bot', password }
  }
  const request = {
    apiVersion: VERSION,
    kind: 'CredentialProviderRequest',
    image,
    ...(asked.token !== undefined && { serviceAccountToken: asked.token }),
    ...(asked.annotations && { serviceAccountAnnotations: asked.annotations }),
  }
  const answer = await answerKubelet({
    maps: { read: async () => ({ maps, problems }) },
    logins: { login },
    clock: { now: () => NOW },
    input: async () => asked.input ?? JSON.stringify(request),
    keepSeconds: 300,
    parameterPrefix: '/davit',
  })
  return { ...answer, fetched, response: answer.stdout === '' ? undefined : JSON.parse(answer.stdout) }
}

describe('an image', () => {
  it.each(['ghcr.io:443', 'GHCR.io', 'ghcr.io.'])(
    'of the host spelled %s has its credential, under the spelling that kubelet compares',
    async (host) => {
      const { response } = await ask(`${host}/one/x`)
      expect(response.auth).toEqual({
        [`${host}/one/x`]: { username: 'bot', password: 'secret of rc_one' },
      })
    },
  )

  it('of a template has the credential of its bake, for this image alone', async () => {
    const { response, exitCode } = await ask('ghcr.io/one/x')
    expect(exitCode).toBe(0)
    expect(response).toEqual({
      apiVersion: VERSION,
      kind: 'CredentialProviderResponse',
      cacheKeyType: 'Image',
      cacheDuration: '300s',
      auth: { 'ghcr.io/one/x': { username: 'bot', password: 'secret of rc_one' } },
    })
  })

  it('is told which credential it has, and why', async () => {
    const why = async (image: string) => (await ask(image)).stderr
    expect(await why('ghcr.io/one/x')).toBe(
      'davit-credential-provider: ghcr.io/one/x is pulled with acme/rc_one, which a bake used to pull this image\n',
    )
    expect(await why('ghcr.io/two/y')).toBe(
      'davit-credential-provider: ghcr.io/two/y is pulled with acme/rc_two, which a bake used to pull the closest match, two/x\n',
    )
    expect(await why('quay.io/one/x')).toBe(
      'davit-credential-provider: no credential for quay.io/one/x: no credentials file matches it\n',
    )
    expect(await why('UPPER/CASE')).toContain(
      'no credential: the image reference must have a lowercase repository name',
    )
  })

  it('with another path has another credential of the same host', async () => {
    expect((await ask('ghcr.io/two/x')).fetched).toMatchObject([{ id: 'rc_two' }])
    expect((await ask('ghcr.io/two/deep/er')).fetched).toMatchObject([{ id: 'rc_two' }])
  })

  it('of ECR has a token for the whole registry, kept for half of its life', async () => {
    const { response } = await ask(`${ECR}/anything/else`)
    expect(response).toMatchObject({
      cacheKeyType: 'Registry',
      cacheDuration: '21600s',
      auth: { [ECR]: { username: 'AWS', password: 'secret of rc_ecr' } },
    })
  })

  it.each(['quay.io/one/x', 'ghcr.io/three/x', 'docker.io/library/postgres', 'UPPER/CASE'])(
    'that nobody knows has none, which is no error and is not kept: %j',
    async (image) => {
      expect(await ask(image)).toMatchObject({ exitCode: 0, response: NOTHING, fetched: [] })
    },
  )

  it('that is as near to two credentials has none, and the reason', async () => {
    const maps = [map([token('rc_one', 'team/x'), token('rc_two', 'team/y')])]
    const { exitCode, stdout, stderr } = await ask('ghcr.io/team/z', { maps })
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toContain('acme/rc_one and acme/rc_two match it equally well')
  })
})

describe('a pod with a token', () => {
  it('gets what its own role fetches', async () => {
    const annotations = { 'eks.amazonaws.com/role-arn': ROLE }
    const { fetched } = await ask('ghcr.io/one/x', { token: podToken('acme'), annotations })
    expect(fetched).toMatchObject([{ id: 'rc_one', pod: { roleArn: ROLE, namespace: 'acme' } }])
    expect(fetched[0]?.pod?.token.reveal()).toBe(podToken('acme'))
  })

  it("gets what the machine's role fetches, where its account has no role", async () => {
    expect((await ask('ghcr.io/one/x', { token: podToken('acme') })).fetched).toEqual([{ id: 'rc_one' }])
  })

  it('gets nothing of another organization', async () => {
    const maps = [ACME, OTHER]
    expect((await ask('ghcr.io/one/x', { maps, token: podToken('other') })).fetched).toEqual([
      { id: 'rc_other' },
    ])
    expect(await ask('ghcr.io/one/x', { maps, token: podToken('third') })).toMatchObject({
      response: NOTHING,
      fetched: [],
    })
  })

  it('gets no parameter that a map of its organization borrows from another one', async () => {
    const maps = [map([token('rc_one', 'one/x', 'other')])]
    const { exitCode, stderr, fetched } = await ask('ghcr.io/one/x', { maps, token: podToken('acme') })
    expect({ exitCode, fetched }).toEqual({ exitCode: 1, fetched: [] })
    expect(stderr).toContain('/davit/other/rc_one')
  })

  it('is told when it is no token, or the role none', async () => {
    expect((await ask('ghcr.io/one/x', { token: 'abc' })).stderr).toContain('is not a ServiceAccount token')
    const annotations = { 'eks.amazonaws.com/role-arn': 'box' }
    const { stderr } = await ask('ghcr.io/one/x', { token: podToken('acme'), annotations })
    expect(stderr).toContain('eks.amazonaws.com/role-arn of the ServiceAccount is not a role ARN')
  })
})

describe('a pod without a token', () => {
  it('is refused where there are several organizations: nobody says whose it is', async () => {
    const { exitCode, stderr, fetched } = await ask('ghcr.io/one/x', { maps: [ACME, OTHER] })
    expect({ exitCode, fetched }).toEqual({ exitCode: 1, fetched: [] })
    expect(stderr).toContain('several organizations (acme, other)')
    expect(stderr).toContain('tokenAttributes')
  })
})

describe('what goes wrong', () => {
  it('is said by AWS, with what to change for a role', async () => {
    const failure = new CloudError('spec', 'InvalidIdentityToken', 'Incorrect token audience', {
      operation: 'sts:AssumeRoleWithWebIdentity',
    })
    const annotations = { 'eks.amazonaws.com/role-arn': ROLE }
    const { exitCode, stderr } = await ask('ghcr.io/one/x', { failure, annotations, token: podToken('acme') })
    expect(exitCode).toBe(1)
    expect(stderr).toBe(
      `davit-credential-provider: rc_one: InvalidIdentityToken (sts:AssumeRoleWithWebIdentity): Incorrect token audience. The trust policy of ${ROLE} must allow the OIDC provider of the cluster, the ServiceAccount of the pod, and the audience that is configured in kubelet.\n`,
    )
  })

  it('with a map is said only where no other map has the image', async () => {
    const problems = ['/etc/davit/db/credentials.json is not JSON']
    expect((await ask('ghcr.io/one/x', { problems })).exitCode).toBe(0)
    const { exitCode, stderr } = await ask('quay.io/x/y', { problems })
    expect(exitCode).toBe(1)
    expect(stderr).toContain(
      'no credentials file matches quay.io/x/y, and /etc/davit/db/credentials.json is not JSON',
    )
  })

  it('with a thousand maps is said of five', async () => {
    const problems = Array.from({ length: 1000 }, (_, index) => `/etc/davit/${index} is not JSON`)
    const { stderr } = await ask('quay.io/x/y', { problems })
    expect(stderr).toContain('/etc/davit/4 is not JSON; and 995 more')
    expect(stderr).not.toContain('/etc/davit/5 ')
  })

  it.each([
    ['{', 'stdin is not valid JSON'],
    ['[]', 'the whole'],
    [
      '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","kind":"CredentialProviderRequest","image":"x"}',
      'apiVersion',
    ],
    [`{"apiVersion":"${VERSION}","kind":"CredentialProviderResponse","image":"x"}`, 'kind'],
    [
      `{"apiVersion":"${VERSION}","kind":"CredentialProviderRequest","serviceAccountToken":"se.cr.et"}`,
      'image',
    ],
  ])('with the request is said without repeating it: %s', async (input, words) => {
    const { exitCode, stdout, stderr } = await ask('', { input })
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toContain(words)
    expect(stderr).not.toContain('se.cr.et')
  })

  it('is not a field that a later kubelet sends', async () => {
    const later = {
      apiVersion: VERSION,
      kind: 'CredentialProviderRequest',
      image: 'ghcr.io/one/x',
      podName: 'x',
    }
    expect((await ask('', { input: JSON.stringify(later) })).exitCode).toBe(0)
  })
})
