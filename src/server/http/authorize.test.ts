import { beforeEach, expect, test } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { ApiError } from '../../kube/client.ts'
import type { ResourceAttributes } from '../../kube/reviews.ts'
import { type Authorizer, type Client, createAuthorizer } from './auth.ts'
import { MANAGE_WEBHOOKS, PING, PUBLISH } from './route.ts'

const client: Client = {
  caller: { name: 'ci', keyId: '1' },
  identity: { username: 'ci', uid: 'u', groups: ['g'], extra: {} },
  keyHash: 'h',
}

let clock: FakeClock
let questions: ResourceAttributes[]
let allow: (question: ResourceAttributes) => boolean
let authorize: Authorizer

beforeEach(() => {
  clock = new FakeClock()
  questions = []
  allow = () => false
  authorize = createAuthorizer(
    {
      async allowed(_who, question) {
        questions.push(question)
        return allow(question)
      },
    },
    { has: (name) => name === 'acme' },
    clock,
  )
})

const refusal = async (organization: string, permission = MANAGE_WEBHOOKS) =>
  authorize(client, organization, permission).then(
    () => 'allowed',
    (error: { code?: string; kind?: string }) => error.code ?? error.kind,
  )

test('the right is asked for in the namespace, with group, verb, resource and subresource', async () => {
  allow = () => true
  expect(await refusal('acme', PING)).toBe('allowed')
  expect(questions).toEqual([
    {
      namespace: 'acme',
      group: 'davit.dev',
      verb: 'create',
      resource: 'webhookendpoints',
      subresource: 'ping',
    },
  ])
})

test('who can see the organization but may not do it is forbidden it', async () => {
  allow = ({ verb, resource }) => verb === 'get' && resource === 'webhookendpoints'
  expect(await refusal('acme')).toBe('forbidden')
  allow = ({ verb, resource }) => verb === 'create' && resource === 'webhookevents'
  clock.advance(5_001)
  expect(await refusal('acme')).toBe('forbidden')
  expect(await refusal('acme', PUBLISH)).toBe('allowed')
})

test('who cannot see it finds nothing, as if it were not there', async () => {
  expect(await refusal('acme')).toBe('not_found')
  expect(await refusal('nowhere')).toBe('not_found')
})

test('a namespace that is no organization is nothing even for who may do everything', async () => {
  allow = () => true
  expect(await refusal('kube-system')).toBe('not_found')
})

test.each(['', 'ACME', 'a/b', '..', 'acme.', 'a'.repeat(64), 'аcme'])(
  'what cannot be a namespace is never asked about: %j',
  async (name) => {
    allow = () => true
    expect(await refusal(name)).toBe('not_found')
    expect(questions).toEqual([])
  },
)

test('a right that was taken away ends within five seconds, one that was given begins within two', async () => {
  allow = () => true
  await refusal('acme')
  allow = () => false
  clock.advance(4_999)
  expect(await refusal('acme')).toBe('allowed')
  clock.advance(2)
  expect(await refusal('acme')).toBe('unavailable')
  clock.advance(3_000)
  expect(await refusal('acme')).toBe('not_found')
  allow = () => true
  clock.advance(2_001)
  expect(await refusal('acme')).toBe('allowed')
})

test('an API server that has just started, and refuses for a moment, takes no right away', async () => {
  allow = () => true
  await refusal('acme')
  clock.advance(5_001)
  allow = () => false
  expect(await refusal('acme')).toBe('unavailable')
  allow = () => true
  clock.advance(501)
  expect(await refusal('acme')).toBe('allowed')
})

test('nor one that was not asked about before, of a client that had another one there', async () => {
  allow = () => true
  await refusal('acme')
  clock.advance(5_001)
  allow = () => false
  expect(await refusal('acme', PING)).toBe('unavailable')
  clock.advance(2_001)
  expect(await refusal('acme', PING)).toBe('unavailable')
  clock.advance(2_001)
  expect(await refusal('acme', PING)).toBe('not_found')
})

test('who could see the organization a moment ago is not told that it is none', async () => {
  allow = ({ verb }) => verb === 'get'
  expect(await refusal('acme')).toBe('forbidden')
  clock.advance(5_001)
  allow = () => false
  expect(await refusal('acme')).toBe('unavailable')
  clock.advance(3_000)
  expect(await refusal('acme')).toBe('not_found')
})

test('without an answer nothing is allowed', async () => {
  allow = () => {
    throw new ApiError('Unavailable', 'away')
  }
  expect(await refusal('acme')).toBe('Unavailable')
})

test('whoever asks for many organizations waits for itself alone, with whatever keys', async () => {
  const ends: (() => void)[] = []
  const asked: string[] = []
  authorize = createAuthorizer(
    {
      allowed({ username }) {
        asked.push(username)
        return new Promise((resolve) => ends.push(() => resolve(true)))
      },
    },
    { has: () => true },
    clock,
  )
  const all = Array.from({ length: 20 }, (_, index) =>
    authorize({ ...client, keyHash: `h-${index % 2}` }, `org-${index}`, MANAGE_WEBHOOKS),
  )
  expect(asked).toHaveLength(8)
  const identity = { ...client.identity, username: 'other' }
  all.push(authorize({ ...client, identity, keyHash: 'other' }, 'acme', MANAGE_WEBHOOKS))
  expect(asked.at(-1)).toBe('other')
  while (asked.length < 21) {
    for (const end of ends.splice(0)) end()
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (const end of ends) end()
  await Promise.all(all)
})

test('verdicts of one key are not those of another', async () => {
  allow = () => true
  await refusal('acme')
  allow = () => false
  const other = { ...client, keyHash: 'other' }
  await expect(authorize(other, 'acme', MANAGE_WEBHOOKS)).rejects.toMatchObject({ code: 'not_found' })
})

test('a right that is in use is asked for again ahead of its end, and holds no longer than it would have without an answer', async () => {
  allow = () => true
  await refusal('acme')
  clock.advance(4_000)
  expect(await refusal('acme')).toBe('allowed')
  await settle()
  expect(questions).toHaveLength(2)
  clock.advance(3_999)
  expect(await refusal('acme')).toBe('allowed')
  expect(questions).toHaveLength(2)
  allow = () => {
    throw new ApiError('Unavailable', 'away')
  }
  clock.advance(1)
  expect(await refusal('acme')).toBe('allowed')
  await settle()
  clock.advance(1_001)
  expect(await refusal('acme')).toBe('Unavailable')
})
