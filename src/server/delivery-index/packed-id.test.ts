import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { sortableName } from '../../apis/ids.ts'
import { packedName, precedingId, unpackName } from './line-table.ts'

const name = fc
  .tuple(fc.nat({ max: 2 ** 31 }), fc.uint8Array({ minLength: 10, maxLength: 10 }))
  .map(([seconds, entropy]) => sortableName(seconds * 1000 + (entropy[0] ?? 0), entropy))

function compare(a: Uint32Array, b: Uint32Array): number {
  const word = a.findIndex((value, index) => value !== b[index])
  return word === -1 ? 0 : (a[word] ?? 0) - (b[word] ?? 0)
}

describe('a packed id', () => {
  it('comes back as it was', () => {
    fc.assert(
      fc.property(name, (given) => {
        expect(unpackName(packedName(given) ?? new Uint32Array(4))).toBe(given)
      }),
    )
  })

  it('compares as its text does', () => {
    fc.assert(
      fc.property(name, name, (a, b) => {
        const [packedA = new Uint32Array(4), packedB = new Uint32Array(4)] = [packedName(a), packedName(b)]
        expect(Math.sign(compare(packedA, packedB))).toBe(a < b ? -1 : a > b ? 1 : 0)
      }),
    )
  })

  it.each([
    { given: '', why: 'nothing' },
    { given: '0'.repeat(25), why: 'too short' },
    { given: '0'.repeat(27), why: 'too long' },
    { given: `8${'0'.repeat(25)}`, why: 'a time beyond 48 bits' },
    { given: `0i${'0'.repeat(24)}`, why: 'a letter that is none of the alphabet' },
    { given: `0${'é'.repeat(25)}`, why: 'letters beyond ASCII' },
    { given: `0A${'0'.repeat(24)}`, why: 'a capital' },
  ])('is not made of $why', ({ given }) => {
    expect(packedName(given)).toBeUndefined()
  })

  it.each([
    { given: `${'0'.repeat(25)}1`, want: '0'.repeat(26) },
    { given: `7${'0'.repeat(25)}`, want: `6${'z'.repeat(25)}` },
    { given: `1${'0'.repeat(24)}a`, want: `1${'0'.repeat(24)}9` },
  ])('$given comes just after $want', ({ given, want }) => {
    expect(unpackName(precedingId(packedName(given) ?? new Uint32Array(4)))).toBe(want)
  })

  it.each(['0'.repeat(26), `7${'z'.repeat(25)}`])('is made of %s', (given) => {
    expect(unpackName(packedName(given) ?? new Uint32Array(4))).toBe(given)
  })
})
