import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startDebianRegistry } from '../../../playground/bakes/debian-registry.ts'
import { makeImage, makeIndex } from '../../../playground/bakes/images.ts'
import { freePort } from '../../../playground/free-port.ts'
import { GOOD, type ProbeBed, startProbeBed, WRONG } from '../../../test/support/registry/probe-bed.ts'
import { startTestRegistry, type TestRegistry } from '../../../test/support/registry/test-registry.ts'
import { failureOfProbe } from './outcome.ts'
import { createRegistryProbe } from './probe.ts'

let bed: ProbeBed
let registry: TestRegistry
let digest: string

const authorizations = () => registry.front.requests.filter(({ authorization }) => authorization).length
/** Methods of the requests for manifests. */
const manifests = () =>
  registry.front.requests.filter(({ path }) => path.includes('/manifests/')).map(({ method }) => method)

describe('with Basic', () => {
  beforeAll(async () => {
    bed = await startProbeBed({ auth: 'basic' })
    registry = bed.registry
    digest = await registry.push('acme/api', '1.0', makeImage({ layers: ['one'] }))
  })
  afterEach(() => bed.renew())
  afterAll(() => bed?.stop())

  it('a tag becomes the digest of its manifest', async () => {
    expect(await bed.ask()).toMatchObject({
      kind: 'found',
      digest,
      loggedIn: true,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
    })
  })

  it('a digest stays what it is', async () => {
    expect(await bed.ask(GOOD, { reference: digest })).toMatchObject({ kind: 'found', digest })
  })

  it('a wrong password is sent once', async () => {
    expect(await bed.ask(WRONG)).toMatchObject({
      kind: 'refused',
      step: 'manifest',
      status: 401,
      scheme: 'basic',
      loggedIn: true,
    })
    expect([authorizations(), manifests()]).toEqual([1, ['HEAD']])
  })

  it('nobody is refused as nobody', async () => {
    expect(await bed.ask(null)).toMatchObject({
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
    expect(await bed.ask(GOOD, asked)).toMatchObject({ kind: 'refused', status: 404, codes: [code] })
  })

  it('an expired token of ECR is refused in its words', async () => {
    const words = 'Your authorization token has expired. Reauthenticate and try again.'
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(403).end(JSON.stringify({ errors: [{ code: 'DENIED', message: words }] }))
      return true
    }
    expect(await bed.ask()).toMatchObject({ status: 403, codes: ['DENIED'], words: `DENIED: ${words}` })
  })

  it('a registry that has enough says for how long', async () => {
    registry.front.trouble = (_request, response) => {
      response.writeHead(429, { 'retry-after': '7' })
      response.end(JSON.stringify({ errors: [{ code: 'TOOMANYREQUESTS', message: 'slow down' }] }))
      return true
    }
    expect(await bed.ask()).toMatchObject({
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
      expect(await bed.ask(GOOD, { extraCa: authority })).toMatchObject({ kind: 'found' })
      expect(other.front.requests.filter(({ authorization }) => authorization)).toEqual([])
      expect(other.front.requests.length).toBeGreaterThan(0)
    } finally {
      await other.stop()
    }
  })

  it('a manifest somewhere else, where it is refused to nobody in particular, says nothing of the login', async () => {
    registry.front.trouble = (request, response) => {
      if (!request.url?.endsWith('/manifests/1.0')) return false
      response.writeHead(307, { location: '/v2/acme/api/manifests/other' }).end()
      return true
    }
    const result = await bed.ask()
    expect(result).toMatchObject({ kind: 'refused', status: 401, loggedIn: false, scheme: 'none' })
    expect(failureOfProbe(result, true).code).toBe('not_found_or_private')
  })

  it('a redirection to plain http ends it', async () => {
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(302, { location: 'http://localhost:1/v2/' }).end()
      return true
    }
    expect(await bed.ask()).toMatchObject({
      kind: 'refused',
      status: 302,
      words: 'The registry redirects to plain HTTP.',
    })
  })

  it('a manifest that is not the one of its digest is none', async () => {
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
      return true
    }
    expect(await bed.ask(GOOD, { reference: digest })).toMatchObject({
      kind: 'refused',
      codes: ['DIGEST_INVALID'],
    })
  })

  it('an answer without an end is bounded', async () => {
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      response.writeHead(200)
      if (request.method === 'HEAD') return response.end() !== undefined
      const more = () => response.write(Buffer.alloc(64 * 1024), (error) => (error ? undefined : more()))
      more()
      return true
    }
    expect(await bed.ask()).toMatchObject({ kind: 'unreachable', failure: 'protocol', code: 'TOO_LARGE' })
  })

  it('it ends when it is told to', async () => {
    registry.front.trouble = () => true
    const ending = new AbortController()
    const asked = bed.ask(GOOD, { signal: ending.signal })
    setTimeout(() => ending.abort('canceled'), 100)
    await expect(asked).rejects.toBe('canceled')
  })
})

describe('a registry that counts requests for manifests as pulls', () => {
  let index: string
  let docker: string

  beforeAll(async () => {
    bed = await startProbeBed({ auth: 'bearer' })
    registry = bed.registry
    const amd = makeImage({ layers: ['one'] })
    digest = await registry.push('acme/api', '1.0', amd)
    index = await registry.push('acme/api', 'index', makeIndex([amd, makeImage({ layers: ['two'] })]))
    docker = await registry.push('acme/api', 'docker', makeImage({ layers: ['one'], docker: true }))
  })
  afterEach(() => bed.renew())
  afterAll(() => bed?.stop())

  /** Answers heads of manifests instead of the registry. */
  const heads = (status: number, headers: Record<string, string> = {}) => {
    registry.front.trouble = (request, response) => {
      if (request.method !== 'HEAD') return false
      response.writeHead(status, headers).end()
      return true
    }
  }

  it.each([
    ['a tag', () => ['1.0', digest]],
    ['an index', () => ['index', index]],
    ['a manifest of Docker', () => ['docker', docker]],
    ['a digest', () => [digest, digest]],
  ])('is asked for no more than the digest of %s', async (_, of) => {
    const [reference = '', want] = of()
    expect(await bed.ask(GOOD, { reference })).toMatchObject({ kind: 'found', digest: want, loggedIn: true })
    expect(manifests()).toEqual(['HEAD'])
  })

  it.each([429, 500, 502, 503])('is not asked again where it answers %i', async (status) => {
    heads(status, { 'retry-after': '5' })
    expect(await bed.ask()).toMatchObject({ kind: 'refused', step: 'manifest', status, retryAfter: 5 })
    expect(manifests()).toEqual(['HEAD'])
  })

  it.each([
    ['no digest', 200, {}],
    ['a digest that is none', 200, { 'docker-content-digest': 'sha256:none' }],
    ['a digest of another kind', 200, { 'docker-content-digest': `sha512:${'a'.repeat(128)}` }],
    ['that it knows no heads', 405, {}],
    ['that it has not implemented them', 501, {}],
    ['that nothing is there', 404, {}],
    ['that it is forbidden', 403, {}],
    ['that it does not understand', 400, {}],
  ] as const)('is asked for the content where its head says %s', async (_, status, headers) => {
    heads(status, headers)
    expect(await bed.ask()).toMatchObject({ kind: 'found', digest, bytes: expect.anything() })
    expect(manifests()).toEqual(['HEAD', 'GET'])
  })

  it('is asked for the content where its head names another digest than the one that is asked for', async () => {
    heads(200, { 'docker-content-digest': index })
    expect(await bed.ask(GOOD, { reference: digest })).toMatchObject({ kind: 'found', digest })
    expect(manifests()).toEqual(['HEAD', 'GET'])
  })

  it('says in its own words why there is nothing to pull', async () => {
    expect(await bed.ask(GOOD, { reference: 'none' })).toMatchObject({
      status: 404,
      codes: ['MANIFEST_UNKNOWN'],
      words: expect.stringContaining('manifest unknown'),
    })
    expect(manifests()).toEqual(['HEAD', 'GET'])
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
