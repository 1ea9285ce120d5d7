import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MAX_REDELIVERIES, readRedeliverRequest, readRequest } from './requests.ts'

const CREATED = Date.parse('2026-01-31T12:00:00Z')
const NEW = '2026-01-31T12:30:00Z'
const AT = Date.parse(NEW)

describe('a request', () => {
  test.each([
    { given: undefined, handled: undefined, want: { kind: 'none' } },
    { given: '', handled: undefined, want: { kind: 'none' } },
    { given: '', handled: NEW, want: { kind: 'none' } },
    { given: NEW, handled: undefined, want: { kind: 'new', value: NEW, at: AT } },
    { given: NEW, handled: '2026-01-31T12:29:00Z', want: { kind: 'new', value: NEW, at: AT } },
    { given: NEW, handled: NEW, want: { kind: 'old', value: NEW } },
    { given: '2026-01-31T12:00:00Z', handled: undefined, want: { kind: 'new' } },
    { given: '2026-01-31T11:59:00Z', handled: undefined, want: { kind: 'old' } },
    { given: '1970-01-01T00:00:00Z', handled: undefined, want: { kind: 'old' } },
    { given: '0000-01-01T00:00:00Z', handled: undefined, want: { kind: 'old' } },
    { given: '2026-01-31T12:30:00.5Z', handled: undefined, want: { kind: 'new', at: AT + 500 } },
    { given: '2026-01-31T12:30:00.123456789Z', handled: undefined, want: { kind: 'new', at: AT + 123 } },
    { given: '2026-01-31T13:30:00+01:00', handled: undefined, want: { kind: 'new', at: AT } },
    { given: '2026-01-31T12:30:00-00:00', handled: undefined, want: { kind: 'new', at: AT } },
    { given: '2026-01-31t12:30:00z', handled: undefined, want: { kind: 'new', at: AT } },
    { given: '2026-01-31 12:30:00Z', handled: undefined, want: { kind: 'new', at: AT } },
  ])('"$given" after "$handled" is $want.kind', ({ given, handled, want }) => {
    expect(readRequest(given, handled, CREATED)).toMatchObject(want)
  })

  test.each([
    'now',
    'true',
    '1769862600',
    '2026-01-31',
    '2026-01-31T12:30',
    '2026-01-31T12:30:00',
    '2026-13-31T12:30:00Z',
    '2026-01-32T12:30:00Z',
    '2026-01-31T25:30:00Z',
    '2026-01-31T12:60:00Z',
    '2026-01-31T12:30:00+25:00',
    '2026-01-31T12:30:00.Z',
    '2026-01-31T12:30:00.1234567890Z',
    '+002026-01-31T12:30:00Z',
    'Sat, 31 Jan 2026 12:30:00 GMT',
    ' 2026-01-31T12:30:00Z',
    '2026-01-31T12:30:00Z\n',
    '2026-01-31T12:30:00Z; rm -rf /',
    '２０２６-01-31T12:30:00Z',
    'x'.repeat(100_000),
  ])('"%s" is refused in words', (given) => {
    const read = readRequest(given, undefined, CREATED)
    expect(read.kind).toBe('invalid')
    if (read.kind !== 'invalid') return
    expect(read.message).toContain('is not a time such as 2026-01-31T12:00:00Z')
    expect(read.message.length).toBeLessThan(200)
    expect(read.value.length).toBeLessThanOrEqual(256)
  })

  test('of any text is read without an error, and is new only if it is a time', () => {
    const garbage = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.stringMatching(/^[0-9TZ:.+-]{0,32}$/),
    )
    fc.assert(
      fc.property(garbage, (given) => {
        const read = readRequest(given, undefined, CREATED)
        if (read.kind === 'new') expect(read.at).toBe(Date.parse(given))
      }),
    )
  })

  test('is new for any time from the creation on, until it was acted on', () => {
    const time = fc.date({
      min: new Date(CREATED),
      max: new Date('9999-12-31T23:59:59Z'),
      noInvalidDate: true,
    })
    fc.assert(
      fc.property(time, (date) => {
        const value = date.toISOString()
        expect(readRequest(value, undefined, CREATED)).toEqual({ kind: 'new', value, at: date.getTime() })
        expect(readRequest(value, value, CREATED)).toEqual({ kind: 'old', value })
      }),
    )
  })
})

const A = 'msg_7zzzzzzzzz0000000000000000'
const B = 'msg_7zzzzzzzzz0000000000000001'

describe('a request to redeliver', () => {
  test.each([
    { given: undefined, handled: undefined, want: [] },
    { given: '', handled: undefined, want: [] },
    { given: `${A}@${NEW}`, handled: undefined, want: [A] },
    { given: `${A}@${NEW}`, handled: `${A}@${NEW}`, want: [] },
    { given: `${A}@${NEW},${B}@${NEW}`, handled: undefined, want: [A, B] },
    { given: `${A}@${NEW},${B}@${NEW}`, handled: `${A}@${NEW}`, want: [B] },
    { given: `${B}@${NEW},${A}@${NEW}`, handled: `${A}@${NEW},${B}@${NEW}`, want: [] },
    { given: ` ${A}@${NEW} ,\n ${B}@${NEW} `, handled: undefined, want: [A, B] },
    { given: `,${A}@${NEW},,`, handled: undefined, want: [A] },
    { given: `${A}@2026-01-31T12:31:00Z`, handled: `${A}@${NEW}`, want: [A] },
    { given: `${A}@2026-01-30T12:00:00Z,${B}@${NEW}`, handled: undefined, want: [B] },
  ])('"$given" after "$handled" asks for $want', ({ given, handled, want }) => {
    const read = readRedeliverRequest(given, handled, CREATED)
    expect(read.items.map(({ deliveryId }) => deliveryId)).toEqual(want)
    expect(read.invalid).toEqual([])
  })

  test('carries the time and the text of each item, from which its id is derived', () => {
    expect(readRedeliverRequest(` ${A}@${NEW}`, undefined, CREATED).items).toEqual([
      { deliveryId: A, at: AT, raw: `${A}@${NEW}` },
    ])
  })

  test.each([
    A,
    `${A}@`,
    `${A}@now`,
    `@${NEW}`,
    NEW,
    `${A.toUpperCase()}@${NEW}`,
    `${A}/../x@${NEW}`,
    `${A.slice(0, -1)}@${NEW}`,
    `whe_billing@${NEW}`,
    `${A} ${B}@${NEW}`,
    'x'.repeat(10_000),
  ])('with the item "%s" names it as wrong and goes on with the others', (given) => {
    const read = readRedeliverRequest(`${A}@${NEW},${given},${B}@${NEW}`, undefined, CREATED)
    expect(read.items.map(({ deliveryId }) => deliveryId)).toEqual([A, B])
    expect(read.invalid).toEqual([given.slice(0, 64)])
  })

  test('of any text is read without an error and within its limit', () => {
    const part = fc.oneof(fc.string(), fc.constantFrom(`${A}@${NEW}`, `${B}@${NEW}`, '@', A))
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 300 }),
        fc.option(fc.string(), { nil: undefined }),
        (parts, handled) => {
          const read = readRedeliverRequest(parts.join(','), handled, CREATED)
          expect(read.items.length).toBeLessThanOrEqual(MAX_REDELIVERIES)
          for (const { deliveryId } of read.items) expect([A, B]).toContain(deliveryId)
        },
      ),
    )
  })
})
