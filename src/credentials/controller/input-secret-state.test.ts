import { expect, test } from 'vitest'
import {
  type InputSecretFacts,
  isPendingInputSecret,
  isStoredInputSecret,
  type UsableInputSecret,
} from './input-secret-plan.ts'

const FOUND: UsableInputSecret = {
  state: 'usable',
  uid: 'u-1',
  resourceVersion: '8',
  createdAt: 0,
  retained: false,
  mark: 'm',
  isSameValue: false,
}
const STORED = { uid: 'u-1', resourceVersion: '8' }

test.each([
  { what: 'the one that was stored', found: FOUND, stored: STORED, want: true },
  {
    what: 'a later one with another value',
    found: { ...FOUND, resourceVersion: '9' },
    stored: STORED,
    want: false,
  },
  {
    what: 'a later one with the same value',
    found: { ...FOUND, resourceVersion: '9', isSameValue: true },
    stored: STORED,
    want: true,
  },
  {
    what: 'one that was created again with the same value',
    found: { ...FOUND, uid: 'u-2', isSameValue: true },
    stored: STORED,
    want: true,
  },
  {
    what: 'one that was created again with another value',
    found: { ...FOUND, uid: 'u-2' },
    stored: STORED,
    want: false,
  },
  {
    what: 'one that was created again at the same version, as after a restore of the store',
    found: { ...FOUND, uid: 'u-2', resourceVersion: STORED.resourceVersion },
    stored: STORED,
    want: false,
  },
  { what: 'one where nothing was stored', found: FOUND, stored: undefined, want: false },
])('$what is stored: $want', ({ found, stored, want }) => {
  expect(isStoredInputSecret(found, stored)).toBe(want)
  expect(isPendingInputSecret(found, stored)).toBe(!want)
})

test.each<{ found: InputSecretFacts; want: boolean }>([
  { found: { state: 'none' }, want: false },
  { found: { state: 'missing' }, want: false },
  { found: { state: 'forbidden' }, want: false },
  { found: { state: 'wrong-type', type: 'Opaque' }, want: true },
  { found: { state: 'no-key' }, want: true },
  { found: { state: 'problem', problem: 'is empty' }, want: true },
])('$found waits for something to be stored: $want', ({ found, want }) => {
  expect(isPendingInputSecret(found, STORED)).toBe(want)
})
