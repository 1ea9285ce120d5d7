import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { LineSplitter } from './skopeo.ts'

function read(pieces: readonly string[]): string[] {
  const found: string[] = []
  const lines = new LineSplitter((line) => found.push(line))
  for (const piece of pieces) lines.add(piece)
  lines.end()
  return found
}

describe('lines', () => {
  it('are the same however the text comes in pieces', () => {
    const text = fc.array(fc.constantFrom('a', 'b', '\n', 'ü', ' '), { maxLength: 40 })
    fc.assert(
      fc.property(text, fc.array(fc.nat(40), { maxLength: 10 }), (characters, cuts) => {
        const whole = characters.join('')
        const places = [
          0,
          ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b),
          whole.length,
        ]
        const pieces = places.slice(1).map((end, index) => whole.slice(places[index], end))
        expect(read(pieces)).toEqual(whole.split('\n').filter((line) => line !== ''))
      }),
    )
  })

  it('are cut where they do not end', () => {
    const lengths = read(['a'.repeat(LineSplitter.longest * 2 + 5)]).map(({ length }) => length)
    expect(lengths).toEqual([LineSplitter.longest, LineSplitter.longest, 5])
  })
})
