import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { encodeLogRecord, outcomeSegmentSpec } from '../../apis/outcome-segment.ts'
import { webhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { type Outcome, toAttemptResult } from './plan.ts'

const AT = '2026-01-31T12:00:00.123Z'
const STARTED = Date.parse(AT)

test('exactly the answers with 200 to 299 succeed', () => {
  const succeeded: number[] = []
  for (let code = 100; code <= 999; code += 1) {
    const outcome: Outcome = { kind: 'response', code, latencyMs: 1, response: '' }
    if (toAttemptResult(outcome, STARTED).succeeded) succeeded.push(code)
  }
  expect(succeeded).toEqual(Array.from({ length: 100 }, (_, i) => 200 + i))
})

test.each([
  { code: 299, error: undefined },
  { code: 300, error: 'HTTP 300: redirects are not followed' },
  { code: 399, error: 'HTTP 399: redirects are not followed' },
  { code: 400, error: 'HTTP 400' },
])('$code is told as $error', ({ code, error }) => {
  expect(toAttemptResult({ kind: 'response', code, latencyMs: 1, response: '' }, STARTED).attempt.error).toBe(
    error,
  )
})

test.each([
  {
    code: 301,
    location: 'https://hooks.example.com/',
    error: 'HTTP 301: redirects are not followed (Location: https://hooks.example.com/)',
  },
  { code: 308, location: '/x/', error: 'HTTP 308: redirects are not followed (Location: /x/)' },
  { code: 302, location: '/a\u0000b', error: 'HTTP 302: redirects are not followed (Location: /a b)' },
  { code: 404, location: '/x/', error: 'HTTP 404' },
])('a redirect to $location with $code is told as $error', ({ code, location, error }) => {
  const outcome: Outcome = { kind: 'response', code, latencyMs: 1, response: '', location }
  expect(toAttemptResult(outcome, STARTED).attempt.error).toBe(error)
})

test.each([
  {
    given: { kind: 'response', code: 204, latencyMs: 41.4, response: '' },
    want: { succeeded: true, attempt: { at: AT, code: 204, latencyMs: 41 } },
  },
  {
    given: { kind: 'response', code: 200, latencyMs: 0, response: 'ok' },
    want: { succeeded: true, attempt: { at: AT, code: 200, latencyMs: 0, response: 'ok' } },
  },
  {
    given: { kind: 'response', code: 503, latencyMs: 7, response: 'later' },
    want: {
      succeeded: false,
      attempt: { at: AT, code: 503, latencyMs: 7, error: 'HTTP 503', response: 'later' },
    },
  },
  {
    given: { kind: 'response', code: 307, latencyMs: 7, response: '' },
    want: {
      succeeded: false,
      attempt: { at: AT, code: 307, latencyMs: 7, error: 'HTTP 307: redirects are not followed' },
    },
  },
  {
    given: { kind: 'response', code: 410, latencyMs: 7, response: '' },
    want: { succeeded: false, attempt: { at: AT, code: 410, latencyMs: 7, error: 'HTTP 410' } },
  },
  {
    given: { kind: 'failure', error: 'no response within 20 s', latencyMs: 20_000.6 },
    want: { succeeded: false, attempt: { at: AT, latencyMs: 20_001, error: 'no response within 20 s' } },
  },
  {
    given: { kind: 'failure', error: 'connection reset', latencyMs: 12, code: 200 },
    want: {
      succeeded: false,
      attempt: { at: AT, latencyMs: 12, code: 200, error: 'connection reset' },
    },
  },
] satisfies { given: Outcome; want: unknown }[])('$given means $want', ({ given, want }) => {
  expect(toAttemptResult(given, STARTED)).toStrictEqual(want)
})

test('a latency that a clock got wrong is never below zero', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, min: -1e6, max: 1e6 }), (latencyMs) => {
      const { attempt } = toAttemptResult({ kind: 'failure', error: 'refused', latencyMs }, STARTED)
      expect(attempt.latencyMs).toBeGreaterThanOrEqual(0)
      expect(Number.isInteger(attempt.latencyMs)).toBe(true)
    }),
  )
})

/** Any text, half characters and control characters included. */
const anyText = (maxLength: number) =>
  fc.array(fc.nat(0xffff), { maxLength }).map((units) => String.fromCharCode(...units))

test('whatever a receiver answers, the attempt fits into the status of its delivery and into a record of the log', () => {
  const hostile = fc.oneof(
    anyText(600),
    fc.constantFrom('\u0000', '\u001b', '"', '\\', '\ud800', '😀').map((text) => text.repeat(600)),
  )
  const outcome: fc.Arbitrary<Outcome> = fc.oneof(
    fc.record({
      kind: fc.constant('response' as const),
      code: fc.integer({ min: 100, max: 999 }),
      latencyMs: fc.integer({ min: 0, max: 20_000 }),
      response: hostile,
      location: hostile,
    }),
    fc.record({ kind: fc.constant('failure' as const), error: hostile, latencyMs: fc.constant(1) }),
  )
  fc.assert(
    fc.property(outcome, (given) => {
      const { attempt } = toAttemptResult(given, STARTED)
      expect(webhookDeliveryStatus.safeParse({ attempts: [attempt] }).success).toBe(true)
      const position = { version: 999_999_999_999_999, index: 4095 }
      const record = encodeLogRecord({ kind: 'failed', position, attempt, nextAttemptAt: STARTED })
      const spec = { writtenAt: 0, writer: 'davit-0', lowWater: '1', records: record }
      expect(outcomeSegmentSpec.safeParse(spec).success).toBe(true)
      expect(`${attempt.error} ${attempt.response}`.isWellFormed()).toBe(true)
    }),
  )
})
