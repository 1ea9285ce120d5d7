import { describe, expect, test } from 'vitest'
import { ABSENT_UNLESS_TRUE } from '../../../test/support/conditions.ts'
import { fc } from '../../../test/support/fast-check.ts'
import {
  decideCoverage,
  type EndpointFacts,
  endpointConditions,
  type Problem,
  type StateDecision,
} from './plan.ts'

const ENABLED: StateDecision = { state: 'enabled', newStreak: false, handled: {}, problems: [] }
const PAUSED: StateDecision = { ...ENABLED, state: 'disabled', disabledReason: 'Requested' }
const AUTO: StateDecision = { ...ENABLED, state: 'disabled', disabledReason: 'ConsecutiveFailures' }
const BILLING = { namespace: 'acme', name: 'billing' }
const HEALTHY: EndpointFacts = {
  endpoint: BILLING,
  decision: ENABLED,
  keysReady: true,
  problems: [],
  consecutiveFailures: 0,
}
const URL_REFUSED: Problem = { reason: 'UrlNotAllowed', message: 'The address is private.' }
const UNKNOWN: Problem = { reason: 'UnknownEventTypes', message: 'EventType not found: a.b.' }
const FAILING = { consecutiveFailures: 3, failingSince: '2026-01-31T12:00:00.000Z' }

/** Status and reason by type. */
function told(facts: EndpointFacts): Record<string, string> {
  const findings = endpointConditions(facts).map(({ type, status, reason }) => [type, `${status} ${reason}`])
  return { ...ABSENT_UNLESS_TRUE, ...Object.fromEntries(findings) }
}

test.each([
  {
    name: 'a healthy endpoint',
    given: HEALTHY,
    want: {
      Ready: 'True Accepted',
      Reconciling: 'absent',
      Stalled: 'absent',
      Delivering: 'True Healthy',
    },
  },
  {
    name: 'one whose key is being made',
    given: { ...HEALTHY, keysReady: false },
    want: {
      Ready: 'False CreatingSigningSecret',
      Reconciling: 'True CreatingSigningSecret',
      Stalled: 'absent',
    },
  },
  {
    name: 'one that fails',
    given: { ...HEALTHY, ...FAILING },
    want: { Ready: 'True Accepted', Stalled: 'absent', Delivering: 'False Failing' },
  },
  {
    name: 'one that its owner paused',
    given: { ...HEALTHY, decision: PAUSED },
    want: { Ready: 'True Paused', Stalled: 'absent', Delivering: 'False Disabled' },
  },
  {
    name: 'one that was disabled automatically',
    given: { ...HEALTHY, ...FAILING, decision: AUTO },
    want: {
      Ready: 'False ConsecutiveFailures',
      Stalled: 'True ConsecutiveFailures',
      Delivering: 'False Disabled',
    },
  },
  {
    name: 'one with two problems, told by the graver',
    given: { ...HEALTHY, problems: [URL_REFUSED, UNKNOWN] },
    want: { Ready: 'False UrlNotAllowed', Stalled: 'True UrlNotAllowed', Reconciling: 'absent' },
  },
  {
    name: 'one with a problem before its key is made',
    given: { ...HEALTHY, keysReady: false, problems: [URL_REFUSED] },
    want: { Ready: 'False UrlNotAllowed', Reconciling: 'absent', Stalled: 'True UrlNotAllowed' },
  },
] satisfies { name: string; given: EndpointFacts; want: object }[])('$name: $want', ({ given, want }) => {
  expect(told(given)).toMatchObject(want)
})

test.each([
  {
    failures: 1,
    want: 'The most recently finished delivery exhausted its retries at 2026-01-31T12:00:00.000Z.',
  },
  {
    failures: 3,
    want: 'The 3 most recently finished deliveries exhausted their retries, the first at 2026-01-31T12:00:00.000Z.',
  },
])('of an endpoint with $failures exhausted, the number is said', ({ failures, want }) => {
  const findings = endpointConditions({ ...HEALTHY, ...FAILING, consecutiveFailures: failures })
  expect(findings.find(({ type }) => type === 'Delivering')?.message).toBe(want)
})

describe('any endpoint', () => {
  const facts: fc.Arbitrary<EndpointFacts> = fc.record({
    endpoint: fc.constant(BILLING),
    decision: fc.constantFrom(ENABLED, PAUSED, AUTO),
    keysReady: fc.boolean(),
    problems: fc.subarray([URL_REFUSED, UNKNOWN]),
    consecutiveFailures: fc.nat(9),
    failingSince: fc.constantFrom(undefined, '2026-01-31T12:00:00.000Z'),
  })

  test('has each condition once, is ready only if nothing is being made or to be mended, and delivers only if enabled', () => {
    fc.assert(
      fc.property(facts, (given) => {
        const findings = endpointConditions(given)
        const types = findings.map(({ type }) => type)
        expect([...new Set([...types, 'Ready', 'Delivering'])]).toEqual(types)
        const isTrue = (of: string) => findings.some(({ type, status }) => type === of && status === 'True')
        const [ready, delivering] = [isTrue('Ready'), isTrue('Delivering')]
        const [reconciling, stalled] = [types.includes('Reconciling'), types.includes('Stalled')]
        expect([isTrue('Reconciling'), isTrue('Stalled')]).toEqual([reconciling, stalled])
        expect(ready).toBe(!reconciling && !stalled)
        expect(reconciling && stalled).toBe(false)
        expect(delivering).toBe(given.decision.state === 'enabled' && given.consecutiveFailures === 0)
        for (const { reason, message } of findings) {
          expect(reason).toMatch(/^[A-Z][A-Za-z]*$/)
          expect(message).not.toMatch(/undefined|null|NaN/)
        }
      }),
    )
  })

  test('carries how telling its owners went', () => {
    const notified = {
      type: 'OwnersNotified',
      status: 'True',
      reason: 'Mailed',
      message: 'to 2 owners',
    } as const
    expect(endpointConditions({ ...HEALTHY, decision: AUTO, notified }).at(-1)).toEqual(notified)
  })
})

describe('whether all successes are shown', () => {
  const NOW = Date.parse('2026-01-31T12:00:00.000Z')
  const MINUTE = 60_000
  const conditionSince = (status: 'True' | 'False', since: number) => ({
    type: 'SuccessesShown',
    status,
    reason: 'Any',
    message: 'any',
    lastTransitionTime: new Date(since).toISOString(),
    observedGeneration: 1,
  })

  const leftOutSince = (at: number, rejectedAt?: number) => ({ at, rejectedAt })

  /** When the condition changed. */
  function changesIn(steps: readonly { minutes: number; leavesOut: boolean }[]): number[] {
    const changes: number[] = []
    let now = NOW
    let leftOutAt: number | undefined
    let before: ReturnType<typeof conditionSince> | undefined
    for (const { minutes, leavesOut } of steps) {
      now += minutes * MINUTE
      if (leavesOut) leftOutAt = now
      const leftOut = leftOutAt === undefined ? undefined : leftOutSince(leftOutAt)
      const { condition } = decideCoverage(before, leftOut, now)
      if (!condition || condition.status === before?.status) continue
      changes.push(now)
      before = conditionSince(condition.status === 'True' ? 'True' : 'False', now)
    }
    return changes
  }

  test('is not in question until one is left out, and then for five minutes after the last', () => {
    expect(decideCoverage(undefined, undefined, NOW)).toEqual({})
    expect(decideCoverage(undefined, leftOutSince(NOW - MINUTE), NOW)).toMatchObject({
      condition: { status: 'False', reason: 'TooManyDeliveries' },
      changesAt: NOW + 4 * MINUTE,
    })
    const before = conditionSince('False', NOW - 10 * MINUTE)
    expect(decideCoverage(before, leftOutSince(NOW - 5 * MINUTE), NOW)).toEqual({
      condition: expect.objectContaining({ status: 'True', reason: 'AllShown' }),
    })
  })

  test('names the quota or policy for five minutes after it rejected one, and not the number', () => {
    const reasonOf = (at: number, rejectedAt?: number) =>
      decideCoverage(undefined, leftOutSince(at, rejectedAt), NOW).condition?.reason
    expect(reasonOf(NOW, NOW)).toBe('CannotStoreDelivery')
    expect(reasonOf(NOW, NOW - 4 * MINUTE)).toBe('CannotStoreDelivery')
    expect(reasonOf(NOW, NOW - 5 * MINUTE)).toBe('TooManyDeliveries')
    expect(reasonOf(NOW)).toBe('TooManyDeliveries')
  })

  test('changes at most once in five minutes, whatever happens', () => {
    const step = fc.record({ minutes: fc.integer({ min: 0, max: 4 }), leavesOut: fc.boolean() })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const changes = changesIn(steps)
        const gaps = changes.slice(1).map((at, index) => at - (changes[index] ?? 0))
        expect(gaps.every((gap) => gap >= 5 * MINUTE)).toBe(true)
      }),
    )
  })
})
