import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { codePoints, instant, text } from './meta.ts'

const EMOJI = '\u{1f600}'

describe('text', () => {
  test.for([
    { given: 'ASCII at the limit', value: 'a'.repeat(200), want: true },
    { given: 'ASCII over it', value: 'a'.repeat(201), want: false },
    { given: 'emoji at the limit', value: EMOJI.repeat(200), want: true },
    { given: 'emoji over it', value: EMOJI.repeat(201), want: false },
    { given: 'half emoji, half ASCII', value: EMOJI.repeat(100) + 'a'.repeat(100), want: true },
    { given: 'nothing', value: '', want: true },
  ])('of at most 200 characters: $given -> $want', ({ value, want }) => {
    expect(text({ max: 200, describe: 'A text.' }).safeParse(value).success).toBe(want)
  })

  test('counts code points, at both ends, for any text', () => {
    const anyText = fc.string({ unit: 'binary', maxLength: 12 })
    fc.assert(
      fc.property(anyText, fc.nat(8), fc.nat(8), (value, min, more) => {
        const count = [...value].length
        expect(codePoints(value)).toBe(count)
        expect(text({ min, max: min + more, describe: 'A text.' }).safeParse(value).success).toBe(
          count >= min && count <= min + more,
        )
      }),
    )
  })

  test('says what is allowed in words', () => {
    const schema = text({
      min: 2,
      max: 9,
      pattern: /^[a-z]+$/,
      allowed: 'lowercase letters',
      describe: 'A.',
    })
    expect(schema.safeParse('AB').error?.issues.map((issue) => issue.message)).toEqual([
      'must be lowercase letters',
    ])
    expect(schema.safeParse('a').error?.issues.map((issue) => issue.message)).toEqual([
      'must be 2 to 9 characters',
    ])
  })
})

describe('instant', () => {
  test.for([
    { given: '2026-01-31T12:00:00.000Z', want: true },
    { given: '2026-01-31T12:00:00Z', want: true },
    { given: '2026-01-31T12:00:00+01:00', want: true },
    { given: '2026-01-31', want: false },
    { given: '2026-13-31T12:00:00Z', want: false },
    { given: '2026-02-29T12:00:00Z', want: false },
    { given: '2028-02-29T12:00:00Z', want: true },
    { given: '2026-01-31T24:00:00Z', want: false },
    { given: 'Jan 31 2026', want: false },
    { given: '2026', want: false },
    { given: `2026-01-31T12:00:00.${'0'.repeat(64)}Z`, want: false },
  ])('$given -> $want', ({ given, want }) => {
    expect(instant('A time.').safeParse(given).success).toBe(want)
  })
})
