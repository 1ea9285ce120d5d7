import { expect, test } from 'vitest'
import { ApiError } from './client.ts'
import { type CallerIdentity, createAccessReviewer, createTokenReviewer } from './reviews.ts'
import type { ApiRequest } from './transport.ts'

const TOKEN = 'aaa.bbb.ccc'
const OWNER: CallerIdentity = {
  username: 'system:serviceaccount:acme:ci',
  uid: 'u-1',
  groups: ['system:authenticated'],
  extra: { 'authentication.kubernetes.io/credential-id': ['JTI=1'] },
}

/** A transport that answers as it is told and keeps what it was asked. */
function answering(answer: unknown) {
  const asked: ApiRequest[] = []
  const call = async (request: ApiRequest) => {
    asked.push(request)
    if (answer instanceof Error) throw answer
    return Buffer.from(typeof answer === 'string' ? answer : JSON.stringify(answer))
  }
  return { asked, call }
}

const review = (answer: unknown) => createTokenReviewer(answering(answer)).review(TOKEN)
const valid = { authenticated: true, audiences: ['davit'], user: OWNER }

test('a token is reviewed for the audience davit', async () => {
  const transport = answering({ status: valid })
  expect(await createTokenReviewer(transport).review(TOKEN)).toEqual(OWNER)
  expect(transport.asked).toHaveLength(1)
  expect(transport.asked[0]).toMatchObject({
    verb: 'create',
    repeatable: true,
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
  })
  expect(JSON.parse(transport.asked[0]?.body ?? '')).toMatchObject({
    spec: { token: TOKEN, audiences: ['davit'] },
  })
})

test.each([
  { what: 'not authenticated', status: { ...valid, authenticated: false } },
  { what: 'checked for no audience', status: { ...valid, audiences: undefined } },
  { what: 'for another audience', status: { ...valid, audiences: ['https://kubernetes.default.svc'] } },
  { what: 'with an error', status: { ...valid, error: 'token lookup failed' } },
  { what: 'of nobody', status: { ...valid, user: undefined } },
  { what: 'of a user without a name', status: { ...valid, user: { username: '' } } },
  { what: 'an empty status', status: {} },
])('a token that is $what is no key', async ({ status }) => {
  expect(await review({ status })).toBeUndefined()
})

test.each([['no JSON'], ['{}'], [{ status: { authenticated: 'yes', allowed: 'yes' } }], [null]])(
  'an answer that is no review decides nothing: %j',
  async (answer) => {
    const error = await review(answer).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ kind: 'Unavailable' })
    expect(String((error as Error).stack)).not.toContain(TOKEN)
    const question = { namespace: 'acme', group: 'davit.dev', verb: 'get', resource: 'x' }
    await expect(createAccessReviewer(answering(answer)).allowed(OWNER, question)).rejects.toMatchObject({
      kind: 'Unavailable',
    })
  },
)

test('an API server that is away decides nothing', async () => {
  const away = new ApiError('Unavailable', 'away')
  await expect(review(away)).rejects.toBe(away)
})

test('an API server that does not know the rights of Davit itself yet decides nothing', async () => {
  const refused = new ApiError('Forbidden', 'davit-api cannot create resource "tokenreviews"', {
    status: 403,
  })
  const question = { namespace: 'acme', group: 'davit.dev', verb: 'get', resource: 'x' }
  const want = { kind: 'Unavailable', message: refused.message, cause: refused }
  await expect(review(refused)).rejects.toMatchObject(want)
  await expect(createAccessReviewer(answering(refused)).allowed(OWNER, question)).rejects.toMatchObject(want)
})

test('a right is asked for with everything that the token review said of the caller', async () => {
  const transport = answering({ status: { allowed: true } })
  const question = {
    namespace: 'acme',
    group: 'davit.dev',
    verb: 'create',
    resource: 'webhookendpoints',
    subresource: 'ping',
  }
  expect(await createAccessReviewer(transport).allowed(OWNER, question)).toBe(true)
  expect(transport.asked[0]).toMatchObject({ verb: 'create', repeatable: true })
  expect(JSON.parse(transport.asked[0]?.body ?? '').spec).toEqual({
    user: OWNER.username,
    uid: OWNER.uid,
    groups: OWNER.groups,
    extra: OWNER.extra,
    resourceAttributes: question,
  })
})

test('a right in no namespace would be one in all: it is refused without asking', async () => {
  const transport = answering({ status: { allowed: true } })
  const question = { namespace: '', group: 'davit.dev', verb: 'get', resource: 'webhookendpoints' }
  expect(await createAccessReviewer(transport).allowed(OWNER, question)).toBe(false)
  expect(transport.asked).toEqual([])
})

test.each([
  { status: {}, want: false },
  { status: { allowed: false }, want: false },
  { status: { allowed: true, denied: true }, want: false },
  { status: { allowed: false, denied: true, evaluationError: 'x' }, want: false },
  { status: { allowed: true, evaluationError: 'x' }, want: true },
  { status: { allowed: false, evaluationError: 'x' }, want: 'Unavailable' },
])('$status is $want', async ({ status, want }) => {
  const question = { namespace: 'acme', group: 'davit.dev', verb: 'get', resource: 'webhookendpoints' }
  const answer = await createAccessReviewer(answering({ status }))
    .allowed(OWNER, question)
    .catch((error: ApiError) => error.kind)
  expect(answer).toBe(want)
})
