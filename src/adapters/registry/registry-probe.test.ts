import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../../../test/chaos/free-port.ts'
import { startDebianRegistry } from '../../../test/support/registry/debian-registry.ts'
import { type Front, startFront } from '../../../test/support/registry/front.ts'
import { makeImage, makeIndex } from '../../../test/support/registry/images.ts'
import { startTestRegistry, type TestRegistry } from '../../../test/support/registry/test-registry.ts'
import { createTestAuthority, selfSignedCertificate } from '../../../test/support/tls.ts'
import type { ProbeResult } from '../../ports/registry-probe.ts'
import { SecretText } from '../../ports/secret-text.ts'
import { createRegistryProbe, type RegistryProbeOptions } from './registry-probe.ts'

const PASSWORD = 'a-secret:with a colon and ünicode'
const ACCOUNTS = {
  bot: { password: PASSWORD, pulls: ['acme/api'] },
  expired: { password: PASSWORD, pulls: ['*'], expired: true },
}
const GOOD = { username: 'bot', password: new SecretText(PASSWORD) }
const WRONG = { username: 'bot', password: new SecretText('wrong') }

let registry: TestRegistry
let digest: string

const probe = (more: Partial<RegistryProbeOptions> = {}) =>
  createRegistryProbe({ userAgent: 'davit/test', extraCa: registry.ca, realms: [], ...more })

function ask(
  login = GOOD as typeof GOOD | undefined,
  asked: { registry?: string; repository?: string; reference?: string } = {},
  options: Partial<RegistryProbeOptions> = {},
): Promise<ProbeResult> {
  const image = { registry: registry.host, repository: 'acme/api', reference: '1.0', ...asked }
  return probe(options).manifest(image, login)
}

const authorizations = () => registry.front.requests.filter(({ authorization }) => authorization).length

function wellAgain(challenge: Front['challenge']) {
  registry.front.trouble = undefined
  registry.front.challenge = challenge
  registry.front.requests.length = 0
  Object.assign(registry.tokens, { trouble: undefined, grantsNothing: false, tokenSeconds: 300 })
  registry.tokens.requests.length = 0
}

describe('with Basic', () => {
  let challenge: Front['challenge']
  beforeAll(async () => {
    registry = await startTestRegistry({ auth: 'basic', accounts: ACCOUNTS })
    digest = await registry.push('acme/api', '1.0', makeImage({ layers: ['one'] }))
    challenge = registry.front.challenge
  })
  afterEach(() => wellAgain(challenge))
  afterAll(() => registry?.stop())

  it('a tag becomes the digest of its manifest', async () => {
    expect(await ask()).toMatchObject({
      kind: 'found',
      digest,
      loggedIn: true,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
    })
  })

  it('a digest stays what it is', async () => {
    expect(await ask(GOOD, { reference: digest })).toMatchObject({ kind: 'found', digest })
  })

  it('a wrong password is sent once', async () => {
    expect(await ask(WRONG)).toMatchObject({
      kind: 'refused',
      step: 'manifest',
      status: 401,
      codes: ['UNAUTHORIZED'],
      scheme: 'basic',
      loggedIn: true,
    })
    expect(authorizations()).toBe(1)
  })

  it('nobody is refused as nobody', async () => {
    expect(await ask(undefined)).toMatchObject({
      kind: 'refused',
      status: 401,
      loggedIn: false,
      scheme: 'none',
    })
    expect(authorizations()).toBe(0)
  })

  it.each([
    ['a missing tag', { reference: 'none' }, 'MANIFEST_UNKNOWN'],
    ['a missing repository', { repository: 'acme/none' }, 'MANIFEST_UNKNOWN'],
  ])('%s is not found', async (_name, asked, code) => {
    expect(await ask(GOOD, asked)).toMatchObject({ kind: 'refused', status: 404, codes: [code] })
  })

  it('an expired token of ECR is refused in its words', async () => {
    const words = 'Your authorization token has expired. Reauthenticate and try again.'
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(403).end(JSON.stringify({ errors: [{ code: 'DENIED', message: words }] }))
      return true
    }
    expect(await ask()).toMatchObject({ status: 403, codes: ['DENIED'], words: `DENIED: ${words}` })
  })

  it('a registry that has enough says for how long', async () => {
    registry.front.trouble = (_request, response) => {
      response.writeHead(429, { 'retry-after': '7' })
      response.end(JSON.stringify({ errors: [{ code: 'TOOMANYREQUESTS', message: 'slow down' }] }))
      return true
    }
    expect(await ask()).toMatchObject({
      step: 'ping',
      status: 429,
      retryAfter: 7,
      words: 'TOOMANYREQUESTS: slow down',
    })
  })

  it('a manifest somewhere else is fetched without the login', async () => {
    const other = await startTestRegistry({ auth: 'none' })
    try {
      registry.front.trouble = (request, response) => {
        if (!request.url?.includes('/manifests/')) return false
        response.writeHead(307, { location: `https://${other.host}/v2/` }).end()
        return true
      }
      const authority = `${registry.ca}\n${other.ca}`
      expect(await ask(GOOD, {}, { extraCa: authority })).toMatchObject({ kind: 'found' })
      expect(other.front.requests.map(({ authorization }) => authorization)).toEqual([undefined])
    } finally {
      await other.stop()
    }
  })

  it('a redirection to plain http ends it', async () => {
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(302, { location: 'http://localhost:1/v2/' }).end()
      return true
    }
    expect(await ask()).toMatchObject({ kind: 'refused', status: 302, words: 'It redirects to plain http.' })
  })

  it('a manifest that is not the one of its digest is none', async () => {
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
      return true
    }
    expect(await ask(GOOD, { reference: digest })).toMatchObject({
      kind: 'refused',
      codes: ['DIGEST_INVALID'],
    })
  })

  it('an answer without an end is bounded', async () => {
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(200)
      const more = () => response.write(Buffer.alloc(64 * 1024), (error) => (error ? undefined : more()))
      more()
      return true
    }
    expect(await ask()).toMatchObject({ kind: 'unreachable', failure: 'protocol', code: 'TOO_LARGE' })
  })

  it('it ends when it is told to', async () => {
    registry.front.trouble = () => true
    const ending = new AbortController()
    const asked = probe().manifest(
      { registry: registry.host, repository: 'acme/api', reference: '1.0' },
      GOOD,
      { signal: ending.signal },
    )
    setTimeout(() => ending.abort('canceled'), 100)
    await expect(asked).rejects.toBe('canceled')
  })
})

describe('with Bearer', () => {
  let challenge: Front['challenge']
  beforeAll(async () => {
    registry = await startTestRegistry({ auth: 'bearer', accounts: ACCOUNTS, open: ['public/tool'] })
    const amd = makeImage({ layers: ['one'] })
    const arm = makeImage({ layers: ['one'], architecture: 'arm64' })
    digest = await registry.push('acme/api', '1.0', makeIndex([amd, arm]))
    await registry.push('acme/other', '1.0', amd)
    await registry.push('public/tool', '1.0', amd)
    challenge = registry.front.challenge
  })
  afterEach(() => wellAgain(challenge))
  afterAll(() => registry?.stop())

  const realm = (url: string) => {
    registry.front.challenge = (header) => header.replace('https://realm.invalid/token', url)
  }

  it('a token is asked for with the scope of a pull, and no more', async () => {
    expect(await ask()).toMatchObject({
      kind: 'found',
      digest,
      loggedIn: true,
      mediaType: 'application/vnd.oci.image.index.v1+json',
    })
    expect(registry.tokens.requests).toEqual([
      { user: 'bot', account: 'bot', scope: 'repository:acme/api:pull' },
    ])
  })

  it('a wrong password is sent once', async () => {
    expect(await ask(WRONG)).toMatchObject({
      kind: 'refused',
      step: 'token',
      status: 401,
      codes: ['UNAUTHORIZED'],
    })
    expect(registry.tokens.requests.length).toBe(1)
  })

  it('an unknown user is refused likewise', async () => {
    expect(await ask({ ...GOOD, username: 'nobody' })).toMatchObject({ step: 'token', status: 401 })
  })

  it('a good login without the right is told apart', async () => {
    expect(await ask(GOOD, { repository: 'acme/other' })).toMatchObject({
      kind: 'refused',
      step: 'manifest',
      status: 401,
      loggedIn: true,
      scheme: 'bearer',
      insufficientScope: true,
    })
  })

  it('a grant of nothing is no proof', async () => {
    expect(await ask({ ...GOOD, username: 'expired' })).toMatchObject({
      step: 'manifest',
      status: 401,
      loggedIn: true,
    })
  })

  it('a token that has ended is refused', async () => {
    registry.tokens.tokenSeconds = -120
    expect(await ask()).toMatchObject({ step: 'manifest', status: 401, insufficientScope: false })
  })

  it('what is open to everybody needs no login', async () => {
    expect(await ask(undefined, { repository: 'public/tool' })).toMatchObject({
      kind: 'found',
      loggedIn: false,
    })
    expect(registry.tokens.requests[0]?.user).toBeUndefined()
  })

  it('an image that is private is refused to nobody', async () => {
    expect(await ask(undefined)).toMatchObject({ kind: 'refused', status: 401, loggedIn: false })
  })

  it.each([
    [
      { status: 403, body: '{"details":"account disabled"}' },
      { step: 'token', status: 403, words: 'account disabled' },
    ],
    [
      { status: 429, body: 'later', headers: { 'retry-after': '3' } },
      { step: 'token', status: 429, retryAfter: 3 },
    ],
    [
      { status: 500, body: 'oops' },
      { step: 'token', status: 500, words: 'oops' },
    ],
    [
      { status: 200, body: '{}' },
      { step: 'token', status: 200 },
    ],
    [
      { status: 200, body: '{"token":"a\\r\\nb"}' },
      { step: 'token', status: 200 },
    ],
  ])('a service for tokens that answers %o', async (trouble, want) => {
    registry.tokens.trouble = trouble
    expect(await ask()).toMatchObject({ kind: 'refused', ...want })
  })

  describe('a realm that the registry made up gets no password:', () => {
    const elsewhere = async (url: (port: number) => string, options: Partial<RegistryProbeOptions> = {}) => {
      const other = await startFront({ certificate: selfSignedCertificate(['localhost', '127.0.0.1']) })
      try {
        realm(url(other.port))
        return { result: await ask(GOOD, {}, options), requests: other.requests }
      } finally {
        await other.stop()
      }
    }

    it.each([
      ['another port', (port: number) => `https://localhost:${port}/token`],
      ['another host', (port: number) => `https://127.0.0.1:${port}/token`],
      ['plain http', (port: number) => `http://localhost:${port}/token`],
      ['a link-local address', () => 'https://169.254.169.254/token'],
      ['a user in it', () => `https://bot@${registry.host}/token`],
    ])('%s', async (_name, url) => {
      const { result, requests } = await elsewhere(url)
      expect(result).toMatchObject({ kind: 'realm-refused' })
      expect(requests).toEqual([])
    })

    it('an address that no bake connects to, also where its name is allowed', async () => {
      realm('https://169.254.169.254/token')
      expect(await ask(GOOD, {}, { realms: ['169.254.169.254'] })).toMatchObject({
        kind: 'realm-refused',
        reason: 'it is at an address that no bake connects to',
      })
    })

    it('one that redirects', async () => {
      registry.tokens.trouble = { location: 'https://localhost:1/token' }
      expect(await ask()).toMatchObject({ kind: 'realm-refused', reason: 'it redirects to another place' })
    })
  })

  it('a realm on another host gets it where the operator allows that', async () => {
    const host = registry.host.replace('localhost', '127.0.0.1')
    realm(`https://${host}/token`)
    expect(await ask(GOOD, {}, { realms: [host] })).toMatchObject({ kind: 'found', loggedIn: true })
  })
})

describe('a registry that cannot be asked', () => {
  const asked = async (host: string, extraCa?: string) =>
    await createRegistryProbe({ userAgent: 'davit/test', realms: [], extraCa }).manifest(
      { registry: host, repository: 'acme/api', reference: '1.0' },
      GOOD,
    )

  it('is not there', async () => {
    expect(await asked(`localhost:${await freePort()}`)).toMatchObject({
      kind: 'unreachable',
      failure: 'refused',
      code: 'ECONNREFUSED',
    })
  })

  it('has no name', async () => {
    expect(await asked('registry.invalid')).toMatchObject({ kind: 'unreachable', failure: 'dns' })
  })

  it('is at a link-local address', async () => {
    expect(await asked('169.254.169.254')).toMatchObject({
      kind: 'unreachable',
      failure: 'forbidden-address',
    })
  })

  it.each([
    ['is trusted by nobody', { days: 30, trusted: false }, 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
    ['has a certificate that has expired', { days: -1, trusted: true }, 'CERT_HAS_EXPIRED'],
  ])('%s', async (_name, { days, trusted }, code) => {
    const other = await startTestRegistry({ auth: 'none', days })
    try {
      const result = await asked(other.host, trusted ? other.ca : undefined)
      expect(result).toMatchObject({ kind: 'unreachable', failure: 'tls', code })
    } finally {
      await other.stop()
    }
  })

  it('speaks plain http', async () => {
    const plain = await startDebianRegistry()
    try {
      expect(await asked(`localhost:${plain.port}`)).toMatchObject({ kind: 'unreachable', failure: 'tls' })
    } finally {
      await plain.stop()
    }
  })
})
