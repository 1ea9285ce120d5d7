/** Every row of what can go wrong (interface §3.3, §7), against the real registry and the real tool. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BakeOrder, OrderedCredential } from '../../src/api/bake-order.ts'
import { freePort } from '../chaos/free-port.ts'
import { type BakeBed, BOX_POLICY, orderOf, startBakeBed } from '../support/bake/bake-bed.ts'
import { type BakeEnd, BakePod } from '../support/bake/bake-process.ts'
import { leaksIn, leaksInFolder } from '../support/bake/canary.ts'
import { type DebianRegistry, startDebianRegistry } from '../support/registry/debian-registry.ts'
import type { Front } from '../support/registry/front.ts'
import { makeImage } from '../support/registry/images.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'

const LIMIT_MS = 120_000
const SECRET = 'canary-of-the-failures:1'
const ACCOUNTS = { bot: { password: SECRET, pulls: ['acme/api'] } }

let bed: BakeBed
let basic: TestRegistry
let bearer: TestRegistry
let expired: TestRegistry
let plain: DebianRegistry
let pod: BakePod
let parameter: NonNullable<OrderedCredential['parameter']>
let wrong: NonNullable<OrderedCredential['parameter']>
const challenges = new Map<TestRegistry, Front['challenge']>()

beforeAll(async () => {
  bed = await startBakeBed()
  parameter = await bed.store('rc_api', SECRET)
  wrong = await bed.store('rc_wrong', `${SECRET}-wrong`)
  basic = await startTestRegistry({ auth: 'basic', accounts: ACCOUNTS })
  bearer = await startTestRegistry({ auth: 'bearer', accounts: ACCOUNTS })
  expired = await startTestRegistry({ auth: 'none', days: -1 })
  plain = await startDebianRegistry()
  for (const registry of [basic, bearer, expired]) {
    challenges.set(registry, registry.front.challenge)
    await registry.push('acme/api', '1.0', makeImage({ layers: ['base', 'api'] }))
    await registry.push('acme/large', '1.0', makeImage({ layers: ['base', 6_000_000] }))
    await registry.push('acme/other', '1.0', makeImage({ layers: ['base', 'other'] }))
  }
}, LIMIT_MS)
afterAll(async () => {
  for (const part of [basic, bearer, expired, plain, bed]) await part?.stop()
})
beforeEach(() => {
  pod = new BakePod()
})
afterEach(() => {
  for (const [registry, challenge] of challenges)
    Object.assign(registry.front, { trouble: undefined, challenge })
  pod.remove()
})

type Given = {
  registry?: TestRegistry
  host?: string
  image?: string
  credential?: Partial<OrderedCredential> | undefined
  /** Whom the bake trusts; absent: the registry's authority. */
  ca?: string
  output?: string
}

function service({ registry = basic, host = registry.host, image = 'acme/api:1.0', ...given }: Given) {
  const own = { id: 'rc_api', type: 'token' as const, registry: host, username: 'bot', parameter }
  const credential =
    'credential' in given && !given.credential ? {} : { credential: { ...own, ...given.credential } }
  return { name: 'api', image: `${host}/${image}`, ...credential } satisfies BakeOrder['services'][number]
}

async function bake(given: Given): Promise<BakeEnd> {
  const { registry = basic, ca = registry.ca, output = pod.output } = given
  return await pod.start(orderOf([service(given)], output), bed.environment(ca)).ended
}

/** Whatever went wrong: nothing partial is there, and the secret is nowhere. */
async function failure(given: Given) {
  const { code, result, log } = await bake(given)
  expect({ code, state: result?.state }, log).toEqual({ code: 1, state: 'failed' })
  const bakes = join(given.output ?? pod.output, '.davit/shop')
  expect(existsSync(bakes) ? readdirSync(bakes) : []).toEqual([])
  expect(existsSync(join(given.output ?? pod.output, 'shop'))).toBe(false)
  expect(readdirSync(pod.memory)).toEqual([])
  expect(leaksIn(log + JSON.stringify(result), SECRET, 'bot')).toEqual([])
  expect(leaksInFolder(pod.folder, SECRET, 'bot')).toEqual([])
  return { ...result?.failure, verified: result?.services[0]?.verified }
}

const refuse = (registry: () => TestRegistry, status: number, errors: unknown, only = '/manifests/') => {
  registry().front.trouble = (request, response) => {
    if (!request.url?.includes(only)) return false
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }))
    return true
  }
}

type Row = {
  name: string
  given: () => Given | Promise<Given>
  want: { step: string; code: string; message: RegExp; verified?: boolean }
}

const LOGIN: readonly Row[] = [
  {
    name: 'a wrong password by Basic',
    given: () => ({ credential: { parameter: wrong } }),
    want: {
      step: 'login',
      code: 'wrong_credentials',
      message: /unauthorized: authentication required/,
      verified: false,
    },
  },
  {
    name: 'a wrong password by Bearer',
    given: () => ({ registry: bearer, credential: { parameter: wrong } }),
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
    given: () => ({ registry: bearer, credential: { username: 'nobody' } }),
    want: {
      step: 'login',
      code: 'wrong_credentials',
      message: /invalid username\/password/,
      verified: false,
    },
  },
  {
    name: 'a valid login without the right',
    given: () => ({ registry: bearer, image: 'acme/other:1.0' }),
    want: {
      step: 'pull',
      code: 'no_pull_right',
      message: /requested access to the resource is denied/,
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
    given: () => ({ registry: bearer, credential: undefined }),
    want: {
      step: 'pull',
      code: 'not_found_or_private',
      message: /requested access to the resource is denied/,
    },
  },
  {
    name: 'an expired token of ECR',
    given: () => {
      const message = 'Your authorization token has expired. Reauthenticate and try again.'
      refuse(() => basic, 403, [{ code: 'DENIED', message }])
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
    name: 'a realm on a foreign host',
    given: () => {
      bearer.front.challenge = (header) =>
        header.replace('https://realm.invalid/token', `https://${expired.host}/token`)
      return { registry: bearer }
    },
    want: {
      step: 'login',
      code: 'realm_refused',
      message: /sends logins to https:\/\/localhost:\d+\/token.*DAVIT_BAKE_REALMS/,
      verified: false,
    },
  },
]

const IMAGE: readonly Row[] = [
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
]

const NETWORK: readonly Row[] = [
  {
    name: 'too many requests',
    given: () => {
      refuse(() => basic, 429, [{ code: 'TOOMANYREQUESTS', message: 'slow down, please' }])
      return {}
    },
    want: {
      step: 'pull',
      code: 'rate_limited',
      message: /toomanyrequests: slow down, please/,
      verified: false,
    },
  },
  {
    name: 'an accident of the registry',
    given: () => {
      refuse(() => basic, 500, [], '/v2/')
      return {}
    },
    want: { step: 'login', code: 'unreachable', message: /500 Internal Server Error/, verified: false },
  },
  {
    name: 'a certificate that nobody trusts',
    given: () => ({ ca: expired.ca }),
    want: {
      step: 'pull',
      code: 'tls_failed',
      message: /x509: certificate signed by unknown authority/,
      verified: false,
    },
  },
  {
    name: 'a certificate that has expired',
    given: () => ({ registry: expired }),
    want: { step: 'pull', code: 'tls_failed', message: /x509: certificate has expired/, verified: false },
  },
  {
    name: 'a host without an address',
    given: () => ({ host: 'registry.invalid' }),
    want: {
      step: 'pull',
      code: 'dns_failed',
      message: /registry\.invalid.*(no such host|name resolution|server misbehaving)/,
      verified: false,
    },
  },
  {
    name: 'a host where nobody answers',
    given: async () => ({ host: `localhost:${await freePort()}` }),
    want: { step: 'pull', code: 'unreachable', message: /connection refused/, verified: false },
  },
  {
    name: 'a registry without TLS',
    given: () => ({ host: `localhost:${plain.port}` }),
    want: {
      step: 'pull',
      code: 'tls_failed',
      message: /server gave HTTP response to HTTPS client/,
      verified: false,
    },
  },
]

describe.each([
  ['a login', LOGIN],
  ['an image', IMAGE],
  ['a registry', NETWORK],
])('a bake fails on %s:', (_name, rows) => {
  for (const { name, given, want } of rows)
    it(name, { timeout: LIMIT_MS }, async () => {
      const { step, code, message, verified } = await failure(await given())
      expect({ step, code, message }).toEqual({
        step: want.step,
        code: want.code,
        message: expect.stringMatching(want.message),
      })
      expect(verified?.ok).toBe(want.verified)
      if (verified) expect(verified.code).toBe(want.code)
    })
})

describe('a bake fails on a secret', () => {
  it('that is not there', { timeout: LIMIT_MS }, async () => {
    const missing = { ...parameter, name: '/davit/acme/rc_missing' }
    expect(await failure({ credential: { parameter: missing } })).toMatchObject({
      step: 'read-secret',
      code: 'secret_unreadable',
      message: expect.stringMatching(/^ssm:GetParameter ParameterNotFound/),
    })
  })

  it('whose version is gone', { timeout: LIMIT_MS }, async () => {
    expect(await failure({ credential: { parameter: { ...parameter, version: 9 } } })).toMatchObject({
      code: 'secret_unreadable',
      message: expect.stringMatching(/^ssm:GetParameter ParameterVersionNotFound/),
    })
  })

  it('that the role may not read', async () => {
    const [, ...others] = BOX_POLICY.Statement
    bed.account.changeRole(bed.role, { policies: { box: { ...BOX_POLICY, Statement: others } } })
    try {
      expect(await failure({})).toMatchObject({
        step: 'read-secret',
        code: 'secret_unreadable',
        message: expect.stringMatching(
          /AccessDeniedException: .*is not authorized to perform: ssm:GetParameter/,
        ),
      })
    } finally {
      bed.account.changeRole(bed.role, { policies: { box: BOX_POLICY } })
    }
    // Nothing was asked of the registry.
  })

  it('with an identity that the role does not trust', async () => {
    const { trust } = bed.role
    bed.role.trust = []
    try {
      expect(await failure({})).toMatchObject({
        code: 'secret_unreadable',
        message: expect.stringMatching(/^sts:AssumeRoleWithWebIdentity AccessDenied/),
      })
    } finally {
      bed.role.trust = trust
    }
  })
})

describe('a bake fails on a full disk', () => {
  const isRoot = process.getuid?.() === 0

  it.runIf(isRoot)('and leaves nothing on it', { timeout: LIMIT_MS }, async () => {
    const output = join(pod.folder, 'small')
    mkdirSync(output)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'none', output])
    try {
      basic.front.trouble = undefined
      expect(await failure({ image: 'acme/large:1.0', output })).toMatchObject({
        step: 'store',
        code: 'no_room',
        message: expect.stringMatching(/no space left on device/),
      })
      expect((await bake({ output })).result?.state).toBe('succeeded')
    } finally {
      execFileSync('umount', [output])
    }
  })
})
