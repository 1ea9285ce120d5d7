import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import {
  deliveryObjectName,
  derivedName,
  endpointTag,
  MESSAGE_ID,
  messageId,
  NAME_ENTROPY_BYTES,
  nameOfMessage,
  sortableName,
  timeOfName,
} from './ids.ts'
import { DNS_LABEL } from './meta.ts'

const time = fc.integer({ min: 0, max: Date.parse('9999-12-31T23:59:59.999Z') })
const entropy = fc.uint8Array({ minLength: NAME_ENTROPY_BYTES, maxLength: NAME_ENTROPY_BYTES })

describe('a name', () => {
  test('is 26 characters that may stand in a DNS label and in signed content', () => {
    fc.assert(
      fc.property(time, entropy, (now, bytes) => {
        const name = sortableName(now, bytes)
        expect(name).toHaveLength(26)
        expect(name).toMatch(DNS_LABEL)
        expect(name).not.toContain('.')
        expect(messageId(name)).toMatch(MESSAGE_ID)
      }),
    )
  })

  test('made later comes first in a list by name', () => {
    fc.assert(
      fc.property(time, time, entropy, entropy, (a, b, left, right) => {
        fc.pre(a !== b)
        expect(sortableName(a, left) < sortableName(b, right)).toBe(a > b)
      }),
    )
  })

  test('tells its time', () => {
    fc.assert(
      fc.property(time, entropy, (now, bytes) => {
        expect(timeOfName(sortableName(now, bytes))).toBe(now)
      }),
    )
  })

  test.each([
    { given: '', why: 'nothing' },
    { given: 'acme', why: 'the name of an organization' },
    { given: '7ycfp16rfz', why: 'only a time' },
    { given: '7ycfp16rfz000000000000000', why: 'one character too few' },
    { given: '7ycfp16rfz00000000000000000', why: 'one character too many' },
    { given: 'zzzzzzzzzz0000000000000000', why: 'a time before 1970' },
    { given: '7YCFP16RFZ0000000000000000', why: 'capitals' },
    { given: '7ycfp16rfl0000000000000000', why: 'a letter that is not of the alphabet' },
  ])('has no time where it is $why', ({ given }) => {
    expect(timeOfName(given)).toBeNaN()
  })

  test("of a delivery's object tells the time of its event", () => {
    const name = sortableName(1000, new Uint8Array(NAME_ENTROPY_BYTES))
    expect(timeOfName(deliveryObjectName(name, 'uid-1'))).toBe(1000)
  })

  test('of one moment is another one for each single bit of chance', () => {
    const names = new Set<string>([sortableName(0, new Uint8Array(NAME_ENTROPY_BYTES))])
    for (let bit = 0; bit < NAME_ENTROPY_BYTES * 8; bit += 1) {
      const bytes = new Uint8Array(NAME_ENTROPY_BYTES)
      bytes[bit >> 3] = 1 << (bit & 7)
      names.add(sortableName(0, bytes))
    }
    expect(names.size).toBe(1 + NAME_ENTROPY_BYTES * 8)
  })

  test.each([
    { now: 0, want: '7zzzzzzzzz0000000000000000' },
    { now: Date.parse('2026-01-31T12:00:00.000Z'), want: '7ycfp16rfz0000000000000000' },
  ])('of $now is $want, now and in every later version', ({ now, want }) => {
    expect(sortableName(now, new Uint8Array(NAME_ENTROPY_BYTES))).toBe(want)
  })
})

describe('a derived name', () => {
  test('is the same for the same time and seed, and another one otherwise', () => {
    fc.assert(
      fc.property(time, fc.string(), fc.string(), (at, seed, other) => {
        expect(derivedName(at, seed)).toBe(derivedName(at, seed))
        expect(messageId(derivedName(at, seed))).toMatch(MESSAGE_ID)
        expect(timeOfName(derivedName(at, seed))).toBe(at)
        if (seed !== other) expect(derivedName(at, seed)).not.toBe(derivedName(at, other))
      }),
    )
  })

  test('never changes between versions, since a repeat after an update must find it', () => {
    expect(derivedName(0, 'uid-1/ping/2026-01-31T12:00:00Z')).toBe('7zzzzzzzzzda4kz75h3rvv84ye')
  })
})

test('an id gives its name and a name its id', () => {
  fc.assert(
    fc.property(time, entropy, (now, bytes) => {
      const name = sortableName(now, bytes)
      expect(nameOfMessage(messageId(name))).toBe(name)
    }),
  )
})

test.each(['', 'msg_', 'billing', 'whe_7zzzzzzzzz0000000000000000', 'msg_../7zzzzzzzzz00000000000000'])(
  '"%s" is the id of no message',
  (given) => {
    expect(nameOfMessage(given)).toBeUndefined()
  },
)

describe('the name of a WebhookDelivery', () => {
  test('is a DNS label that starts with the event and tells endpoints apart', () => {
    fc.assert(
      fc.property(time, entropy, fc.uuid(), fc.uuid(), (now, bytes, uid, other) => {
        const event = sortableName(now, bytes)
        const name = deliveryObjectName(event, uid)
        expect(name).toMatch(DNS_LABEL)
        expect(name).toBe(`${event}-${endpointTag(uid)}`)
        expect(name).toHaveLength(35)
        expect(deliveryObjectName(event, uid)).toBe(name)
        if (uid !== other) expect(deliveryObjectName(event, other)).not.toBe(name)
      }),
    )
  })

  test('uses the same tag in every version', () => {
    expect(endpointTag('0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0')).toBe('atmveecn')
  })
})
