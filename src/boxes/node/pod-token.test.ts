import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { parsePodIdentity } from './kubelet-provider.ts'

function token(claims: unknown): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'RS256' })}.${part(claims)}.c2lnbmF0dXJl`
}

describe('a token of a service account', () => {
  it('says the namespace and the account', () => {
    expect(parsePodIdentity(token({ sub: 'system:serviceaccount:acme:box' }))).toEqual({
      namespace: 'acme',
      serviceAccount: 'box',
    })
  })

  it.each([
    ['of a user', token({ sub: 'jane' })],
    ['of nobody', token({})],
    ['of a namespace that is none', token({ sub: 'system:serviceaccount:../other:box' })],
    ['of no account', token({ sub: 'system:serviceaccount:acme:' })],
    ['with more before it', token({ sub: 'a system:serviceaccount:acme:box' })],
    ['with more behind it', token({ sub: 'system:serviceaccount:acme:box:x' })],
    ['with a subject that is no text', token({ sub: 7 })],
    ['with claims that are nothing', token(null)],
    ['without claims', 'abc'],
    ['with claims that are no JSON', 'e30.bm8=.x'],
    ['of five parts', `${token({ sub: 'system:serviceaccount:acme:box' })}.a.b`],
    ['that is too long', token({ sub: 'system:serviceaccount:acme:box', more: 'x'.repeat(20_000) })],
  ])('is not one %s', (_what, given) => {
    expect(parsePodIdentity(given)).toBeUndefined()
  })

  it('may be 16 KiB long, and no longer', () => {
    const sub = 'system:serviceaccount:acme:box'
    const body = token({ sub })
    const long = `${body}${'x'.repeat(16 * 1024 - body.length)}`
    expect(parsePodIdentity(long)).toEqual({ namespace: 'acme', serviceAccount: 'box' })
    expect(parsePodIdentity(`${long}x`)).toBeUndefined()
  })

  it('is never an error, whatever is given', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(parsePodIdentity(text)).toBeUndefined()
      }),
    )
  })
})
