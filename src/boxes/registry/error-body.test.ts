import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { readErrorBody } from './challenge.ts'

const TABLE = [
  {
    given: '{"errors":[{"code":"UNAUTHORIZED","message":"authentication required","detail":null}]}',
    want: { codes: ['UNAUTHORIZED'], words: 'UNAUTHORIZED: authentication required' },
  },
  {
    given: '{"errors":[{"code":"denied","message":"no"},{"message":"only words"}]}',
    want: { codes: ['DENIED'], words: 'denied: no; only words' },
  },
  {
    given: '{"details":"incorrect username or password"}',
    want: { codes: [], words: 'incorrect username or password' },
  },
  { given: '{"message":"slow down"}', want: { codes: [], words: 'slow down' } },
  {
    given: 'Your authorization token has expired. Reauthenticate and try again.\n',
    want: { codes: [], words: 'Your authorization token has expired. Reauthenticate and try again.' },
  },
  { given: '{"errors":"none"}', want: { codes: [], words: '{"errors":"none"}' } },
  { given: '', want: { codes: [], words: '' } },
]

describe('the body of a refusal', () => {
  for (const { given, want } of TABLE)
    it(`is read: ${given.trim() || 'nothing'}`, () => expect(readErrorBody(given)).toEqual(want))

  it('may be anything, and what is kept of it is bounded', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ size: 'large' }), fc.json()), (text) => {
        expect(readErrorBody(text).words.length).toBeLessThanOrEqual(500)
      }),
    )
    const many = JSON.stringify({ errors: Array.from({ length: 1000 }, () => ({ code: 'A' })) })
    expect(readErrorBody(many).codes.length).toBe(10)
  })
})
