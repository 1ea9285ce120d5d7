import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { makeImage, makeIndex } from '../../../playground/bakes/images.ts'
import { startFront } from '../../../test/support/registry/front.ts'
import { GOOD, type ProbeBed, startProbeBed, WRONG } from '../../../test/support/registry/probe-bed.ts'
import type { TestRegistry } from '../../../test/support/registry/test-registry.ts'
import { selfSignedCertificate } from '../../../test/support/tls.ts'
import type { RegistryProbeOptions } from './probe.ts'

let bed: ProbeBed
let registry: TestRegistry
let digest: string

describe('with Bearer', () => {
  beforeAll(async () => {
    bed = await startProbeBed({ auth: 'bearer', open: ['public/tool'] })
    registry = bed.registry
    const amd = makeImage({ layers: ['one'] })
    const arm = makeImage({ layers: ['one'], architecture: 'arm64' })
    digest = await registry.push('acme/api', '1.0', makeIndex([amd, arm]))
    await registry.push('acme/other', '1.0', amd)
    await registry.push('public/tool', '1.0', amd)
  })
  afterEach(() => bed.renew())
  afterAll(() => bed?.stop())

  const realm = (url: string) => {
    registry.front.challenge = (header) => header.replace('https://realm.invalid/token', url)
  }

  it('a token is asked for with the scope of a pull, and no more', async () => {
    expect(await bed.ask()).toMatchObject({
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
    expect(await bed.ask(WRONG)).toMatchObject({
      kind: 'refused',
      step: 'token',
      status: 401,
      codes: ['UNAUTHORIZED'],
    })
    expect(registry.tokens.requests.length).toBe(1)
  })

  it('an unknown user is refused likewise', async () => {
    expect(await bed.ask({ ...GOOD, username: 'nobody' })).toMatchObject({ step: 'token', status: 401 })
  })

  it('a good login without the right is told apart', async () => {
    expect(await bed.ask(GOOD, { repository: 'acme/other' })).toMatchObject({
      kind: 'refused',
      step: 'manifest',
      status: 401,
      loggedIn: true,
      scheme: 'bearer',
      insufficientScope: true,
    })
  })

  it('a grant of nothing is no proof', async () => {
    expect(await bed.ask({ ...GOOD, username: 'expired' })).toMatchObject({
      step: 'manifest',
      status: 401,
      loggedIn: true,
    })
  })

  it('a token that has ended is refused', async () => {
    registry.tokens.tokenSeconds = -120
    expect(await bed.ask()).toMatchObject({ step: 'manifest', status: 401, insufficientScope: false })
  })

  it('what is open to everybody needs no login', async () => {
    expect(await bed.ask(null, { repository: 'public/tool' })).toMatchObject({
      kind: 'found',
      loggedIn: false,
    })
    expect(registry.tokens.requests[0]?.user).toBeUndefined()
  })

  it('an image that is private is refused to nobody', async () => {
    expect(await bed.ask(null)).toMatchObject({ kind: 'refused', status: 401, loggedIn: false })
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
    expect(await bed.ask()).toMatchObject({ kind: 'refused', ...want })
  })

  describe('a realm that the registry made up gets no password:', () => {
    const elsewhere = async (url: (port: number) => string, options: Partial<RegistryProbeOptions> = {}) => {
      const other = await startFront({ certificate: selfSignedCertificate(['localhost', '127.0.0.1']) })
      try {
        realm(url(other.port))
        return { result: await bed.ask(GOOD, options), requests: other.requests }
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
      expect(await bed.ask(GOOD, { realms: ['169.254.169.254'] })).toMatchObject({
        kind: 'realm-refused',
        reason: 'resolves to an address that bakes must not connect to',
      })
    })

    it('one that redirects', async () => {
      registry.tokens.trouble = { location: 'https://localhost:1/token' }
      expect(await bed.ask()).toMatchObject({
        kind: 'realm-refused',
        reason: 'redirects to another location',
      })
    })
  })

  it('a realm on another host gets it where the operator allows that', async () => {
    const host = registry.host.replace('localhost', '127.0.0.1')
    realm(`https://${host}/token`)
    expect(await bed.ask(GOOD, { realms: [host] })).toMatchObject({ kind: 'found', loggedIn: true })
  })
})
