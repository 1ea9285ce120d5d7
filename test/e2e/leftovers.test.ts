import { expect, it } from 'vitest'
import { countByKind, newIn } from './leftovers.ts'

const BEFORE = ['Namespace default', 'Secret default/a']

it('says what was not there before', () => {
  const after = [...BEFORE, 'Secret davit-system/a', 'Secret davit-system/b', 'EventType.davit.dev ping']
  expect(newIn(after, BEFORE)).toEqual(after.slice(2))
  expect(countByKind(newIn(after, BEFORE))).toBe('2 Secret, 1 EventType')
})

it('says that nothing is left', () => {
  expect(countByKind(newIn(BEFORE, BEFORE))).toBe('nothing')
})
