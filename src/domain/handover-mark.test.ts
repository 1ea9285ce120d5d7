import { expect, test } from 'vitest'
import { handoverMark } from './handover-mark.ts'

const KEY = new Uint8Array(32).fill(1)
const OF = { credentialUid: 'c-1', secretUid: 's-1', resourceVersion: '7', value: 'the-value' }

test('the mark of a value is the same again, and another one for all that is not the same', () => {
  const marks = [
    handoverMark(KEY, OF),
    handoverMark(new Uint8Array(32).fill(2), OF),
    handoverMark(KEY, { ...OF, credentialUid: 'c-2' }),
    handoverMark(KEY, { ...OF, secretUid: 's-2' }),
    handoverMark(KEY, { ...OF, resourceVersion: '8' }),
    handoverMark(KEY, { ...OF, value: 'another' }),
    handoverMark(KEY, { ...OF, credentialUid: 'c', secretUid: '-1s-1' }),
  ]
  expect(new Set(marks).size).toBe(marks.length)
  expect(handoverMark(KEY, { ...OF })).toBe(marks[0])
  expect(marks[0]).toMatch(/^[0-9a-z]{26}$/)
})
