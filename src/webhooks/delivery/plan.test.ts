import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  deliveryState,
  type WebhookDeliveryStatus,
  webhookDeliveryStatus,
} from '../../apis/webhook-delivery.ts'
import {
  type AttemptResult,
  afterAttempt,
  canceledStatus,
  exhaustedStatus,
  hasEndedController,
  isFinal,
  setAsideStatus,
} from './plan.ts'

const START = Date.parse('2026-01-31T12:00:00.000Z')
const UNORDERED = { ordered: false, scale: 1 }

function failure(startedAt: number): AttemptResult {
  const at = new Date(startedAt).toISOString()
  return { succeeded: false, attempt: { at, code: 503, latencyMs: 5, error: 'HTTP 503' } }
}

function success(startedAt: number): AttemptResult {
  return { succeeded: true, attempt: { at: new Date(startedAt).toISOString(), code: 200, latencyMs: 5 } }
}

test('exactly succeeded, exhausted and canceled are final', () => {
  expect(deliveryState.options.filter(isFinal)).toEqual(['succeeded', 'exhausted', 'canceled'])
  expect(isFinal(undefined)).toBe(false)
})

describe('after an attempt', () => {
  test('that succeeded, the delivery is succeeded, whichever attempt it was', () => {
    for (let made = 0; made < 8; made += 1) {
      const before: WebhookDeliveryStatus = made === 0 ? {} : { state: 'retrying', attemptCount: made }
      const when = { endedAt: START + 5, policy: UNORDERED, fraction: 0 }
      expect(afterAttempt(before, success(START), when)).toStrictEqual({
        state: 'succeeded',
        attemptCount: made + 1,
        attempts: [success(START).attempt],
        completedAt: '2026-01-31T12:00:00.005Z',
      })
    }
  })

  test('that failed first, the next one is due 30 s after its end at the latest', () => {
    const when = { endedAt: START + 20_000, policy: UNORDERED, fraction: 0 }
    expect(afterAttempt({}, failure(START), when)).toStrictEqual({
      state: 'retrying',
      attemptCount: 1,
      attempts: [failure(START).attempt],
      nextAttemptAt: '2026-01-31T12:00:50.000Z',
    })
  })

  test('of an ordered endpoint that failed, the next one is due 3 minutes after its start', () => {
    const when = { endedAt: START + 20_000, policy: { ordered: true, scale: 1 }, fraction: 0.7 }
    expect(afterAttempt({}, failure(START), when).nextAttemptAt).toBe('2026-01-31T12:03:00.000Z')
  })

  test('that was the eighth and failed, the delivery is exhausted', () => {
    const before: WebhookDeliveryStatus = { state: 'retrying', attemptCount: 7, nextAttemptAt: 'long ago' }
    const when = { endedAt: START + 5, policy: UNORDERED, fraction: 0 }
    expect(afterAttempt(before, failure(START), when)).toStrictEqual({
      state: 'exhausted',
      attemptCount: 8,
      attempts: [failure(START).attempt],
      completedAt: '2026-01-31T12:00:00.005Z',
    })
  })
})

type Step = { what: 'fail' | 'succeed' | 'cancel'; lastsMs: number; ordered: boolean; fraction: number }

const step: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom('fail', 'fail', 'fail', 'fail', 'succeed', 'cancel'),
  lastsMs: fc.integer({ min: 0, max: 20_000 }),
  ordered: fc.boolean(),
  fraction: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
})

function statusAfter(before: WebhookDeliveryStatus, { what, ...given }: Step, startedAt: number) {
  const endedAt = startedAt + given.lastsMs
  if (what === 'cancel') return canceledStatus(before, 'HeldTooLong', endedAt)
  const when = { endedAt, policy: { ordered: given.ordered, scale: 1 }, fraction: given.fraction }
  return afterAttempt(before, what === 'succeed' ? success(startedAt) : failure(startedAt), when)
}

test('over any course of attempts, count, state and log agree until the delivery is final', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 24 }), (course) => {
      let status: WebhookDeliveryStatus = {}
      let now = START
      let attempts = 0
      for (const given of course) {
        if (isFinal(status.state)) break
        const startedAt = Date.parse(status.nextAttemptAt ?? new Date(now).toISOString())
        expect(startedAt).toBeGreaterThanOrEqual(now)
        now = startedAt + given.lastsMs
        status = statusAfter(status, given, startedAt)
        if (given.what !== 'cancel') attempts += 1
        expect(webhookDeliveryStatus.safeParse(status).success).toBe(true)
        expect(status.attemptCount).toBe(attempts)
        expect(status.attempts ?? []).toHaveLength(attempts)
        const ended = attempts === 8 ? 'exhausted' : 'retrying'
        expect(status.state).toBe({ fail: ended, succeed: 'succeeded', cancel: 'canceled' }[given.what])
        expect(status.completedAt !== undefined).toBe(isFinal(status.state))
        expect(status.nextAttemptAt !== undefined).toBe(status.state === 'retrying')
        expect(status.reason !== undefined).toBe(status.state === 'canceled')
      }
      expect(attempts).toBeLessThanOrEqual(8)
    }),
  )
})

test('every attempt is in the log, oldest first', () => {
  let status: WebhookDeliveryStatus = {}
  const starts = Array.from({ length: 8 }, (_, i) => START + i * 3_600_000)
  for (const startedAt of starts) {
    const when = { endedAt: startedAt + 5, policy: UNORDERED, fraction: 0.5 }
    status = afterAttempt(status, failure(startedAt), when)
  }
  expect(status.attempts?.map(({ at }) => Date.parse(at))).toEqual(starts)
  expect(status.state).toBe('exhausted')
})

test('an attempt that is reported twice, since the answer of the store was lost, counts once', () => {
  const when = { endedAt: START + 5, policy: UNORDERED, fraction: 0.5 }
  const once = afterAttempt({}, failure(START), when)
  expect(afterAttempt(once, failure(START), { ...when, fraction: 0 })).toStrictEqual(once)
  expect(afterAttempt(once, failure(START + 30_000), when).attemptCount).toBe(2)
})

describe('a delivery that is canceled', () => {
  test('keeps its attempts and is not due any more', () => {
    const before: WebhookDeliveryStatus = {
      state: 'retrying',
      attemptCount: 1,
      attempts: [failure(START).attempt],
      nextAttemptAt: '2026-01-31T12:00:30.000Z',
    }
    expect(canceledStatus(before, 'HeldTooLong', START + 7)).toStrictEqual({
      state: 'canceled',
      reason: 'HeldTooLong',
      attemptCount: 1,
      attempts: [failure(START).attempt],
      completedAt: '2026-01-31T12:00:00.007Z',
    })
  })

  test('before its first attempt has made none', () => {
    expect(canceledStatus({}, 'EndpointDeleted', START)).toStrictEqual({
      state: 'canceled',
      reason: 'EndpointDeleted',
      attemptCount: 0,
      completedAt: '2026-01-31T12:00:00.000Z',
    })
  })
})

describe('a delivery that has come to its end', () => {
  const ends: WebhookDeliveryStatus[] = [
    { state: 'succeeded', attemptCount: 1, attempts: [success(START).attempt], completedAt: 'then' },
    { state: 'exhausted', attemptCount: 8, attempts: [failure(START).attempt], completedAt: 'then' },
    { state: 'canceled', reason: 'EndpointDeleted', attemptCount: 3, completedAt: 'then' },
  ]

  test.each(ends)('$state stays as it is, whatever is still reported of it', (given) => {
    const when = { endedAt: START + 5, policy: UNORDERED, fraction: 0 }
    expect(afterAttempt(given, success(START), when)).toStrictEqual(given)
    expect(afterAttempt(given, failure(START), when)).toStrictEqual(given)
    expect(canceledStatus(given, 'HeldTooLong', START)).toStrictEqual(given)
  })
})

test('no more than eight attempts are told, the last ones', () => {
  const attempts = Array.from({ length: 8 }, (_, n) => failure(START + n).attempt)
  const when = { endedAt: START + 100, policy: UNORDERED, fraction: 0 }
  const { attempts: told } = afterAttempt({ attempts }, failure(START + 50), when)
  expect(told).toEqual([...attempts.slice(1), failure(START + 50).attempt])
})

describe('an attempt that ended its controller', () => {
  const begun = { at: START - 1000, attempts: 0 }
  const when = { now: START, scale: 0.5 }

  test('counts as failed, and the next one is made five minutes later', () => {
    const status = setAsideStatus({}, begun, when)
    expect(status).toStrictEqual({
      state: 'retrying',
      attemptCount: 1,
      attempts: [
        {
          at: '2026-01-31T11:59:59.000Z',
          latencyMs: 0,
          error: 'the Davit controller stopped during this attempt',
        },
      ],
      nextAttemptAt: '2026-01-31T12:02:30.000Z',
    })
    expect(hasEndedController(status)).toBe(true)
    for (const other of [undefined, {}, { attempts: [] }, { attempts: [failure(START).attempt] }])
      expect(hasEndedController(other)).toBe(false)
  })

  test('counts once, and not if its outcome is known', () => {
    const once = setAsideStatus({}, begun, when)
    expect(setAsideStatus(once, begun, when)).toBe(once)
    const failed = { state: 'retrying', attemptCount: 1, attempts: [failure(START).attempt] } as const
    expect(setAsideStatus({ ...failed, attempts: [...failed.attempts] }, begun, when)).toMatchObject(failed)
  })

  test('may be the last one', () => {
    const attempts = Array.from({ length: 7 }, (_, n) => failure(START - 10_000 + n).attempt)
    const before: WebhookDeliveryStatus = { state: 'retrying', attemptCount: 7, attempts }
    expect(setAsideStatus(before, { ...begun, attempts: 7 }, when)).toMatchObject({
      state: 'exhausted',
      attemptCount: 8,
    })
  })
})

test('one that was counted as exhausted ends so, with the attempts that are known', () => {
  const attempts = [failure(START).attempt]
  const ended = { state: 'exhausted', attemptCount: 8, completedAt: '2026-01-31T12:00:00.000Z' }
  expect(exhaustedStatus({ state: 'retrying', attemptCount: 7, attempts }, START)).toStrictEqual({
    ...ended,
    attempts,
  })
  expect(exhaustedStatus({}, START)).toStrictEqual(ended)
})
