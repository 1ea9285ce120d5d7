/** Logins and rights that a registry rejects (interface §3.3, §7), with real registries and the real tool. */
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest'
import { expectFailure, type FailureRow } from '../support/bake/expect-failure.ts'
import { FailureBed, type Given, refuse } from '../support/bake/failure-bed.ts'

let bed: FailureBed
beforeAll(async () => {
  bed = await FailureBed.start()
})
afterEach(() => bed.renew())
afterAll(() => bed?.stop())

const LOGIN: readonly FailureRow[] = [
  {
    name: 'a wrong password by Basic',
    given: () => ({ credential: { parameter: bed.parameters.wrong } }),
    want: {
      step: 'login',
      code: 'wrong_credentials',
      message: /unauthorized: authentication required/,
      verified: false,
    },
  },
  {
    name: 'a wrong password by Bearer',
    given: () => ({ registry: bed.registries.bearer, credential: { parameter: bed.parameters.wrong } }),
    want: {
      step: 'login',
      code: 'wrong_credentials',
      message: /invalid username\/password.*incorrect username or password/,
      verified: false,
    },
  },
  {
    name: 'an unknown user by Basic',
    given: () => ({ credential: { username: 'nobody' } }),
    want: { step: 'login', code: 'wrong_credentials', message: /unauthorized/, verified: false },
  },
  {
    name: 'an unknown user by Bearer',
    given: () => ({ registry: bed.registries.bearer, credential: { username: 'nobody' } }),
    want: {
      step: 'login',
      code: 'wrong_credentials',
      message: /invalid username\/password/,
      verified: false,
    },
  },
  {
    name: 'a service for tokens that refuses the user',
    given: () => {
      const { bearer } = bed.registries
      bearer.tokens.trouble = { status: 403, body: '{"details":"account disabled"}' }
      return { registry: bearer }
    },
    want: { step: 'login', code: 'wrong_credentials', message: /403 \(Forbidden\)/, verified: false },
  },
  {
    name: 'a service for tokens that wants fewer requests',
    given: () => {
      const { bearer } = bed.registries
      bearer.tokens.trouble = { status: 429, body: 'slow down, please', headers: { 'retry-after': '60' } }
      return { registry: bearer }
    },
    want: { step: 'login', code: 'rate_limited', message: /too many requests to registry/, verified: false },
  },
  {
    name: 'a realm on a foreign host',
    given: () => {
      const { bearer, expired } = bed.registries
      bearer.front.challenge = (header) =>
        header.replace('https://realm.invalid/token', `https://${expired.host}/token`)
      return { registry: bearer }
    },
    want: {
      step: 'login',
      code: 'host_not_allowed',
      message: /use the token endpoint https:\/\/localhost:\d+\/token.*DAVIT_BAKE_REALMS/,
      verified: false,
    },
  },
  {
    name: 'a realm at a metadata service that the registry shows to the tool alone',
    given: () => realmForTheTool('https://169.254.169.254/latest/token'),
    want: {
      step: 'pull',
      code: 'host_not_allowed',
      message: /169\.254\.169\.254 resolves to an address that bakes must not connect to/,
      verified: true,
    },
  },
  {
    name: 'a realm by plain http that the registry shows to the tool alone',
    given: () => realmForTheTool('http://realm.invalid/token'),
    want: { step: 'pull', code: 'tool_failed', message: /403 \(Forbidden\)/, verified: true },
  },
]

/** The earlier answer of the registry does not bind it. */
function realmForTheTool(realm: string): Given {
  const { basic } = bed.registries
  basic.front.trouble = (request, response) => {
    if (request.headers['user-agent']?.startsWith('davit/')) return false
    response.writeHead(401, { 'www-authenticate': `Bearer realm="${realm}",service="tests"` }).end()
    return true
  }
  return { registry: basic }
}

const RIGHT: readonly FailureRow[] = [
  {
    name: 'a valid login without the right',
    given: () => ({ registry: bed.registries.bearer, image: 'acme/other:1.0' }),
    want: {
      step: 'pull',
      code: 'no_pull_permission',
      message: /requested access to the resource is denied/,
      verified: false,
    },
  },
  {
    name: 'a login that has ended, and is granted nothing',
    given: () => ({ registry: bed.registries.bearer, credential: { username: 'ended' } }),
    want: {
      step: 'pull',
      code: 'no_pull_permission',
      message: /requested access to the resource is denied/,
      verified: false,
    },
  },
  {
    name: 'a refusal of the repository',
    given: () => {
      const message = 'requested access to the resource is denied'
      refuse(bed.registries.basic, { status: 403, errors: [{ code: 'DENIED', message }] })
      return {}
    },
    want: { step: 'pull', code: 'no_pull_permission', message: /denied/, verified: false },
  },
  {
    name: 'a refusal that repeats the login',
    given: () => {
      bed.registries.basic.front.trouble = (request, response) => {
        const login = /^Basic (.*)$/.exec(request.headers.authorization ?? '')?.[1]
        if (login === undefined) return false
        const [, secret = ''] = /^[^:]*:(.*)$/.exec(Buffer.from(login, 'base64').toString()) ?? []
        const message = `${secret} ${encodeURIComponent(secret)} ${login} "${Buffer.from(secret).toString('hex')}"`
        response.writeHead(403, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ errors: [{ code: 'DENIED', message }] }))
        return true
      }
      return {}
    },
    want: {
      step: 'pull',
      code: 'no_pull_permission',
      message: /denied: \[secret\] \[secret\] .*\[secret\].* .*\[secret\]/,
      verified: false,
    },
  },
  {
    name: 'an expired token of ECR',
    given: () => {
      const message = 'Your authorization token has expired. Reauthenticate and try again.'
      refuse(bed.registries.basic, { status: 403, errors: [{ code: 'DENIED', message }] })
      return {}
    },
    want: {
      step: 'pull',
      code: 'token_expired',
      message: /Your authorization token has expired/,
      verified: false,
    },
  },
  {
    name: 'a private image without a credential, by Basic',
    given: () => ({ credential: undefined }),
    want: { step: 'pull', code: 'not_found_or_private', message: /unauthorized: authentication required/ },
  },
  {
    name: 'a private image without a credential, by Bearer',
    given: () => ({ registry: bed.registries.bearer, credential: undefined }),
    want: {
      step: 'pull',
      code: 'not_found_or_private',
      message: /requested access to the resource is denied/,
    },
  },
  {
    name: 'a missing repository',
    given: () => ({ image: 'acme/none:1.0' }),
    want: { step: 'pull', code: 'not_found_or_private', message: /manifest unknown/, verified: false },
  },
  {
    name: 'a missing tag',
    given: () => ({ image: 'acme/api:none' }),
    want: { step: 'pull', code: 'not_found_or_private', message: /manifest unknown/, verified: false },
  },
  {
    name: 'an image for other platforms',
    given: () => ({ image: 'acme/api:arm' }),
    want: { step: 'pull', code: 'platform_missing', message: /no image found in/, verified: true },
  },
  ...['arm-alone', 'arm-docker', 'mislabeled'].map(
    (tag): FailureRow => ({
      name: `an image of one other platform (${tag})`,
      given: () => ({ image: `acme/api:${tag}` }),
      want: {
        step: 'pull',
        code: 'platform_missing',
        message: /acme\/api:\S+ is an image for linux\/arm64, but the platform of the box is linux\/amd64\.$/,
        verified: true,
      },
    }),
  ),
]

describe.each([
  ['a login', LOGIN],
  ['a right, or an image', RIGHT],
])('a bake fails on %s:', (_name, rows) => {
  for (const row of rows) {
    it(`${row.name}: ${row.want.code}`, () => expectFailure(bed, row))
  }
})
