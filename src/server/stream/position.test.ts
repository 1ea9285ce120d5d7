import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  behind,
  behindVersion,
  formatStreamPosition,
  furthest,
  isBefore,
  isCovered,
  parseStreamPosition,
  START,
} from './position.ts'

const part = fc.record({ version: fc.nat({ max: 10 ** 9 }), index: fc.nat({ max: 9999 }) })
const position = fc.record({ events: part, outcomes: part, objects: part })

test('a position comes back as it was formatted', () => {
  fc.assert(
    fc.property(position, (one) => {
      expect(parseStreamPosition(formatStreamPosition(one))).toEqual(one)
    }),
  )
  expect(formatStreamPosition({ ...START, events: { version: 48213, index: 7 } })).toBe('48213.7-0-0')
})

test.each([
  '',
  '1',
  '1-2',
  '1-2-3-4',
  '1-2-',
  'a-2-3',
  '1.-2-3',
  '-1-2-3',
  ' 1-2-3',
  '1-2-3\n',
  `${'9'.repeat(16)}-2-3`,
])('%j is no position', (text) => expect(parseStreamPosition(text)).toBeUndefined())

test('what was read is behind: a message, and everything up to a version', () => {
  expect(isBefore({ version: 5, index: 3 }, behind({ version: 5, index: 3 }))).toBe(true)
  expect(isBefore({ version: 5, index: 4 }, behind({ version: 5, index: 3 }))).toBe(false)
  expect(isBefore({ version: 5, index: 9999 }, behindVersion(5))).toBe(true)
  expect(isBefore({ version: 6, index: 0 }, behindVersion(5))).toBe(false)
})

test('the further one of two positions covers both, and neither is covered that is before one of them', () => {
  fc.assert(
    fc.property(position, position, (a, b) => {
      const far = furthest(a, b)
      expect(isCovered(far, a) && isCovered(far, b)).toBe(true)
      expect(isCovered(a, far)).toBe(formatStreamPosition(a) === formatStreamPosition(far))
    }),
  )
})
