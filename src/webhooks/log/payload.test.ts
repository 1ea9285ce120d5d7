import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { byteLength, INLINE_PAYLOAD_BYTES, webhookPayload } from './codec.ts'

const ACCEPTED = Date.parse('2026-01-31T12:00:00.007Z')

test('a body is type, timestamp and data, in this order', () => {
  expect(webhookPayload('environment.started', ACCEPTED, '{"id":1}')).toBe(
    '{"type":"environment.started","timestamp":"2026-01-31T12:00:00.007Z","data":{"id":1}}',
  )
})

test.each([
  '9007199254740993',
  '1.0',
  '-0',
  '1e400',
  '0.1000000000000000055511151231257827',
  '{"b":1,"a":2,"b":3}',
  ' {\n\t"spaced" : [ 1 , 2 ] }\n',
  'null',
  'false',
  '"text"',
  '[]',
  '"\\u00e9\\/\\ud83d\\ude00"',
  '"\\ud800"',
])('data given as %s is in the body to the digit', (given) => {
  const body = webhookPayload('a.b', ACCEPTED, given)
  expect(body).toBe(`{"type":"a.b","timestamp":"2026-01-31T12:00:00.007Z","data":${given}}`)
  expect(() => JSON.parse(body)).not.toThrow()
})

test('any JSON comes out as it went in', () => {
  fc.assert(
    fc.property(fc.json(), fc.integer({ min: 0, max: 253_402_300_799_999 }), (given, acceptedAt) => {
      const parsed: unknown = JSON.parse(webhookPayload('environment.started', acceptedAt, given))
      expect(parsed).toEqual({
        type: 'environment.started',
        timestamp: new Date(acceptedAt).toISOString(),
        data: JSON.parse(given),
      })
    }),
  )
})

test('a type cannot break out of its place', () => {
  const type = 'a","data":{},"x":"'
  expect(JSON.parse(webhookPayload(type, ACCEPTED, '1'))).toEqual({
    type,
    timestamp: '2026-01-31T12:00:00.007Z',
    data: 1,
  })
})

/** Any text, half characters and control characters included. */
const anyText = (maxLength: number) =>
  fc.array(fc.nat(0xffff), { maxLength }).map((units) => String.fromCharCode(...units))

describe('the length of a text is its bytes in UTF-8', () => {
  test.each([
    { given: '', want: 0 },
    { given: 'abc', want: 3 },
    { given: 'é', want: 2 },
    { given: '€', want: 3 },
    { given: '😀', want: 4 },
    { given: '\ud800', want: 3 },
  ])('$given has $want', ({ given, want }) => {
    expect(byteLength(given)).toBe(want)
  })

  test('which is the number of bytes that are signed and sent, for any text', () => {
    fc.assert(
      fc.property(anyText(40), (given) => {
        expect(byteLength(given)).toBe(Buffer.from(given, 'utf8').length)
      }),
    )
  })

  test('and a lone surrogate becomes the same bytes in memory and after the store has replaced it', () => {
    const body = webhookPayload('a.b', ACCEPTED, '"\ud800"')
    expect(Buffer.from(body, 'utf8').equals(Buffer.from(body.toWellFormed(), 'utf8'))).toBe(true)
  })
})

test('a body of 16 KiB is still copied into its object', () => {
  expect(INLINE_PAYLOAD_BYTES).toBe(16_384)
})
