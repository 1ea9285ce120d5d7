import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import {
  handledExcept,
  MAX_REDELIVERIES,
  readRedeliverRequest,
  readRequest,
  readRotateRequest,
} from './annotations.ts'
import { lastHandled } from './webhook-endpoint.ts'

const CREATED = Date.parse('2026-01-31T12:00:00Z')
const NEW = '2026-01-31T12:30:00Z'
const AT = Date.parse(NEW)

/** Any text, half characters and control characters included. */
const anyText = (maxLength: number) =>
  fc.array(fc.nat(0xffff), { maxLength }).map((units) => String.fromCharCode(...units))

describe('a request to rotate', () => {
  const EXPIRING = `${NEW};expire-old`

  test.each([
    { given: undefined, handled: undefined, want: { kind: 'none' }, expireOld: false },
    { given: NEW, handled: undefined, want: { kind: 'new', value: NEW, at: AT }, expireOld: false },
    { given: EXPIRING, handled: undefined, want: { kind: 'new', value: EXPIRING, at: AT }, expireOld: true },
    { given: EXPIRING, handled: EXPIRING, want: { kind: 'old' }, expireOld: true },
    { given: EXPIRING, handled: NEW, want: { kind: 'new' }, expireOld: true },
    { given: '2026-01-31T11:00:00Z;expire-old', handled: undefined, want: { kind: 'old' }, expireOld: true },
  ])('"$given" after "$handled" is $want.kind', ({ given, handled, want, expireOld }) => {
    expect(readRotateRequest(given, handled, CREATED)).toMatchObject({ request: want, expireOld })
  })

  test.each([
    `${NEW};`,
    `${NEW};expire`,
    `${NEW}; expire-old`,
    `${NEW};expire-old;expire-old`,
    ';expire-old',
    'expire-old',
  ])('"%s" is refused in words', (given) => {
    const { request } = readRotateRequest(given, undefined, CREATED)
    expect(request).toMatchObject({
      kind: 'invalid',
      message: `"${given}" is not a valid time. Use a time such as 2026-01-31T12:00:00Z, optionally followed by ;expire-old.`,
    })
    expect(readRotateRequest(given, given, CREATED).request.kind).toBe('old')
  })
})

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
    expect(read.message).toMatch(/ is not a valid time\. Use a time such as 2026-01-31T12:00:00Z\.$/)
    expect(read.message.length).toBeLessThan(200)
    expect(read.value.length).toBeLessThanOrEqual(256)
  })

  test('that cannot be read is named once, however long it is', () => {
    for (const given of ['now', 'x'.repeat(100_000), '😀'.repeat(100_000), 'a\u0000\n'.repeat(1000)]) {
      const read = readRequest(given, undefined, CREATED)
      if (read.kind !== 'invalid') throw new Error(`"${given.slice(0, 20)}" was read as ${read.kind}`)
      expect(read.value.isWellFormed()).toBe(true)
      expect(readRequest(given, read.value, CREATED)).toEqual({ kind: 'old', value: read.value })
    }
  })

  test('of any text is read without an error, and is new only if it is a time', () => {
    const garbage = fc.oneof(fc.string(), anyText(40), fc.stringMatching(/^[0-9TZ:.+-]{0,32}$/))
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
    { given: `${A}@${NEW},${B}@${NEW},${A}@${NEW}`, handled: undefined, want: [A, B] },
    { given: ` ${A}@${NEW} ,\n ${B}@${NEW} `, handled: undefined, want: [A, B] },
    { given: `,${A}@${NEW},,`, handled: undefined, want: [A] },
    { given: `${A}@2026-01-31T12:31:00Z`, handled: `${A}@${NEW}`, want: [A] },
    { given: `${A}@2026-01-30T12:00:00Z,${B}@${NEW}`, handled: undefined, want: [B] },
  ])('"$given" after "$handled" asks for $want', ({ given, handled, want }) => {
    const read = readRedeliverRequest(given, handled, CREATED)
    expect(read.items.map(({ deliveryId }) => deliveryId)).toEqual(want)
    expect(read.invalid).toEqual([])
    expect(read.handled).toBe(given || undefined)
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
    `${A}@${NEW}@${NEW}`,
    `@${NEW}`,
    NEW,
    `${A.toUpperCase()}@${NEW}`,
    `${A}/../x@${NEW}`,
    `${A.slice(0, -1)}@${NEW}`,
    `whe_billing@${NEW}`,
    `${A} ${B}@${NEW}`,
    'x'.repeat(5000),
  ])('with the item "%s" names it as wrong, once, and goes on with the others', (given) => {
    const value = `${A}@${NEW},${given},${B}@${NEW}`
    const read = readRedeliverRequest(value, undefined, CREATED)
    expect(read.items.map(({ deliveryId }) => deliveryId)).toEqual([A, B])
    expect(read.invalid).toEqual([`"${given.slice(0, 64)}" does not have the form msg_...@<time>.`])
    expect(readRedeliverRequest(value, read.handled, CREATED)).toMatchObject({ items: [], invalid: [] })
  })

  test('for more than may be repeated at a time is done in several goes, each item once', () => {
    const items = Array.from({ length: 140 }, (_, i) => `msg_7zzzzzzzzz00000000000${10_000 + i}@${NEW}`)
    const value = items.join(',')
    const asked: string[] = []
    let handled: string | undefined
    for (let go = 0; go < 3; go += 1) {
      const read = readRedeliverRequest(value, handled, CREATED)
      expect(read.items.length).toBeLessThanOrEqual(MAX_REDELIVERIES)
      asked.push(...read.items.map(({ raw }) => raw))
      handled = read.handled
    }
    expect(asked).toEqual(items)
    expect(handled).toBe(value)
    expect(lastHandled.safeParse({ redeliver: handled }).success).toBe(true)
  })

  test('longer than its status has room for is refused as a whole, once, and what is then asked for is done', () => {
    const value = Array.from({ length: 400 }, () => `${A}@${NEW}`).join(',')
    const read = readRedeliverRequest(value, undefined, CREATED)
    expect(read.items).toEqual([])
    expect(read.invalid).toEqual([`The list must have at most 8192 characters, but it has ${value.length}.`])
    expect(lastHandled.safeParse({ redeliver: read.handled }).success).toBe(true)
    expect(readRedeliverRequest(value, read.handled, CREATED)).toEqual({ ...read, invalid: [] })
    expect(readRedeliverRequest(`${value},`, read.handled, CREATED).invalid).toHaveLength(1)
    const next = readRedeliverRequest(`${A}@${NEW}`, read.handled, CREATED)
    expect(next.items.map(({ deliveryId }) => deliveryId)).toEqual([A])
    const after = readRedeliverRequest(value, `${B}@${NEW}`, CREATED)
    expect(readRedeliverRequest(`${B}@${NEW}`, after.handled, CREATED).items).toEqual([])
  })

  test('of any text comes to rest with nothing done twice, nothing forgotten and a status that holds it', () => {
    const item = fc
      .integer({ min: 0, max: 300 })
      .map((number) => `msg_7zzzzzzzzz00000000000${10_000 + number}@${NEW}`)
    const part = fc.oneof(
      { weight: 4, arbitrary: item },
      { weight: 1, arbitrary: fc.string() },
      { weight: 1, arbitrary: fc.constantFrom('@', A, ' ', '') },
    )
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 200 }),
        fc.option(fc.string(), { nil: undefined }),
        (parts, before) => {
          const value = parts.join(',')
          const asked: string[] = []
          let handled = before
          for (let go = 0; go < 4; go += 1) {
            const read = readRedeliverRequest(value, handled, CREATED)
            asked.push(...read.items.map(({ raw }) => raw))
            handled = read.handled ?? handled
            expect(lastHandled.safeParse({ redeliver: read.handled }).success).toBe(true)
          }
          const wanted = new Set(value.split(',').map((text) => text.trim()))
          const valid = [...wanted].filter((text) =>
            /^msg_7zzzzzzzzz00000000000\d{5}@2026-01-31T12:30:00Z$/.test(text),
          )
          expect(asked).toEqual(value.length > 8192 ? [] : valid)
          const rest = readRedeliverRequest(value, handled, CREATED)
          expect({ ...rest, handled: rest.handled ?? handled }).toEqual({ items: [], invalid: [], handled })
        },
      ),
    )
  })
})

describe('what is handled while some redeliveries wait', () => {
  const value = `${A}@${NEW},invalid,${B}@${NEW}`
  const { items, handled = '' } = readRedeliverRequest(value, undefined, CREATED)

  test('is the list without them, and the rest is for the next pass', () => {
    const partly = handledExcept(handled, items.slice(1))
    expect(partly).toBe(`${A}@${NEW},invalid`)
    const next = readRedeliverRequest(value, partly, CREATED)
    expect(next).toEqual({ items: items.slice(1), invalid: [], handled: value })
  })

  test('is nothing where all of them wait', () => {
    expect(handledExcept(`${A}@${NEW}`, items)).toBeUndefined()
  })
})
