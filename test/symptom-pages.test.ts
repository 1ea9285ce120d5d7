/** The pages by symptom, and the tables of annotations and of retries, have all that the code has. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { cancelReason } from '../src/apis/webhook-delivery.ts'
import { PROBLEMS } from '../src/server/http/problems.ts'
import { MAX_ATTEMPTS, nextAttemptAt } from '../src/webhooks/delivery/retry-schedule.ts'
import { DISABLE_AFTER_FAILURES, DISABLE_AFTER_MS } from '../src/webhooks/endpoints/health.ts'

function read(path: string): string {
  return readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
}

/** What the pattern finds in a file of the source, once each. */
function namesIn(path: string, pattern: RegExp): string[] {
  return [...new Set([...read(path).matchAll(pattern)].map(([, name = '']) => name))]
}

function missing(page: string, names: Iterable<string>): string[] {
  const text = read(page)
  return [...names].filter((name) => !text.includes(name))
}

test('the table of annotations and labels has every name', () => {
  const names = read('contract/names.txt').trim().split('\n')
  expect(names.length).toBeGreaterThan(25)
  expect(missing('docs/reference/annotations-and-labels.md', names)).toEqual([])
})

test('delivery problems have every error of an attempt, and every reason to cancel a delivery', () => {
  const page = 'docs/troubleshooting/deliveries.md'
  const errors = namesIn('src/webhooks/sender/send-failures.ts', /\berror: '([^']+)'/g)
  expect(errors.length).toBeGreaterThan(15)
  // An attempt that was canceled is made again, and is in no status.
  const shown = errors.filter((error) => error !== 'attempt was canceled')
  expect(missing(page, [...shown, ...cancelReason.options])).toEqual([])
})

test('endpoint problems have every reason for which an endpoint is not ready, and every Event of a request', () => {
  const plan = namesIn('src/webhooks/endpoints/plan.ts', /^ {4}\| '(\w+)'$/gm)
  expect(plan).toContain('UrlNotAllowed')
  const others = ['ConsecutiveFailures', 'CreatingSigningSecret', 'InvalidRequest', 'EndpointDisabled']
  expect(missing('docs/troubleshooting/endpoints.md', [...plan, ...others])).toEqual([])
})

test('publishing problems have every reason to reject or delay an event, and every code of the route', () => {
  const refusals = namesIn('src/webhooks/events/plan.ts', /^ {2}\| '(\w+)'$/gm)
  expect(refusals).toContain('SchemaMismatch')
  // What is over this limit has no endpoint to show it at.
  const limits = namesIn('src/webhooks/events/quota.ts', /reason: '(\w+)'/g).filter(
    (reason) => reason !== 'TooManyWrittenBytes',
  )
  expect(limits.sort()).toEqual(['TooManyPending', 'TooManyUnfinishedBytes'])
  const codes = [
    'bad_json',
    'bad_request',
    'body_too_large',
    'forbidden',
    'idempotency_conflict',
    'intake_full',
  ]
  const more = ['not_found', 'overloaded', 'rate_limited', 'unavailable', 'unsupported_media_type']
  for (const code of [...codes, ...more]) expect(PROBLEMS).toHaveProperty(code)
  const page = 'docs/troubleshooting/publishing.md'
  expect(missing(page, [...refusals, ...limits, ...codes, ...more])).toEqual([])
})

const MINUTE_MS = 60_000
const IN_WORDS = new Map([
  [0.5, '30 seconds'],
  [2, '2 minutes'],
  [10, '10 minutes'],
  [30, '30 minutes'],
  [60, '1 hour'],
  [120, '2 hours'],
  [300, '5 hours'],
])

test('the schedule of retries is that of the code', () => {
  const page = read('docs/reference/retries-and-retention.md')
  const policy = { ordered: false, scale: 1 }
  const waits = Array.from({ length: MAX_ATTEMPTS - 1 }, (_, index) => {
    const at = nextAttemptAt(index + 1, { startedAt: 0, endedAt: 0 }, policy, 0)
    return IN_WORDS.get((at ?? 0) / MINUTE_MS)
  })
  const rows = [...page.matchAll(/^\| (\d) \| ([^|]+) \|/gm)].map(([, attempt, wait]) => [attempt, wait])
  expect(rows).toEqual(waits.map((wait, index) => [String(index + 2), wait]))
  expect(nextAttemptAt(1, { startedAt: 0, endedAt: 0 }, { ...policy, ordered: true }, 0)).toBe(3 * MINUTE_MS)
  expect(page).toContain('an attempt every three minutes')
})

test('the rule of automatic disabling is that of the code', () => {
  const page = read('docs/reference/retries-and-retention.md')
  expect(page).toContain(`| Deliveries that were exhausted in a row | ${DISABLE_AFTER_FAILURES} |`)
  expect(page).toContain(`at least ${DISABLE_AFTER_MS / (60 * MINUTE_MS)} hours |`)
})
