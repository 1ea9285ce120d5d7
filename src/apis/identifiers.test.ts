import { expect, test } from 'vitest'
import { CREDENTIAL_PREFIX, ENDPOINT_PREFIX, MESSAGE_ID, MESSAGE_PREFIX, SECRET_PREFIX } from './ids.ts'

test('the prefixes are those of the interface', () => {
  expect([CREDENTIAL_PREFIX, ENDPOINT_PREFIX, MESSAGE_PREFIX, SECRET_PREFIX]).toEqual([
    'rc_',
    'whe_',
    'msg_',
    'whsec_',
  ])
})

const NAME = '0123456789abcdefghjkmnpqrs'

test.each([
  { given: `msg_${NAME}`, want: true, why: '26 characters of the alphabet' },
  { given: 'msg_tvwxyztvwxyztvwxyztvwxyztv', want: true, why: 'the rest of the alphabet' },
  { given: NAME, want: false, why: 'no prefix' },
  { given: `whe_${NAME}`, want: false, why: 'the prefix of an endpoint' },
  { given: `MSG_${NAME}`, want: false, why: 'a prefix in capitals' },
  { given: `msg_${NAME.slice(1)}`, want: false, why: 'one character too few' },
  { given: `msg_${NAME}0`, want: false, why: 'one character too many' },
  { given: `msg_${NAME}-12345678`, want: false, why: "the name of a delivery's object" },
  { given: `msg_${NAME.toUpperCase()}`, want: false, why: 'capitals' },
  { given: `msg_i${NAME.slice(1)}`, want: false, why: 'an i' },
  { given: `msg_l${NAME.slice(1)}`, want: false, why: 'an l' },
  { given: `msg_o${NAME.slice(1)}`, want: false, why: 'an o' },
  { given: `msg_u${NAME.slice(1)}`, want: false, why: 'a u' },
  { given: `msg_.${NAME.slice(1)}`, want: false, why: 'a dot, which separates the parts of signed content' },
  { given: `msg_/${NAME.slice(1)}`, want: false, why: 'a slash' },
  { given: `msg_${NAME}\n`, want: false, why: 'a line break at the end' },
  { given: `x\nmsg_${NAME}`, want: false, why: 'a line before' },
  { given: ` msg_${NAME}`, want: false, why: 'a space before' },
  { given: '', want: false, why: 'nothing' },
])('a message id with $why: $want', ({ given, want }) => {
  expect(MESSAGE_ID.test(given)).toBe(want)
})
