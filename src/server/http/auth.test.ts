import { beforeEach, describe, expect, test } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { ApiError } from '../../kube/client.ts'
import type { CallerIdentity } from '../../kube/reviews.ts'
import type { TokenSignature } from '../../kube/token-signatures.ts'
import { sleep } from '../../lib/time.ts'
import { type Authenticator, createAuthenticator } from './auth.ts'

const OWNER: CallerIdentity = { username: 'system:serviceaccount:acme:ci', uid: 'u', groups: [], extra: {} }

let clock: FakeClock
let reviews: string[]
let answer: (token: string) => Promise<CallerIdentity | undefined>
let signature: (token: string) => TokenSignature
let authenticate: Authenticator

beforeEach(() => {
  clock = new FakeClock()
  reviews = []
  answer = async () => OWNER
  signature = () => 'unknown'
  authenticate = createAuthenticator({
    tokens: {
      review(token) {
        reviews.push(token)
        return answer(token)
      },
    },
    signatures: { check: async (token) => signature(token) },
    clock,
    hashKey: Buffer.from('k'),
  })
})

const keyWith = (claims: object) => `a.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.b`
const send = (key: string, remoteAddress = '192.0.2.1') =>
  authenticate(['authorization', key], { remoteAddress })

test('a key is reviewed once in five seconds, however often it comes', async () => {
  const all = await Promise.all([send('a.b.c'), send('a.b.c')])
  await send('a.b.c')
  expect(all[0]?.caller.name).toBe('system:serviceaccount:acme:ci')
  expect(reviews).toEqual(['a.b.c'])
  clock.advance(5_001)
  await send('a.b.c')
  expect(reviews).toHaveLength(2)
})

const codeOf = (key: string, address?: string) =>
  send(key, address).then(
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
  await settle()
  expect(reviews).toHaveLength(8)
  expect(await codeOf('known.b.c')).toBe('accepted')
  release()
  const codes = await Promise.all(sent)
  expect(codes.filter((code) => code === 'overloaded')).toHaveLength(42)
  expect(codes.filter((code) => code === 'unauthenticated')).toHaveLength(108)
})

test('a key that the API server has not signed, though it names its key, is refused without asking', async () => {
  signature = () => 'forged'
  expect(await codeOf('a.b.c')).toBe('unauthenticated')
  expect(reviews).toEqual([])
})

/** More than may wait. */
const ALL_AT_ONCE = 700
const REVIEW_MS = 10

/** Reviews take a while, of the fake clock. */
function slowly() {
  answer = async (token) => {
    await sleep(clock, REVIEW_MS)
    return token.startsWith('flood') ? undefined : OWNER
  }
}

/** Sends keys while a flood goes on that always has as many requests open. @returns the codes, and the times that they took, in order */
async function duringFlood(
  flood: (number: number) => [key: string, address: string],
  keys: readonly [key: string, address: string][],
) {
  let number = 0
  let stopped = false
  const worker = async () => {
    while (!stopped) {
      const code = await codeOf(...flood(number++))
      // As a client does that is told to come again; there would be no end to a turn otherwise.
      if (code === 'overloaded') await sleep(clock, REVIEW_MS)
    }
  }
  const workers = Array.from({ length: ALL_AT_ONCE }, worker)
  await settle()
  const codes: (string | undefined)[] = []
  const times: number[] = []
  const began = clock.monotonic()
  const sent = keys.map(async ([key, address]) => {
    codes.push(await codeOf(key, address))
    times.push(clock.monotonic() - began)
  })
  let open = sent.length
  for (const one of sent) void one.then(() => (open -= 1))
  while (open > 0 && clock.monotonic() - began < 10_000) await tick()
  stopped = true
  for (let left = true; left; ) {
    await tick()
    left = clock.pending > 0
  }
  await Promise.all(workers)
  return { codes: [...new Set(codes)], p99: times.sort((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1] }
}

async function tick(): Promise<void> {
  clock.advance(1)
  await settle()
}

const CLIENTS = Array.from({ length: 100 }, (_, index) => index)

test.each([
  {
    what: 'keys of a restarted server, which are all new, from the address of the flood',
    flood: (number: number) => [`flood.${number}.x`, '192.0.2.1'] as [string, string],
    keys: CLIENTS.map((index) => [`signed.${index}.x`, '192.0.2.1'] as [string, string]),
    ms: (CLIENTS.length / 32 + 2) * REVIEW_MS,
  },
  {
    what: 'keys that nobody here can tell from the flood, from addresses of their own',
    flood: (number: number) => [`flood.${number}.x`, `192.0.2.${number % 2}`] as [string, string],
    keys: CLIENTS.slice(0, 20).map((index) => [`a.${index}.x`, `198.51.100.${index}`] as [string, string]),
    // The flood has turns, too.
    ms: (22 / 8 + 3) * REVIEW_MS,
  },
])('a flood of keys does not lock out $what', async ({ flood, keys, ms }) => {
  slowly()
  signature = (token) => (token.startsWith('signed') ? 'signed' : 'unknown')
  const { codes, p99 } = await duringFlood(flood, keys)
  expect(codes).toEqual(['accepted'])
  expect(p99).toBeLessThanOrEqual(ms)
})

test('keys that one namespace makes by the thousand delay only its own', async () => {
  slowly()
  signature = () => 'signed'
  const keyOf = (namespace: string, name: string) =>
    keyWith({ sub: `system:serviceaccount:${namespace}:a`, name })
  const { codes, p99 } = await duringFlood(
    (number) => [keyOf('busy', `${number}`), '192.0.2.1'],
    CLIENTS.slice(0, 20).map((index) => [keyOf(`quiet-${index}`, ''), '192.0.2.1']),
  )
  expect(codes).toEqual(['accepted'])
  expect(p99).toBeLessThanOrEqual(3 * REVIEW_MS)
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

describe('on one connection', () => {
  const connection = { remoteAddress: '192.0.2.1' }
  const sendHere = (key: string) => authenticate(['authorization', key], connection)

  test('each request is judged by the key that it sends, not by that of an earlier one', async () => {
    const identities: Record<string, CallerIdentity> = {
      'a.b.c': OWNER,
      'a.b.d': { ...OWNER, username: 'system:serviceaccount:acme:other' },
    }
    answer = async (token) => identities[token]
    const names: unknown[] = []
    for (const key of ['a.b.c', 'a.b.d', 'a.b.d', 'x.x.x', 'a.b.c', 'a.b', 'a.b.c'])
      names.push(
        await sendHere(key).then(
          ({ caller }) => caller.name,
          (error: { code?: string }) => error.code,
        ),
      )
    const [own, other] = ['system:serviceaccount:acme:ci', 'system:serviceaccount:acme:other']
    expect(names).toEqual([own, other, other, 'unauthenticated', own, 'unauthenticated', own])
    expect(reviews).toEqual(['a.b.c', 'a.b.d', 'x.x.x'])
  })

  test('a key that was accepted ends as on any other', async () => {
    const key = keyWith({ exp: clock.now() / 1000 + 60 })
    const first = await sendHere(key)
    expect((await sendHere(key)).keyHash).toBe(first.keyHash)
    expect((await send(key)).keyHash).toBe(first.keyHash)
    answer = async () => undefined
    clock.advance(5_001)
    await expect(sendHere(key)).rejects.toMatchObject({ code: 'unavailable' })
    clock.advance(60_000)
    await expect(sendHere(key)).rejects.toMatchObject({ code: 'unauthenticated' })
  })
})

describe('a verdict that is in use shortly before its end', () => {
  beforeEach(async () => {
    await send('a.b.c')
    clock.advance(4_000)
  })

  test('is asked for once more, and no request waits for that', async () => {
    const held = Promise.withResolvers<CallerIdentity>()
    answer = () => held.promise
    await Promise.all([send('a.b.c'), send('a.b.c')])
    await send('a.b.c')
    expect(reviews).toHaveLength(2)
    held.resolve(OWNER)
    await settle()
    clock.advance(3_999)
    await send('a.b.c')
    expect(reviews).toHaveLength(2)
    clock.advance(1)
    await send('a.b.c')
    expect(reviews).toHaveLength(3)
  })

  test('ends with a rejection at once', async () => {
    answer = async () => undefined
    await send('a.b.c')
    await settle()
    expect(await codeOf('a.b.c')).toBe('unavailable')
    expect(reviews).toHaveLength(2)
  })

  test('ends when it would have if there is no answer, and is asked for again only then', async () => {
    answer = async () => {
      throw new ApiError('Unavailable', 'away')
    }
    await send('a.b.c')
    await settle()
    clock.advance(999)
    await send('a.b.c')
    expect(reviews).toHaveLength(2)
    clock.advance(2)
    await expect(send('a.b.c')).rejects.toMatchObject({ kind: 'Unavailable' })
    expect(reviews).toHaveLength(3)
  })

  test('ends when it would have while the answer takes long, and then requests wait for it', async () => {
    const held = Promise.withResolvers<undefined>()
    answer = () => held.promise
    await send('a.b.c')
    clock.advance(1_001)
    let code: string | undefined
    const sent = codeOf('a.b.c').then((found) => {
      code = found
    })
    await settle()
    expect([code, reviews.length]).toEqual([undefined, 2])
    held.resolve(undefined)
    await sent
    expect(code).toBe('unavailable')
  })
})

test('an unused verdict is not renewed, and a rejection is not renewed ahead of its end', async () => {
  await send('a.b.c')
  clock.advance(60_000)
  await settle()
  expect(reviews).toEqual(['a.b.c'])
  answer = async () => undefined
  await codeOf('x.x.x')
  clock.advance(4_999)
  expect(await codeOf('x.x.x')).toBe('unauthenticated')
  expect(reviews).toEqual(['a.b.c', 'x.x.x'])
})

test('a key that ends soon is not asked about again ahead of its end', async () => {
  const key = keyWith({ exp: clock.now() / 1000 + 9 })
  await send(key)
  clock.advance(5_001)
  for (let ms = 5_001; ms < 9_000; ms += 100) {
    await send(key)
    await settle()
    clock.advance(100)
  }
  expect(reviews).toHaveLength(2)
  expect(await codeOf(key)).toBe('unauthenticated')
})
