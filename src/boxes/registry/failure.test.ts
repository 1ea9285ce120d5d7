import { describe, expect, it } from 'vitest'
import { failureOfProbe, failureOfPull, type Probed, type RegistryRefusal } from './outcome.ts'

const refused = (more: Partial<RegistryRefusal>): Probed => ({
  kind: 'refused',
  step: 'manifest',
  status: 401,
  codes: [],
  words: '',
  loggedIn: true,
  scheme: 'bearer',
  insufficientScope: false,
  ...more,
})

/** With a credential, unless said. */
const PROBES: readonly { name: string; given: Probed; login?: boolean; want: string }[] = [
  {
    name: 'Basic, wrong password',
    given: refused({ scheme: 'basic', codes: ['UNAUTHORIZED'] }),
    want: 'wrong_credentials at login',
  },
  {
    name: 'Bearer, wrong password',
    given: refused({ step: 'token', scheme: 'basic' }),
    want: 'wrong_credentials at login',
  },
  {
    name: 'Bearer, a password refused with 403',
    given: refused({ step: 'token', scheme: 'basic', status: 403, words: 'DENIED: denied' }),
    want: 'wrong_credentials at login',
  },
  {
    name: 'Bearer, a token without the scope',
    given: refused({
      step: 'token',
      scheme: 'basic',
      status: 403,
      words: 'The token provided does not match expected scopes.',
    }),
    want: 'no_pull_permission at login',
  },
  {
    name: 'a good login without the right',
    given: refused({ insufficientScope: true }),
    want: 'no_pull_permission at pull',
  },
  { name: 'an empty grant', given: refused({}), want: 'no_pull_permission at pull' },
  { name: 'denied', given: refused({ status: 403, codes: ['DENIED'] }), want: 'no_pull_permission at pull' },
  {
    name: 'a private image without a login',
    given: refused({ loggedIn: false, scheme: 'none' }),
    login: false,
    want: 'not_found_or_private at pull',
  },
  {
    name: 'a private image, the scope of nobody',
    given: refused({ loggedIn: false, insufficientScope: true }),
    login: false,
    want: 'not_found_or_private at pull',
  },
  {
    name: 'no repository',
    given: refused({ status: 404, codes: ['NAME_UNKNOWN'] }),
    want: 'not_found_or_private at pull',
  },
  {
    name: 'no tag',
    given: refused({ status: 404, codes: ['MANIFEST_UNKNOWN'] }),
    want: 'not_found_or_private at pull',
  },
  {
    name: 'an expired token of ECR',
    given: refused({
      status: 403,
      scheme: 'basic',
      words: 'denied: Your authorization token has expired. Reauthenticate and try again.',
    }),
    want: 'token_expired at pull',
  },
  { name: 'too many requests', given: refused({ status: 429 }), want: 'rate_limited at pull' },
  {
    name: 'too many requests, with another status',
    given: refused({ status: 403, codes: ['OTHER', 'TOOMANYREQUESTS'] }),
    want: 'rate_limited at pull',
  },
  {
    name: 'an expired token, with 401',
    given: refused({ words: 'The token has expired' }),
    want: 'token_expired at pull',
  },
  {
    name: 'an expired token, by an accident of the registry',
    given: refused({ status: 500, words: 'The token has expired' }),
    want: 'unreachable at pull',
  },
  {
    name: 'a missing scope, told at the manifest by Basic',
    given: refused({ status: 401, scheme: 'basic', words: 'no permission' }),
    want: 'wrong_credentials at login',
  },
  {
    name: 'a missing scope, told with 401 for a token',
    given: refused({ step: 'token', scheme: 'basic', words: 'no permission' }),
    want: 'wrong_credentials at login',
  },
  {
    name: 'no service for tokens',
    given: refused({ step: 'token', status: 404 }),
    want: 'not_found_or_private at login',
  },
  { name: 'denied without a code', given: refused({ status: 403 }), want: 'no_pull_permission at pull' },
  {
    name: 'denied with another status',
    given: refused({ status: 400, codes: ['DENIED'] }),
    want: 'no_pull_permission at pull',
  },
  {
    name: 'no repository, without a code',
    given: refused({ status: 404 }),
    want: 'not_found_or_private at pull',
  },
  {
    name: 'no repository, with another status',
    given: refused({ status: 400, codes: ['NAME_UNKNOWN'] }),
    want: 'not_found_or_private at pull',
  },
  {
    name: 'no tag, with another status',
    given: refused({ status: 400, codes: ['MANIFEST_UNKNOWN'] }),
    want: 'not_found_or_private at pull',
  },
  { name: 'nothing wrong', given: { kind: 'found' }, want: 'tool_failed at pull' },
  {
    name: 'too many requests for tokens',
    given: refused({ step: 'token', status: 429 }),
    want: 'rate_limited at login',
  },
  { name: 'an accident of the registry', given: refused({ status: 500 }), want: 'unreachable at pull' },
  { name: 'something else', given: refused({ status: 418 }), want: 'tool_failed at pull' },
  { name: 'no such host', given: { kind: 'unreachable', failure: 'dns' }, want: 'dns_failed at pull' },
  {
    name: 'an untrusted certificate',
    given: { kind: 'unreachable', failure: 'tls' },
    want: 'tls_failed at pull',
  },
  { name: 'nobody there', given: { kind: 'unreachable', failure: 'refused' }, want: 'unreachable at pull' },
  { name: 'a realm elsewhere', given: { kind: 'realm-refused' }, want: 'host_not_allowed at login' },
]

describe('what a registry says', () => {
  for (const { name, given, login = true, want } of PROBES)
    it(`of ${name} is ${want}`, () => {
      const { code, step } = failureOfProbe(given, login)
      expect(`${code} at ${step}`).toBe(want)
    })
})

const FOUND: Probed = { kind: 'found' }
const PULLS: readonly { stderr: string; probed?: Probed; want: string }[] = [
  {
    stderr: 'writing blob: write /output/oci-put-blob: no space left on device',
    want: 'out_of_disk at store',
  },
  { stderr: 'write: file too large', probed: refused({ status: 500 }), want: 'out_of_disk at store' },
  { stderr: 'reading blob: unexpected EOF', want: 'unreachable at pull' },
  { stderr: 'read tcp: connection reset by peer', want: 'unreachable at pull' },
  { stderr: 'toomanyrequests: slow down', want: 'rate_limited at pull' },
  { stderr: 'Error: denied: requested access to the resource is denied', want: 'no_pull_permission at pull' },
  {
    stderr: 'Get "https://a.test/": a.test resolves to an address that bakes must not connect to',
    want: 'host_not_allowed at pull',
  },
  { stderr: 'x509: certificate signed by unknown authority', want: 'tls_failed at pull' },
  { stderr: 'no image found in manifest list for architecture s390x', want: 'platform_missing at pull' },
  {
    stderr: 'choosing image instance: no image found in image index for architecture "arm64", OS "linux"',
    want: 'platform_missing at pull',
  },
  { stderr: 'manifest unknown', probed: refused({ scheme: 'basic' }), want: 'wrong_credentials at login' },
]

describe('the name of an image', () => {
  it.each(['acme/502', 'acme/denied', 'acme/toomanyrequests', 'acme/429'])('says nothing: %s', (path) => {
    const image = `registry.test/${path}:1.0`
    const stderr = `initializing source docker://${image}: reading manifest of ${path}: something else`
    expect(failureOfPull({ probed: FOUND, withLogin: true, stderr, image }).code).toBe('tool_failed')
  })

  it.each(['registry.test/denied/a:1.0', 'registry.test/denied/a@sha256:0', 'registry.test:5000/denied/a'])(
    'says nothing where the tool leaves its version out: %s',
    (image) => {
      const stderr = `reading ${image.replace(/@.*$|:1.0$/, '')}: something else`
      expect(failureOfPull({ probed: FOUND, withLogin: true, stderr, image }).code).toBe('tool_failed')
    },
  )

  it('says nothing where a URL has it, if it is one word', () => {
    const stderr = 'Get "https://registry.test/v2/denied/manifests/1.0": something else'
    const pull = { probed: FOUND, withLogin: true, stderr, image: 'registry.test/denied:1.0' }
    expect(failureOfPull(pull).code).toBe('tool_failed')
  })

  it('takes no word from what the tool says besides', () => {
    const stderr = 'Get "https://registry.test/v2/denied/manifests/1.0": denied: no access'
    const pull = { probed: FOUND, withLogin: true, stderr, image: 'registry.test/denied:1.0' }
    expect(failureOfPull(pull).code).toBe('no_pull_permission')
  })

  it.each([
    ['received unexpected HTTP status: 502 Bad Gateway', 'unreachable'],
    ['invalid status code from registry 429 (Slow Down)', 'rate_limited'],
    ['wrote 502 of 429 blobs', 'tool_failed'],
  ])('is told from a status: %s', (stderr, want) =>
    expect(failureOfPull({ probed: FOUND, withLogin: true, stderr }).code).toBe(want),
  )
})

describe('a pull that failed', () => {
  it('for want of a right, without a login, is of an image that is private or not there', () => {
    const pull = { probed: FOUND, withLogin: false, stderr: 'denied: no access' }
    expect(failureOfPull(pull)).toEqual({ code: 'not_found_or_private', step: 'pull' })
  })

  it('for another cause, without a login, is what it is', () => {
    const pull = { probed: FOUND, withLogin: false, stderr: 'connection reset by peer' }
    expect(failureOfPull(pull)).toEqual({ code: 'unreachable', step: 'pull' })
  })

  for (const { stderr, probed = FOUND, want } of PULLS)
    it(`with "${stderr}" after ${probed.kind} is ${want}`, () => {
      const { code, step } = failureOfPull({ probed, withLogin: true, stderr })
      expect(`${code} at ${step}`).toBe(want)
    })
})
