import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { otherExternalId } from './cloud-accounts.ts'

const CHARACTERS = [...'abcdefghijklmnopqrstuvwxyz234567']

describe('otherExternalId', () => {
  it('is another one that looks the same', () => {
    const own = fc.string({ unit: fc.constantFrom(...CHARACTERS), minLength: 32, maxLength: 32 })
    const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 })
    fc.assert(
      fc.property(own, bytes, fc.boolean(), (end, random, upper) => {
        const id = `davit-${upper ? end.toUpperCase() : end}`
        const other = otherExternalId(id, { fraction: () => 0, bytes: () => random })
        expect(other).not.toBe(id)
        expect(other).toMatch(upper ? /^davit-[A-Z2-7]{32,33}$/i : /^davit-[a-z2-7]{32,33}$/)
      }),
    )
  })

  it('is another one even when chance would have it the same', () => {
    const random = { fraction: () => 0, bytes: (count: number) => new Uint8Array(count) }
    expect(otherExternalId('davit-aaaa', random)).toBe('davit-aaaaa')
  })
})
