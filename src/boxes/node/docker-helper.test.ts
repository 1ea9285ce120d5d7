import { describe, expect, it } from 'vitest'
import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { type BoxLogins, CloudError } from '../../credentials/cloud.ts'
import { SecretText } from '../../lib/redact.ts'
import type { FoundMaps } from './credential-maps.ts'
import { answerDocker } from './docker-helper.ts'

const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
const NOT_FOUND = { exitCode: 1, stdout: 'credentials not found in native keychain\n', stderr: '' }

function token(id: string, registry: string, repository = 'acme/api'): BoxCredential {
  const parameter = { name: `/davit/acme/${id}`, version: 3, region: 'eu-west-1' }
  return { id, type: 'token', registry, repositories: [repository], username: 'acme-bot', parameter }
}

const CREDENTIALS: BoxCredential[] = [
  token('rc_ghcr', 'ghcr.io'),
  token('rc_hub', 'docker.io'),
  token('rc_one', 'r.example.com:5000', 'one/x'),
  token('rc_two', 'r.example.com:5000', 'two/x'),
  { id: 'rc_ecr', type: 'ecr', registry: ECR, repositories: ['api'] },
]

function map(credentials: BoxCredential[]): BoxCredentials {
  return { version: 1, template: { namespace: 'acme', name: 'web' }, bake: 'web-1', credentials }
}

type Asked = { input?: string; found?: Partial<FoundMaps>; logins?: BoxLogins }

function ask(action: string, { input = '', found = {}, logins = FETCHED }: Asked = {}) {
  const maps = { read: async () => ({ maps: [map(CREDENTIALS)], problems: [], ...found }) }
  return answerDocker(action, { maps, logins, input: async () => input, parameterPrefix: '/davit' })
}

const FETCHED: BoxLogins = {
  login: async ({ id, type }) => ({
    username: type === 'ecr' ? 'AWS' : 'acme-bot',
    password: new SecretText(`secret of ${id}`),
  }),
}

const DOWN = new CloudError('retry', 'Unreachable', 'connect ECONNREFUSED', { operation: 'ssm:GetParameter' })
const failing = (error: unknown): BoxLogins => ({ login: () => Promise.reject(error) })

describe('get', () => {
  it.each([
    ['ghcr.io', 'acme-bot', 'secret of rc_ghcr'],
    ['https://ghcr.io', 'acme-bot', 'secret of rc_ghcr'],
    ['ghcr.io\n', 'acme-bot', 'secret of rc_ghcr'],
    ['https://index.docker.io/v1/', 'acme-bot', 'secret of rc_hub'],
    ['registry-1.docker.io', 'acme-bot', 'secret of rc_hub'],
    [ECR, 'AWS', 'secret of rc_ecr'],
  ])('answers %j', async (input, Username, Secret) => {
    const { exitCode, stdout, stderr } = await ask('get', { input })
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(JSON.parse(stdout)).toEqual({ ServerURL: input.trim(), Username, Secret })
  })

  it.each(['quay.io', 'https://index.docker.io/v1/access-token', 'ghcr.io/acme'])(
    'finds nothing for %s, in the words that let a tool go on',
    async (input) => {
      expect(await ask('get', { input })).toEqual(NOT_FOUND)
    },
  )

  it('says in the expected words that it was asked for nothing', async () => {
    expect(await ask('get', { input: ' \n' })).toMatchObject({
      exitCode: 1,
      stdout: 'no credentials server URL\n',
    })
  })

  it('refuses what is no registry', async () => {
    const { exitCode, stdout, stderr } = await ask('get', { input: 'http://ghcr.io' })
    expect(exitCode).toBe(1)
    expect(stdout).toBe(
      'The registry must not use http://, which sends passwords in clear text; use https.\n',
    )
    expect(stderr).toBe(`docker-credential-davit: ${stdout}`)
  })

  it('refuses a host that has two credentials, and names them', async () => {
    const { exitCode, stdout } = await ask('get', { input: 'r.example.com:5000' })
    expect(exitCode).toBe(1)
    expect(stdout).toContain('r.example.com:5000 has 2 credentials here (acme/rc_one, acme/rc_two)')
    expect(stdout).toContain('receives only the host')
  })

  it('fetches nothing that the map names for another organization', async () => {
    const credential = token('rc_ghcr', 'ghcr.io')
    const parameter = { name: '/davit/other/rc_ghcr', version: 1, region: 'eu-west-1' }
    const found = { maps: [map([{ ...credential, parameter } as BoxCredential])] }
    const { stdout } = await ask('get', {
      input: 'ghcr.io',
      found,
      logins: failing(new Error('was fetched')),
    })
    expect(stdout).toContain('the credentials file contains /davit/other/rc_ghcr')
  })

  it('says what is wrong with a map, whatever is in the others', async () => {
    const { exitCode, stdout } = await ask('get', {
      input: 'ghcr.io',
      found: { problems: ['/etc/davit/db/credentials.json is not JSON'] },
    })
    expect(exitCode).toBe(1)
    expect(stdout).toContain('/etc/davit/db/credentials.json is not JSON')
  })

  it.each([
    [
      new CloudError('permissions', 'AccessDeniedException', 'not authorized', {
        operation: 'ssm:GetParameter',
      }),
      "rc_ghcr: AccessDeniedException (ssm:GetParameter): not authorized. This machine's role needs ssm:GetParameter on /davit/acme/rc_ghcr in eu-west-1, and kms:Decrypt on its key.",
    ],
    [
      new CloudError('gone', 'ParameterVersionNotFound', '', { operation: 'ssm:GetParameter' }),
      'rc_ghcr: ParameterVersionNotFound (ssm:GetParameter). The bake read version 3 of /davit/acme/rc_ghcr in eu-west-1, which no longer exists. Bake the template again.',
    ],
    [
      new CloudError('retry', 'NoIdentity', 'Could not load credentials', { operation: 'ssm:GetParameter' }),
      'rc_ghcr: NoIdentity: Could not load credentials. This machine does not have AWS credentials. Attach an instance role, or set AWS_PROFILE or similar variables.',
    ],
    [
      new CloudError('retry', 'Unreachable', 'connect ECONNREFUSED', { operation: 'ssm:GetParameter' }),
      'rc_ghcr: Unreachable (ssm:GetParameter): connect ECONNREFUSED. This may be temporary. Retry the pull.',
    ],
  ])('says what AWS said, and what to change', async (error, words) => {
    const answer = await ask('get', { input: 'ghcr.io', logins: failing(error) })
    expect(answer).toEqual({
      exitCode: 1,
      stdout: `${words}\n`,
      stderr: `docker-credential-davit: ${words}\n`,
    })
  })

  it('does not hide an error that is no answer of AWS', async () => {
    await expect(ask('get', { input: 'ghcr.io', logins: failing(new TypeError('x')) })).rejects.toThrow(
      TypeError,
    )
  })
})

describe('list', () => {
  it('names the hosts that get would answer, in the form of docker, and fetches nothing', async () => {
    const { exitCode, stdout } = await ask('list', { logins: failing(new Error('was fetched')) })
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toEqual({
      [ECR]: 'AWS',
      'ghcr.io': 'acme-bot',
      'https://index.docker.io/v1/': 'acme-bot',
    })
  })
})

describe('erase', () => {
  const unusable: Asked = {
    found: { problems: ['/etc/davit/db/credentials.json is not JSON'] },
    logins: failing(new Error('was fetched')),
  }

  it.each([
    ['a host that the helper knows', 'ghcr.io'],
    ['one that it does not know', 'quay.io'],
    ['Docker Hub', 'https://index.docker.io/v1/'],
    ['the tokens of a login in the browser', 'https://index.docker.io/v1/refresh-token'],
    ['plain http, which docker logs out of as well', 'http://ghcr.io'],
    ['what is no registry', 'not a registry!'],
    ['nothing', ''],
  ])('succeeds and prints nothing for %s, since nothing is stored', async (_name, input) => {
    expect(await ask('erase', { input, ...unusable })).toEqual({ exitCode: 0, stdout: '', stderr: '' })
  })
})

describe('store', () => {
  const stored = (ServerURL: string, Username: string, Secret: string) => ({
    input: JSON.stringify({ ServerURL, Username, Secret }),
  })

  it.each([
    ['of a host', stored('ghcr.io', 'acme-bot', 'secret of rc_ghcr')],
    ['of a host as a URL', stored('https://ghcr.io', 'acme-bot', 'secret of rc_ghcr')],
    ['of Docker Hub', stored('https://index.docker.io/v1/', 'acme-bot', 'secret of rc_hub')],
    ['of ECR, whose tokens are never the same', stored(ECR, 'AWS', 'token of `aws ecr get-login-password`')],
  ])(
    'succeeds for the login %s that get gives, since docker stores it after a login',
    async (_name, asked) => {
      expect(await ask('store', asked)).toEqual({ exitCode: 0, stdout: '', stderr: '' })
    },
  )

  it.each([
    ['another secret', stored('ghcr.io', 'acme-bot', 'typed')],
    ['another user', stored('ghcr.io', 'mallory', 'secret of rc_ghcr')],
    ['an unknown host', stored('quay.io', 'acme-bot', 'typed')],
    ['a host with two credentials', stored('r.example.com:5000', 'acme-bot', 'typed')],
    ['another user of ECR', stored(ECR, 'acme-bot', 'typed')],
    [
      'a token of a login in the browser',
      stored('https://index.docker.io/v1/access-token', 'acme-bot', 'typed'),
    ],
    ['an identity token', stored('ghcr.io', '<token>', 'typed')],
    ['a login that cannot be fetched', { ...stored('ghcr.io', 'acme-bot', 'typed'), logins: failing(DOWN) }],
    ['no login', { input: '{"ServerURL":"ghcr.io","Secret":"typed"}' }],
    ['no JSON', { input: 'typed' }],
  ])('says for %s that the helper stores nothing, and does not repeat it', async (_name, asked) => {
    const { exitCode, stdout } = await ask('store', asked)
    expect(exitCode).toBe(1)
    expect(stdout).toContain('This helper does not store credentials. Create a RegistryCredential')
    expect(stdout).not.toContain('typed')
  })

  it('does not hide an error that is no answer of AWS', async () => {
    const asked = { ...stored('ghcr.io', 'acme-bot', 'x'), logins: failing(new TypeError('x')) }
    await expect(ask('store', asked)).rejects.toThrow(TypeError)
  })
})

describe('what no helper is asked', () => {
  it.each(['dump', 'toString', '__proto__', 'Erase'])('%s is refused', async (action) => {
    const { exitCode, stdout } = await ask(action, { input: '{"ServerURL":"ghcr.io","Secret":"typed"}' })
    expect(exitCode).toBe(1)
    expect(stdout).toBe(`Unknown credential action \`${action}\`\n`)
  })
})
