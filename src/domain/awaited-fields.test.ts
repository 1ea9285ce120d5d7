import { expect, test } from 'vitest'
import { AWAITED_FIELDS_ANNOTATION } from '../api/registry-credential.ts'
import { awaitsFields } from './awaited-fields.ts'

test('fields are awaited where the annotation is, whatever it says', () => {
  expect([awaitsFields({}), awaitsFields({ annotations: { other: '1' } })]).toEqual([false, false])
  expect(awaitsFields({ annotations: { [AWAITED_FIELDS_ANNOTATION]: '' } })).toBe(true)
})
