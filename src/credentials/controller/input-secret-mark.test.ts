import { expect, test } from 'vitest'
import { inputSecretMark } from './input-secret.ts'

const KEY = new Uint8Array(32).fill(1)
const OF = { credentialUid: 'c-1', secretUid: 's-1', resourceVersion: '7', value: 'the-value' }

test('the mark of a value is the same again, and another one for all that is not the same', () => {
  const marks = [
    inputSecretMark(KEY, OF),
    inputSecretMark(new Uint8Array(32).fill(2), OF),
    inputSecretMark(KEY, { ...OF, credentialUid: 'c-2' }),
    inputSecretMark(KEY, { ...OF, secretUid: 's-2' }),
    inputSecretMark(KEY, { ...OF, resourceVersion: '8' }),
    inputSecretMark(KEY, { ...OF, value: 'another' }),
    inputSecretMark(KEY, { ...OF, credentialUid: 'c', secretUid: '-1s-1' }),
  ]
  expect(new Set(marks).size).toBe(marks.length)
  expect(inputSecretMark(KEY, { ...OF })).toBe(marks[0])
  expect(marks[0]).toMatch(/^[0-9a-z]{26}$/)
})
