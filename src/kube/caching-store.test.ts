import { expect, test } from 'vitest'
import { identityOf, UNKNOWN_VERSION, versionOf } from './store.ts'

test.each([
  [
    { namespace: 'acme', name: 'one', uid: 'u-1', resourceVersion: '7' },
    { key: 'acme/one', uid: 'u-1', version: 7 },
  ],
  [
    { name: 'one', resourceVersion: '7' },
    { key: 'one', uid: '', version: 7 },
  ],
])('the identity of %j', (metadata, want) => {
  expect(identityOf({ metadata })).toEqual(want)
})

test.each([undefined, '', 'abc', '-7', '0', '1.5', '9007199254740993', 'Infinity'])(
  'a version that is no number from one on is not known: %s',
  (version) => expect(versionOf(version)).toBe(UNKNOWN_VERSION),
)
