import { beforeEach, expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { ApiError } from '../ports/kubernetes.ts'
import type { Identity } from '../ports/token-review.ts'
import { type Authenticator, createAuthenticator } from './authenticate.ts'

const OWNER: Identity = { username: 'system:serviceaccount:acme:ci', uid: 'u', groups: [], extra: {} }

let clock: FakeClock
let reviews: string[]
let answer: (token: string) => Promise<Identity | undefined>
let authenticate: Authenticator

beforeEach(() => {
  clock = new FakeClock()
  reviews = []
  answer = async () => OWNER
  authenticate = createAuthenticator({
    clock,
    hashKey: Buffer.from('k'),
    tokens: {
      review(token) {
        reviews.push(token)
        return answer(token)
      },
    },
  })
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

test('a key that was revoked is refused as soon as its verdict has run out', async () => {
  await send('a.b.c')
  answer = async () => undefined
  clock.advance(5_001)
  await expect(send('a.b.c')).rejects.toMatchObject({ code: 'unauthenticated' })
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

test('a flood of keys that nobody knows waits for at most a hundred reviews', async () => {
  let release = () => {}
  const held = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined)
  })
  answer = () => held
  const sent = Array.from({ length: 150 }, (_, index) => send(`a.b.${index}`).catch((error) => error.code))
  expect(reviews).toHaveLength(100)
  release()
  const codes = await Promise.all(sent)
  expect(codes.filter((code) => code === 'overloaded')).toHaveLength(50)
  expect(codes.filter((code) => code === 'unauthenticated')).toHaveLength(100)
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
