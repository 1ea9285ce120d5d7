import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { type Begun, BegunAttempts, endsAfter, SERIES_MS } from './crash-series.ts'

const position = { version: 7, index: 3 }

function begun(more: Partial<Begun> = {}): Begun {
  return { position, attempts: 0, isAlone: false, version: 9, writer: 'a', at: 1000, ...more }
}

describe('the ends before a claim', () => {
  const before = { writer: 'a', isReleased: false, ends: 2, at: 1000 }

  it.each([
    { what: 'none without a claim before', given: undefined, want: 0 },
    { what: 'none after a release', given: { ...before, isReleased: true }, want: 0 },
    { what: 'one more if another start claimed shortly before', given: before, want: 3 },
    {
      what: 'the first of a series if that was long ago',
      given: { ...before, at: 1000 - SERIES_MS },
      want: 1,
    },
    { what: 'as many as before a lapse of the same start', given: { ...before, writer: 'b' }, want: 2 },
  ])('are $what', ({ given, want }) => {
    expect(endsAfter(given, 'b', 1000)).toBe(want)
  })
})

describe('what a careful owner had begun', () => {
  it('is known until its outcome is', () => {
    const attempts = new BegunAttempts()
    attempts.add(begun({ attempts: 2 }))
    expect(attempts.at(position, 2)).toMatchObject({ attempts: 2 })
    expect(attempts.at({ version: 7, index: 4 }, 2)).toBeUndefined()
    expect(attempts.at(position, 3)).toBeUndefined()
    attempts.delete(position)
    expect(attempts.at(position, 2)).toBeUndefined()
  })

  it('is the last attempt of a delivery', () => {
    const attempts = new BegunAttempts()
    attempts.add(begun())
    attempts.add(begun({ attempts: 1, isAlone: true, version: 12 }))
    expect(attempts.at(position, 0)).toMatchObject({ isAlone: true, version: 12 })
    expect(attempts.size).toBe(1)
  })

  it('is the likely cause if no other was begun alone after it', () => {
    const attempts = new BegunAttempts()
    const other = { version: 7, index: 4 }
    attempts.add(begun({ isAlone: true }))
    attempts.add(begun({ position: other }))
    expect(attempts.at(position, 0)?.isLikelyCause).toBe(true)
    attempts.add(begun({ position: other, isAlone: true }))
    expect([attempts.at(position, 0), attempts.at(other, 0)]).toMatchObject([
      { isLikelyCause: false },
      { isLikelyCause: true },
    ])
  })

  it('is the last of its writer that was begun alone and has no known outcome, whatever others begin', () => {
    const step = fc.record({
      index: fc.nat({ max: 5 }),
      writer: fc.constantFrom('a', 'b', 'c'),
      does: fc.constantFrom('alone', 'alone', 'beside', 'ends', 'isKnown'),
      attempts: fc.nat({ max: 3 }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const attempts = new BegunAttempts()
        let open: Begun[] = []
        for (const { index, writer, does, attempts: made } of steps) {
          const at = { version: 7, index }
          const isKnown = (one: Begun) => does !== 'isKnown' || one.attempts < made
          open = open.filter((one) => one.position.index !== index || !isKnown(one))
          if (does === 'ends') attempts.delete(at)
          else if (does === 'isKnown') attempts.deleteKnown(at, made)
          else {
            const one = begun({ position: at, writer, isAlone: does === 'alone', attempts: made })
            attempts.add(one)
            open.push(one)
          }
        }
        expect(attempts.size).toBe(open.length)
        expect(new Set(attempts.alone())).toEqual(new Set(open.filter(({ isAlone }) => isAlone)))
        for (const one of open) {
          const last = open.findLast(({ isAlone, writer }) => isAlone && writer === one.writer)
          expect(attempts.at(one.position, 0)?.isLikelyCause).toBe(last === one)
        }
      }),
    )
  })

  it('is bounded, and the newest stay', () => {
    fc.assert(
      fc.property(fc.integer({ min: 10_001, max: 12_000 }), (count) => {
        const attempts = new BegunAttempts()
        for (let index = 0; index < count; index += 1)
          attempts.add(begun({ position: { version: 7, index } }))
        expect(attempts.size).toBe(10_000)
        expect(attempts.at({ version: 7, index: count - 1 }, 0)).toBeDefined()
        expect(attempts.at({ version: 7, index: 0 }, 0)).toBeUndefined()
      }),
      { numRuns: 5 },
    )
  })
})
