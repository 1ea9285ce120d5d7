import { beforeEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { ApiError } from '../../kube/client.ts'
import type { CallerIdentity } from '../../kube/reviews.ts'
import { type Authenticator, createAuthenticator } from './auth.ts'

const OWNER: CallerIdentity = { username: 'system:serviceaccount:acme:ci', uid: 'u', groups: [], extra: {} }

let clock: FakeClock
let reviews: string[]
let answer: (token: string) => Promise<CallerIdentity | undefined>
let authenticate: Authenticator

beforeEach(() => {
  clock = new FakeClock()
  reviews = []
  answer = async () => OWNER
  authenticate = createAuthenticator(
    {
      review(token) {
        reviews.push(token)
        return answer(token)
      },
    },
    clock,
    Buffer.from('k'),
  )
})

const keyWith = (claims: object) => `a.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.b`
const send = (key: string) => authenticate(['authorization', key])

test('a key is reviewed once in five seconds, however often it comes', async () => {
  const all = await Promise.all([send('a.b.c'), send('a.b.c')])
  await send('a.b.c')
  expect(all[0]?.caller.name).toBe('system:serviceaccount:acme:ci')
  expect(reviews).toEqual(['a.b.c'])
  clock.advance(5_001)
  await send('a.b.c')
  expect(reviews).toHaveLength(2)
})

const codeOf = (key: string) =>
  send(key).then(
    () => 'accepted',
    (error: { code?: string }) => error.code,
  )

test('a key that was revoked is refused as soon as its verdict has run out', async () => {
  await send('a.b.c')
  answer = async () => undefined
  clock.advance(5_001)
  expect(await codeOf('a.b.c')).not.toBe('accepted')
})

test('a key that was valid is to be tried again for ten seconds before its client is told that it is none', async () => {
  await send('a.b.c')
  answer = async () => undefined
  clock.advance(30 * 60_000)
  expect(await codeOf('a.b.c')).toBe('unavailable')
  expect(await codeOf('a.b.c')).toBe('unavailable')
  expect(reviews).toHaveLength(2)
  clock.advance(9_999)
  expect(await codeOf('a.b.c')).toBe('unavailable')
  clock.advance(1_001)
  expect(await codeOf('a.b.c')).toBe('unauthenticated')
  clock.advance(4_999)
  expect(await codeOf('a.b.c')).toBe('unauthenticated')
  expect(reviews).toHaveLength(4)
})

test('a valid key that an API server refuses while it starts is accepted again at once', async () => {
  await send('a.b.c')
  answer = async () => undefined
  clock.advance(5_001)
  expect(await codeOf('a.b.c')).toBe('unavailable')
  answer = async () => OWNER
  clock.advance(1_001)
  expect(await codeOf('a.b.c')).toBe('accepted')
  answer = async () => undefined
  clock.advance(9_000)
  expect(await codeOf('a.b.c')).toBe('unavailable')
})

test('a key is not accepted beyond its own end, though its verdict were still good', async () => {
  const key = keyWith({ exp: clock.now() / 1000 + 3 })
  await send(key)
  clock.advance(2_999)
  await send(key)
  clock.advance(1)
  await expect(send(key)).rejects.toMatchObject({ code: 'unauthenticated' })
})

test('a key that is none is refused, and not asked about again for five seconds', async () => {
  answer = async () => undefined
  for (let time = 0; time < 3; time += 1) {
    await expect(send('a.b.c')).rejects.toMatchObject({ code: 'unauthenticated' })
  }
  expect(reviews).toHaveLength(1)
  answer = async () => OWNER
  clock.advance(5_001)
  await send('a.b.c')
})

test('without an answer nobody is let in, and the next request asks again', async () => {
  answer = async () => {
    throw new ApiError('Unavailable', 'away')
  }
  await expect(send('a.b.c')).rejects.toMatchObject({ kind: 'Unavailable' })
  answer = async () => OWNER
  await send('a.b.c')
  expect(reviews).toHaveLength(2)
})

test('a flood of keys that nobody knows gets few reviews, and keeps no key out that was valid before', async () => {
  await send('known.b.c')
  clock.advance(5_001)
  reviews.length = 0
  let release = () => {}
  const held = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined)
  })
  answer = (token) => (token === 'known.b.c' ? Promise.resolve(OWNER) : held)
  const sent = Array.from({ length: 150 }, (_, index) => codeOf(`a.b.${index}`))
  expect(reviews).toHaveLength(8)
  expect(await codeOf('known.b.c')).toBe('accepted')
  release()
  const codes = await Promise.all(sent)
  expect(codes.filter((code) => code === 'overloaded')).toHaveLength(42)
  expect(codes.filter((code) => code === 'unauthenticated')).toHaveLength(108)
})

test('a key that says itself that it is over, or for others, is refused without asking', async () => {
  const exp = clock.now() / 1000
  const hopeless = [{ exp }, { aud: ['vault'] }, { aud: 'vault', exp: exp + 60 }, { aud: [] }, { aud: null }]
  for (const claims of hopeless) expect(await codeOf(keyWith(claims))).toBe('unauthenticated')
  expect(reviews).toEqual([])
  const possible = [{ aud: ['vault', 'davit'], exp: exp + 60 }, { aud: 'davit' }, { exp: exp + 60 }, {}]
  for (const claims of possible) expect(await codeOf(keyWith(claims))).toBe('accepted')
  expect(reviews).toHaveLength(possible.length)
})

test('what stands for a key in the log is the same for its copies, differs between keys, and is no plain hash', async () => {
  answer = async (token) => ({
    ...OWNER,
    extra: token === 'x.x.x' ? {} : { 'authentication.kubernetes.io/credential-id': ['JTI=1'] },
  })
  const [one, copy, other] = [await send('a.b.c'), await send('a.b.d'), await send('x.x.x')]
  expect(one.caller.keyId).toMatch(/^[0-9a-f]{16}$/)
  expect(copy.caller.keyId).toBe(one.caller.keyId)
  expect(other.caller.keyId).not.toBe(one.caller.keyId)
  expect(JSON.stringify([one, copy, other])).not.toContain('a.b.c')
})
