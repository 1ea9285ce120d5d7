import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { type EndpointFacts, endpointConditions, type Problem, type StateDecision } from './plan.ts'

const ENABLED: StateDecision = { state: 'enabled', newStreak: false, handled: {}, problems: [] }
const PAUSED: StateDecision = { ...ENABLED, state: 'disabled', disabledReason: 'Requested' }
const AUTO: StateDecision = { ...ENABLED, state: 'disabled', disabledReason: 'ConsecutiveFailures' }
const HEALTHY: EndpointFacts = { decision: ENABLED, keysReady: true, problems: [], consecutiveFailures: 0 }
const URL_REFUSED: Problem = { reason: 'UrlNotAllowed', message: 'spec.url: 10.0.0.1 is a private address' }
const UNKNOWN: Problem = { reason: 'UnknownEventTypes', message: 'spec.eventTypes: no EventType named a.b' }
const FAILING = { consecutiveFailures: 3, failingSince: '2026-01-31T12:00:00.000Z' }

/** Status and reason by type. */
function told(facts: EndpointFacts): Record<string, string> {
  return Object.fromEntries(
    endpointConditions(facts).map(({ type, status, reason }) => [type, `${status} ${reason}`]),
  )
}

test.each([
  {
    name: 'a healthy endpoint',
    given: HEALTHY,
    want: {
      Ready: 'True Accepted',
      Reconciling: 'False UpToDate',
      Stalled: 'False NothingToMend',
      Delivering: 'True Healthy',
    },
  },
  {
    name: 'one whose key is being made',
    given: { ...HEALTHY, keysReady: false },
    want: {
      Ready: 'False MakingSigningKey',
      Reconciling: 'True MakingSigningKey',
      Stalled: 'False NothingToMend',
    },
  },
  {
    name: 'one that fails',
    given: { ...HEALTHY, ...FAILING },
    want: { Ready: 'True Accepted', Stalled: 'False NothingToMend', Delivering: 'False Failing' },
  },
  {
    name: 'one that its owner paused',
    given: { ...HEALTHY, decision: PAUSED },
    want: { Ready: 'True Paused', Stalled: 'False NothingToMend', Delivering: 'False Disabled' },
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
    want: { Ready: 'False UrlNotAllowed', Stalled: 'True UrlNotAllowed', Reconciling: 'False UpToDate' },
  },
  {
    name: 'one with a problem before its key is made',
    given: { ...HEALTHY, keysReady: false, problems: [URL_REFUSED] },
    want: { Ready: 'False UrlNotAllowed', Reconciling: 'False UpToDate', Stalled: 'True UrlNotAllowed' },
  },
] satisfies { name: string; given: EndpointFacts; want: object }[])('$name: $want', ({ given, want }) => {
  expect(told(given)).toMatchObject(want)
})

describe('any endpoint', () => {
  const facts: fc.Arbitrary<EndpointFacts> = fc.record({
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
        expect(findings.map(({ type }) => type)).toEqual(['Ready', 'Reconciling', 'Stalled', 'Delivering'])
        const [ready, reconciling, stalled, delivering] = findings.map(({ status }) => status === 'True')
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
