import { expect, test } from 'vitest'
import { etagOf, ifMatchHolds, isWeakened } from './text.ts'

const ETAG = etagOf({ uid: 'uid-1', generation: 3 })

test('an ETag is a quoted string that names neither UID nor spec, and changes with either', () => {
  expect(ETAG).toMatch(/^"[0-9a-z]{16}-3"$/)
  const others = [etagOf({ uid: 'uid-2', generation: 3 }), etagOf({ uid: 'uid-1', generation: 4 })]
  expect(new Set([ETAG, ...others]).size).toBe(3)
})

test('an ETag changes with all that is shown, and does not tell it', () => {
  const of = (shown: unknown) => etagOf({ uid: 'uid-1', generation: 3 }, shown)
  expect(of({ status: 'enabled' })).toMatch(/^"[0-9a-z]{16}-3-[0-9a-z]{10}"$/)
  expect(of({ status: 'enabled' })).toBe(of({ status: 'enabled' }))
  const all = [{ status: 'enabled' }, { status: 'disabled' }, {}, { status: null }, []].map(of)
  expect(new Set([...all, ETAG]).size).toBe(6)
})

test.each([
  { given: undefined, want: true, why: 'nothing is asked for' },
  { given: '*', want: true, why: 'any version will do' },
  { given: ETAG, want: true, why: 'it is this version' },
  { given: `"other", ${ETAG}`, want: true, why: 'it is one of several' },
  { given: '"other"', want: false, why: 'it is another version' },
  { given: `W/${ETAG}`, want: false, why: 'a weak tag fits nothing' },
  { given: ETAG.replaceAll('"', ''), want: false, why: 'the quotes are missing' },
  { given: '', want: false, why: 'it is empty' },
])('If-Match: $given holds: $want, since $why', ({ given, want }) => {
  expect(ifMatchHolds(given, ETAG)).toBe(want)
})

test.each([
  { given: `W/${ETAG}`, want: true, why: 'it is this version, weakened' },
  { given: 'W/"other"', want: true, why: 'whoever reads again gets a weak one again' },
  { given: `"other", W/${ETAG}`, want: true, why: 'one is this version, weakened' },
  { given: '"other"', want: false, why: 'it is another version' },
  { given: 'W/"other", "another"', want: false, why: 'a strong one did not fit' },
])('If-Match: $given fails since it is weak: $want, since $why', ({ given, want }) => {
  expect(ifMatchHolds(given, ETAG)).toBe(false)
  expect(isWeakened(given, ETAG)).toBe(want)
})
