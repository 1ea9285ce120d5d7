import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { comparePositions, formatPosition, parsePosition } from './delivery-segment.ts'

const position = fc.record({
  version: fc.integer({ min: 0, max: 999_999_999_999_999 }),
  index: fc.integer({ min: 0, max: 999_999 }),
})

test('a position that was written is read back the same', () => {
  fc.assert(
    fc.property(position, (given) => {
      expect(parsePosition(formatPosition(given))).toEqual(given)
    }),
  )
})

test.each([
  { given: '48213/7', want: { version: 48213, index: 7 } },
  { given: '0/0', want: { version: 0, index: 0 } },
  { given: '999999999999999/999999', want: { version: 999_999_999_999_999, index: 999_999 } },
  { given: '', want: undefined },
  { given: '/', want: undefined },
  { given: '48213', want: undefined },
  { given: '48213/', want: undefined },
  { given: '/7', want: undefined },
  { given: '48213/7/1', want: undefined },
  { given: '-1/7', want: undefined },
  { given: '1/-7', want: undefined },
  { given: '1.5/7', want: undefined },
  { given: '1e3/7', want: undefined },
  { given: '0x10/7', want: undefined },
  { given: '48213/7 ', want: undefined },
  { given: ' 48213/7', want: undefined },
  { given: '48213/7\n', want: undefined },
  { given: '48213\\7', want: undefined },
  { given: '１/７', want: undefined },
  { given: '9999999999999999/1', want: undefined },
  { given: '1/1000000', want: undefined },
])('"$given" is read as $want', ({ given, want }) => {
  expect(parsePosition(given)).toEqual(want)
})

test('any text is read without an error, and what is read is a position', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9/.-]{0,24}$/)), (given) => {
      const read = parsePosition(given)
      if (read === undefined) return
      expect(Number.isSafeInteger(read.version) && read.version >= 0).toBe(true)
      expect(Number.isSafeInteger(read.index) && read.index >= 0).toBe(true)
    }),
  )
})

test.each([
  { given: ['9/0', '10/0'], why: 'versions are compared as numbers' },
  { given: ['10/9', '10/10'], why: 'so are indexes' },
  { given: ['99/4095', '100/0'], why: 'the version goes before the index' },
])('$given.0 comes before $given.1: $why', ({ given }) => {
  const [first, second] = given.map((text) => parsePosition(text) ?? { version: -1, index: -1 })
  if (!first || !second) throw new Error('two positions')
  expect(comparePositions(first, second)).toBeLessThan(0)
  expect(comparePositions(second, first)).toBeGreaterThan(0)
  expect(comparePositions(first, first)).toBe(0)
})

test('positions have one order, whatever order they come in', () => {
  fc.assert(
    fc.property(fc.uniqueArray(position, { selector: formatPosition }), fc.nat(), (given, turn) => {
      const cut = given.length === 0 ? 0 : turn % given.length
      const turned = [...given.slice(cut), ...given.slice(0, cut)]
      expect(turned.sort(comparePositions)).toEqual([...given].sort(comparePositions))
    }),
  )
})
