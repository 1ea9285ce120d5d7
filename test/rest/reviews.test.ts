import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { GROUP } from '../../src/apis/meta.ts'
import { type CallerIdentity, connectReviews, type Reviews } from '../../src/kube/reviews.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import {
  MANAGE_WEBHOOKS,
  type Permission,
  PING,
  PUBLISH,
  REDELIVER,
  ROLL,
  VISIBILITY,
} from '../../src/server/http/route.ts'
import {
  applyRoles,
  applyServerRole,
  makeAccount,
  makeBoundTokens,
  makeToken,
  type RoleName,
  writeKubeconfig,
} from '../support/api-keys.ts'
import { testNamespace } from '../support/control-plane.ts'

let organization: string
let other: string
let reviews: Reviews
let folder: string

beforeAll(async () => {
  await applyRoles()
  organization = await testNamespace('reviews')
  other = await testNamespace('reviews-other')
  // With the REST server's own identity and the shipped rights.
  const system = await testNamespace('reviews-system', { organization: false })
  const account = await applyServerRole(system)
  folder = await mkdtemp(path.join(tmpdir(), 'davit-reviews-'))
  const kubeconfigPath = path.join(folder, 'kubeconfig')
  await writeKubeconfig(kubeconfigPath, await makeToken(system, account, { audiences: [] }))
  reviews = await connectReviews({ kubeconfigPath, clock: createClock(), random: createRandom() })
})
afterAll(async () => {
  await reviews.close()
  await rm(folder, { recursive: true, force: true })
})

async function identityOf(token: string): Promise<CallerIdentity> {
  const identity = await reviews.tokens.review(token)
  if (!identity) throw new Error('the token was refused')
  return identity
}

test('a key as kubectl makes it is its ServiceAccount, with the id of the key', async () => {
  await makeAccount(organization, 'known')
  const identity = await identityOf(await makeToken(organization, 'known'))
  expect(identity.username).toBe(`system:serviceaccount:${organization}:known`)
  expect(identity.groups).toContain(`system:serviceaccounts:${organization}`)
  expect(identity.extra['authentication.kubernetes.io/credential-id']).toEqual([
    expect.stringMatching(/^JTI=/),
  ])
})

test('a token for the API server is no key, and a key is no token for the API server', async () => {
  await makeAccount(organization, 'audience')
  const plain = await makeToken(organization, 'audience', { audiences: [] })
  expect(await reviews.tokens.review(plain)).toBeUndefined()
  const foreign = await makeToken(organization, 'audience', { audiences: ['vault'] })
  expect(await reviews.tokens.review(foreign)).toBeUndefined()
  const key = await makeToken(organization, 'audience')
  const answer = await requestApi(inject('adminAccess'), { method: 'GET', path: '/version', token: key })
  expect(answer.status).toBe(401)
})

/** Of a token that it has just found valid the API server keeps the verdict for ten seconds: so one that it has not seen. */
test('a key ends when the Secret that it is bound to is deleted', async () => {
  await makeAccount(organization, 'bound')
  const { tokens, revoke } = await makeBoundTokens(organization, 'bound')
  expect(await reviews.tokens.review(tokens[0])).toBeDefined()
  await revoke()
  await expect.poll(() => reviews.tokens.review(tokens[1])).toBeUndefined()
})

test.each(['garbage', 'a.b.c', `${'a'.repeat(4_000)}.b.c`])('%.20s is no key', async (token) => {
  expect(await reviews.tokens.review(token)).toBeUndefined()
})

test('a key that was changed in one character is no key', async () => {
  await makeAccount(organization, 'changed')
  const [head, claims, signature = ''] = (await makeToken(organization, 'changed')).split('.')
  const middle = signature[100] === 'A' ? 'B' : 'A'
  const changed = `${head}.${claims}.${signature.slice(0, 100)}${middle}${signature.slice(101)}`
  expect(await reviews.tokens.review(changed)).toBeUndefined()
})

/** What the routes of credentials and settings ask for, reads included. */
const SETTINGS: Permission[] = [
  { verb: 'update', resource: 'registrycredentials' },
  { verb: 'update', resource: 'secretssettings' },
]
const OWNERS: Permission[] = [MANAGE_WEBHOOKS, PING, ROLL, REDELIVER, ...SETTINGS]

const ROLES: { role: RoleName; may: Permission[]; mayNot: Permission[] }[] = [
  { role: 'davit-owner', may: [...OWNERS, PUBLISH, ...VISIBILITY], mayNot: [] },
  {
    role: 'davit-viewer',
    may: VISIBILITY.filter(({ verb }) => verb === 'get'),
    mayNot: [...OWNERS, PUBLISH],
  },
  {
    role: 'davit-publisher',
    may: [PUBLISH],
    mayNot: [...OWNERS, ...VISIBILITY.filter(({ verb }) => verb === 'get')],
  },
]

test.each(ROLES)(
  '$role may what its name says, in its own organization alone',
  async ({ role, may, mayNot }) => {
    await makeAccount(organization, role, role)
    const identity = await identityOf(await makeToken(organization, role))
    const allowed = (namespace: string, permission: Permission) =>
      reviews.access.allowed(identity, { namespace, group: GROUP, ...permission })
    for (const permission of may) {
      expect([permission, await allowed(organization, permission)]).toEqual([permission, true])
      expect([permission, await allowed(other, permission)]).toEqual([permission, false])
      expect([permission, await allowed('nowhere', permission)]).toEqual([permission, false])
    }
    for (const permission of mayNot) {
      expect([permission, await allowed(organization, permission)]).toEqual([permission, false])
    }
  },
)

test('an account without a role may nothing', async () => {
  await makeAccount(organization, 'nobody')
  const identity = await identityOf(await makeToken(organization, 'nobody'))
  for (const permission of [...OWNERS, ...VISIBILITY]) {
    const question = { namespace: organization, group: GROUP, ...permission }
    expect(await reviews.access.allowed(identity, question)).toBe(false)
  }
})
