import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  activeKeys,
  keysInStatus,
  MAX_ACTIVE_KEYS,
  OVERLAP_SECONDS,
  type RollRequest,
  rollKeys,
  type SigningKey,
  withoutUnseen,
} from './key-rotation.ts'
import { fingerprintOf } from './signature.ts'

const NOW = Date.parse('2026-01-31T12:00:00.000Z')
const HOUR = 3_600_000
const DAY = 24 * HOUR

function iso(ms: number): string {
  return new Date(ms).toISOString()
}

function roll(secret: string, over: Partial<RollRequest> = {}): RollRequest {
  return { secret, expireOld: false, shared: false, ...over }
}

/** The keys after a roll that must succeed. */
function rolled(keys: readonly SigningKey[], request: RollRequest, now: number): SigningKey[] {
  const result = rollKeys(keys, request, now)
  if (result.kind !== 'rolled') throw new Error(`the roll was ${result.kind}`)
  return result.keys
}

const secretsOf = (keys: readonly SigningKey[]) => keys.map(({ secret }) => secret)

test('the limits are those of the interface', () => {
  expect(OVERLAP_SECONDS).toBe(86_400)
  expect(MAX_ACTIVE_KEYS).toBe(5)
})

describe('a roll', () => {
  const first = rolled([], roll('whsec_1'), NOW)

  test('without keys makes one that has no end', () => {
    expect(first).toMatchObject([{ secret: 'whsec_1', createdAt: iso(NOW) }])
    expect(first[0]?.expiresAt).toBeUndefined()
    expect(first[0]?.shared).toBeUndefined()
  })

  test('lets the old key sign for 24 hours more, to the millisecond', () => {
    const keys = rolled(first, roll('whsec_2'), NOW + HOUR)
    expect(secretsOf(activeKeys(keys, NOW + HOUR))).toEqual(['whsec_2', 'whsec_1'])
    expect(secretsOf(activeKeys(keys, NOW + HOUR + DAY - 1))).toEqual(['whsec_2', 'whsec_1'])
    expect(secretsOf(activeKeys(keys, NOW + HOUR + DAY))).toEqual(['whsec_2'])
    expect(secretsOf(activeKeys(keys, NOW + 365 * DAY))).toEqual(['whsec_2'])
  })

  test('with expireOld ends every earlier key at once', () => {
    const keys = rolled(rolled(first, roll('whsec_2'), NOW), roll('whsec_3', { expireOld: true }), NOW)
    expect(secretsOf(activeKeys(keys, NOW))).toEqual(['whsec_3'])
  })

  test('inside an overlap lets every unexpired key sign, newest first, each to its own end', () => {
    const second = rolled(first, roll('whsec_2'), NOW)
    const keys = rolled(second, roll('whsec_3'), NOW + HOUR)
    expect(secretsOf(activeKeys(keys, NOW + HOUR))).toEqual(['whsec_3', 'whsec_2', 'whsec_1'])
    expect(secretsOf(activeKeys(keys, NOW + DAY))).toEqual(['whsec_3', 'whsec_2'])
    expect(secretsOf(activeKeys(keys, NOW + HOUR + DAY))).toEqual(['whsec_3'])
  })

  test('while five keys sign is refused, and possible again when one has ended or with expireOld', () => {
    let keys = first
    for (let i = 2; i <= 5; i += 1) keys = rolled(keys, roll(`whsec_${i}`), NOW + i)
    expect(activeKeys(keys, NOW + 6)).toHaveLength(5)
    expect(rollKeys(keys, roll('whsec_6'), NOW + 6)).toEqual({ kind: 'tooMany' })
    const urgent = rolled(keys, roll('whsec_6', { expireOld: true }), NOW + 6)
    expect(secretsOf(urgent)).toEqual(['whsec_6'])
    const later = rolled(keys, roll('whsec_6'), NOW + 2 + DAY)
    expect(secretsOf(activeKeys(later, NOW + 2 + DAY))).toEqual([
      'whsec_6',
      'whsec_5',
      'whsec_4',
      'whsec_3',
      'whsec_2',
    ])
  })

  test('that was answered before makes no second key, not even when five keys sign', () => {
    let keys = rolled([], roll('whsec_1', { request: 'at-1' }), NOW)
    expect(rollKeys(keys, roll('whsec_x', { request: 'at-1' }), NOW)).toEqual({ kind: 'repeated' })
    for (let i = 2; i <= 5; i += 1) keys = rolled(keys, roll(`whsec_${i}`, { request: `at-${i}` }), NOW)
    expect(rollKeys(keys, roll('whsec_x', { request: 'at-5' }), NOW)).toEqual({ kind: 'repeated' })
    expect(rollKeys(keys, roll('whsec_x', { request: 'at-5', expireOld: true }), NOW)).toEqual({
      kind: 'repeated',
    })
  })

  test('without a request is never taken for a repeat', () => {
    expect(secretsOf(rolled(first, roll('whsec_2'), NOW))).toEqual(['whsec_2', 'whsec_1'])
  })

  test('marks only the new key as one that the owner may see', () => {
    const keys = rolled(first, roll('whsec_2', { shared: true }), NOW)
    expect(keys.map(({ shared }) => shared ?? false)).toEqual([true, false])
    const unset = rolled(keys, roll('whsec_3'), NOW)
    expect(unset.map(({ shared }) => shared ?? false)).toEqual([false, true, false])
  })
})

const course = fc.array(
  fc.record({
    waitMs: fc.oneof(fc.constantFrom(0, 1, HOUR, DAY - 1, DAY), fc.integer({ min: 0, max: 2 * DAY })),
    expireOld: fc.boolean(),
    repeat: fc.boolean(),
  }),
  { maxLength: 30 },
)

test('over any course of rolls, exactly the unended keys sign, newest first, one to five of them', () => {
  fc.assert(
    fc.property(course, (given) => {
      let keys = rolled([], roll('whsec_0', { request: 'at-0' }), NOW)
      /** Newest first; the end of each key in milliseconds. */
      let model = [{ secret: 'whsec_0', end: Number.POSITIVE_INFINITY }]
      let now = NOW
      given.forEach(({ waitMs, expireOld, repeat }, i) => {
        now += waitMs
        model = model.filter(({ end }) => end > now)
        if (repeat) {
          const request = keys[0]?.request
          expect(rollKeys(keys, roll('whsec_x', { request }), now)).toEqual({ kind: 'repeated' })
        }
        const result = rollKeys(keys, roll(`whsec_${i + 1}`, { expireOld, request: `at-${i + 1}` }), now)
        const full = !expireOld && model.length === 5
        expect(result.kind).toBe(full ? 'tooMany' : 'rolled')
        if (result.kind === 'rolled') {
          keys = result.keys
          const earlier = expireOld ? [] : model.map((key) => ({ ...key, end: Math.min(key.end, now + DAY) }))
          model = [{ secret: `whsec_${i + 1}`, end: Number.POSITIVE_INFINITY }, ...earlier]
        }
        expect(secretsOf(activeKeys(keys, now))).toEqual(
          secretsOf(model.map((key) => ({ ...key, createdAt: '' }))),
        )
        expect(model.length).toBeLessThanOrEqual(5)
        expect(keys.length).toBeLessThanOrEqual(5)
      })
    }),
    { numRuns: 300 },
  )
})

test('rolling changes nothing of the keys that were given', () => {
  const keys = rolled([], roll('whsec_1'), NOW)
  const before = structuredClone(keys)
  rollKeys(keys, roll('whsec_2'), NOW)
  expect(keys).toEqual(before)
})

test('status shows fingerprints and times of the keys in force, and no key', () => {
  const keys = rolled(rolled([], roll('whsec_1'), NOW), roll('whsec_2'), NOW + 1)
  expect(keysInStatus(keys, NOW + 2)).toStrictEqual([
    { fingerprint: fingerprintOf('whsec_2'), createdAt: iso(NOW + 1) },
    { fingerprint: fingerprintOf('whsec_1'), createdAt: iso(NOW), expiresAt: iso(NOW + 1 + DAY) },
  ])
  expect(keysInStatus(keys, NOW + 1 + DAY)).toHaveLength(1)
  expect(JSON.stringify(keysInStatus(keys, NOW + 2))).not.toContain('whsec_')
})

describe('rolls whose secrets nobody was shown', () => {
  const first = rolled([], roll('whsec_1'), NOW)
  const lost = rolled(rolled(first, roll('whsec_2'), NOW), roll('whsec_3'), NOW + HOUR)
  const isLost = ({ secret }: SigningKey) => secret !== 'whsec_1'

  test('leave the keys as they were', () => {
    expect(withoutUnseen(lost, isLost, NOW + 2 * HOUR)).toEqual(first)
    const among = rolled(lost, roll('whsec_4'), NOW + 2 * HOUR)
    const seen = withoutUnseen(among, ({ secret }) => secret === 'whsec_3', NOW + 2 * HOUR)
    expect(secretsOf(seen)).toEqual(['whsec_4', 'whsec_2', 'whsec_1'])
    expect(seen[1]?.expiresAt).toBe(iso(NOW + HOUR + DAY))
  })

  test('bring back none that has ended since, and no key where all are of that kind', () => {
    expect(withoutUnseen(lost, isLost, NOW + DAY)).toEqual([])
    expect(withoutUnseen(lost, () => true, NOW + HOUR)).toEqual([])
  })

  test('that there are none change nothing', () => {
    expect(withoutUnseen(lost, () => false, NOW + 365 * DAY)).toEqual(lost)
  })
})
