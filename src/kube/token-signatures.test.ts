import { CompactSign, exportJWK, generateKeyPair } from 'jose'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { ApiError } from './client.ts'
import { createTokenSignatures, type TokenSignatures } from './token-signatures.ts'

type Pair = Awaited<ReturnType<typeof generateKeyPair>>

let ours: Pair
let newer: Pair
let strange: Pair
beforeAll(async () => {
  ;[ours, newer, strange] = await Promise.all([
    generateKeyPair('RS256', { extractable: true }),
    generateKeyPair('ES256', { extractable: true }),
    generateKeyPair('RS256', { extractable: true }),
  ])
})

let clock: FakeClock
let reads: string[]
let served: () => Promise<string>
let signatures: TokenSignatures
beforeEach(async () => {
  clock = new FakeClock()
  reads = []
  const keys = await keysOf({ ours })
  served = async () => keys
  const call = async ({ path }: { path: string }) => {
    reads.push(path)
    return Buffer.from(await served())
  }
  signatures = createTokenSignatures({ call }, clock)
})

async function keysOf(pairs: Record<string, Pair>): Promise<string> {
  const keys = Object.entries(pairs).map(async ([kid, { publicKey }]) => ({
    ...(await exportJWK(publicKey)),
    kid,
    use: 'sig',
  }))
  return JSON.stringify({ keys: await Promise.all(keys) })
}

async function tokenOf({ privateKey }: Pair, header: { alg: string; kid?: string }): Promise<string> {
  return await new CompactSign(Buffer.from('{"sub":"a"}')).setProtectedHeader(header).sign(privateKey)
}

const RS256 = { alg: 'RS256', kid: 'ours' }

test('a token of the API server is signed, and one that only claims so is forged', async () => {
  const token = await tokenOf(ours, RS256)
  const [head, , signature] = token.split('.')
  expect(await signatures.check(token)).toBe('signed')
  expect(await signatures.check(await tokenOf(strange, RS256))).toBe('forged')
  const changed = `${head}.${Buffer.from('{"sub":"b"}').toString('base64url')}.${signature}`
  expect(await signatures.check(changed)).toBe('forged')
  expect(reads).toEqual(['/openid/v1/jwks'])
})

test.each([
  ['of another key', { alg: 'RS256', kid: 'another' }],
  ['without a key', { alg: 'RS256' }],
])('a token %s is unknown', async (_what, header) => {
  expect(await signatures.check(await tokenOf(strange, header))).toBe('unknown')
})

test.each([
  ['no JWT', 'a.b.c'],
  ['unsigned', `${Buffer.from('{"alg":"none","kid":"ours"}').toString('base64url')}.e30.`],
  ['of another algorithm', `${Buffer.from('{"alg":"HS256","kid":"ours"}').toString('base64url')}.e30.c2ln`],
])('a token that is %s is unknown', async (_what, token) => {
  expect(await signatures.check(token)).toBe('unknown')
})

test('keys are read again for a token of a new key, and once a minute for those of keys that do not exist', async () => {
  expect(await signatures.check(await tokenOf(ours, RS256))).toBe('signed')
  const both = await keysOf({ ours, newer })
  served = async () => both
  const token = await tokenOf(newer, { alg: 'ES256', kid: 'newer' })
  const unknown = await tokenOf(strange, { alg: 'RS256', kid: 'strange' })
  expect(await signatures.check(token)).toBe('unknown')
  clock.advance(60_000)
  const checks = [unknown, token, token, unknown].map((one) => signatures.check(one))
  expect(await Promise.all(checks)).toEqual(['unknown', 'signed', 'signed', 'unknown'])
  expect(reads).toHaveLength(2)
})

test.each([
  ['cannot be read', () => Promise.reject(new ApiError('Forbidden', 'no'))],
  ['are none', async () => 'hello'],
  ['are too many', async () => JSON.stringify({ keys: Array(101).fill({ kty: 'RSA', kid: 'ours' }) })],
])('keys that %s leave all unknown, for ten seconds', async (_what, serve) => {
  const good = served
  served = serve
  const token = await tokenOf(ours, RS256)
  expect(await signatures.check(token)).toBe('unknown')
  served = good
  expect(await signatures.check(token)).toBe('unknown')
  clock.advance(10_000)
  expect(await signatures.check(token)).toBe('signed')
  expect(reads).toHaveLength(2)
})
