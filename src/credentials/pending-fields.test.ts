import { expect, test } from 'vitest'
import { PENDING_FIELDS_ANNOTATION } from '../apis/registry-credential.ts'
import { hasPendingFields } from './spec.ts'

test('fields are awaited where the annotation is, whatever it says', () => {
  expect([hasPendingFields({}), hasPendingFields({ annotations: { other: '1' } })]).toEqual([false, false])
  expect(hasPendingFields({ annotations: { [PENDING_FIELDS_ANNOTATION]: '' } })).toBe(true)
})
