import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { fingerprintOf, formatSecret, KEY_BYTES, signatureHeader } from './signature.ts'

/** The library compares the timestamp with the machine's clock. */
const NOW = Date.parse('2026-01-31T12:00:00.000Z')
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOW })
})
afterEach(() => {
  vi.useRealTimers()
})

const utf8 = (text: string) => Buffer.from(text, 'utf8')

test.each([
  {
    name: 'A',
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    message: {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: 1_614_265_330,
      body: utf8('{"test": 2432232314}'),
    },
    want: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  },
  {
    name: 'B',
    secret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
    message: {
      id: 'msg_27UH4WbU6Z5A5EzD8u03UvzRbpk',
      timestamp: 1_649_367_553,
      body: utf8('{"email":"test@example.com","username":"test_user"}'),
    },
    want: 'v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=',
  },
])('vector $name of the reference libraries is signed the same', ({ secret, message, want }) => {
  expect(signatureHeader(message, [secret])).toBe(want)
})

const secret = fc.uint8Array({ minLength: KEY_BYTES, maxLength: KEY_BYTES }).map(formatSecret)
const id = fc.stringMatching(/^msg_[0-9abcdefghjkmnpqrstvwxyz]{26}$/)
const json = fc.oneof(
  fc.json(),
  fc.string({ unit: 'grapheme' }).map((text) => JSON.stringify(text)),
)
const timestamp = fc.integer({ min: NOW / 1000 - 300, max: NOW / 1000 + 300 })

/** Headers as a receiver sees them. */
function headers(message: { id: string; timestamp: number }, signature: string): Record<string, string> {
  return {
    'webhook-id': message.id,
    'webhook-timestamp': String(message.timestamp),
    'webhook-signature': signature,
  }
}

describe('the reference library', () => {
  test('verifies what we sign, and reads the same data', () => {
    fc.assert(
      fc.property(id, timestamp, json, secret, (messageId, seconds, text, key) => {
        const message = { id: messageId, timestamp: seconds, body: utf8(text) }
        const sent = headers(message, signatureHeader(message, [key]))
        expect(new Webhook(key).verify(text, sent)).toEqual(JSON.parse(text))
      }),
    )
  })

  test('signs the same message the same', () => {
    fc.assert(
      fc.property(id, timestamp, json, secret, (messageId, seconds, text, key) => {
        const ours = signatureHeader({ id: messageId, timestamp: seconds, body: utf8(text) }, [key])
        expect(ours).toBe(new Webhook(key).sign(messageId, new Date(seconds * 1000), text))
      }),
    )
  })

  test('verifies with either key while two sign, and with no other', () => {
    fc.assert(
      fc.property(fc.uniqueArray(secret, { minLength: 3, maxLength: 3 }), json, (keys, text) => {
        const [fresh = '', old = '', stranger = ''] = keys
        const message = { id: 'msg_7zzzzzzzzz0000000000000000', timestamp: NOW / 1000, body: utf8(text) }
        const sent = headers(message, signatureHeader(message, [fresh, old]))
        expect(new Webhook(fresh).verify(text, sent)).toEqual(JSON.parse(text))
        expect(new Webhook(old).verify(text, sent)).toEqual(JSON.parse(text))
        expect(() => new Webhook(stranger).verify(text, sent)).toThrow('No matching signature found')
      }),
    )
  })

  test.each([
    { what: 'id', change: { 'webhook-id': 'msg_7zzzzzzzzz0000000000000001' } },
    { what: 'timestamp', change: { 'webhook-timestamp': String(NOW / 1000 + 1) } },
    { what: 'body', change: {}, body: '{"a":2}' },
  ])('refuses it once the $what is another one', ({ change, body = '{"a":1}' }) => {
    const key = formatSecret(new Uint8Array(KEY_BYTES).fill(7))
    const message = { id: 'msg_7zzzzzzzzz0000000000000000', timestamp: NOW / 1000, body: utf8('{"a":1}') }
    const sent = { ...headers(message, signatureHeader(message, [key])), ...change }
    expect(() => new Webhook(key).verify(body, sent)).toThrow('No matching signature found')
  })
})

test('up to five signatures stand in the order of their keys, separated by single spaces', () => {
  fc.assert(
    fc.property(fc.array(secret, { minLength: 1, maxLength: 5 }), (keys) => {
      const message = { id: 'msg_7zzzzzzzzz0000000000000000', timestamp: 1, body: utf8('{}') }
      const each = keys.map((key) => signatureHeader(message, [key]))
      expect(signatureHeader(message, keys)).toBe(each.join(' '))
      for (const one of each) expect(one).toMatch(/^v1,[A-Za-z0-9+/]{43}=$/)
    }),
  )
})

test('a secret is its prefix and 32 characters of base64 without padding', () => {
  fc.assert(
    fc.property(secret, (given) => {
      expect(given).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/)
    }),
  )
})

test('a fingerprint tells secrets apart and holds nothing of them', () => {
  fc.assert(
    fc.property(secret, secret, (given, other) => {
      expect(fingerprintOf(given)).toMatch(/^[0-9a-f]{16}$/)
      expect(fingerprintOf(given)).toBe(fingerprintOf(given))
      if (given !== other) expect(fingerprintOf(given)).not.toBe(fingerprintOf(other))
    }),
  )
})
