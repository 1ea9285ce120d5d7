import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type {
  CancelReason,
  DeliveryAttempt,
  DeliveryState,
  WebhookDeliveryStatus,
} from '../../apis/webhook-delivery.ts'
import { sanitizeText } from '../../lib/text.ts'
import { MAX_ATTEMPTS, nextAttemptAt, type SchedulePolicy, SET_ASIDE_MS } from './retry-schedule.ts'

/** What an attempt means for its delivery (interface §6.3): 2xx within the deadline is success, all else is failure. */

/** What came back of one HTTP attempt; the shape of the sender's outcome. */
export type Outcome =
  | { kind: 'response'; code: number; latencyMs: number; response: string }
  | { kind: 'failure'; error: string; latencyMs: number; code?: number }

/** Characters of an error or a response that are kept. */
const MAX_TEXT = 256

export type AttemptResult = { succeeded: boolean; attempt: DeliveryAttempt }

/** @param startedAt milliseconds since 1970 */
export function toAttemptResult(outcome: Outcome, startedAt: number): AttemptResult {
  const at = new Date(startedAt).toISOString()
  const latencyMs = Math.max(0, Math.round(outcome.latencyMs))
  if (outcome.kind === 'failure') {
    const code = outcome.code === undefined ? {} : { code: outcome.code }
    return {
      succeeded: false,
      attempt: { at, latencyMs, ...code, error: sanitizeText(outcome.error, MAX_TEXT) },
    }
  }
  const succeeded = outcome.code >= 200 && outcome.code <= 299
  const response = outcome.response === '' ? {} : { response: sanitizeText(outcome.response, MAX_TEXT) }
  const error = succeeded ? {} : { error: describeStatus(outcome.code) }
  return { succeeded, attempt: { at, code: outcome.code, latencyMs, ...error, ...response } }
}

function describeStatus(code: number): string {
  if (code >= 300 && code <= 399) return `HTTP ${code}: redirects are not followed`
  return `HTTP ${code}`
}

/**
 * The life of a delivery (interface §3.2).
 *
 *   pending --attempt fails--> retrying --attempt fails, fewer than 8 made--> retrying
 *   pending, retrying --attempt answered with 2xx--> succeeded
 *   retrying --eighth attempt fails--> exhausted
 *   pending, retrying --its endpoint is deleted, or it was held too long, ...--> canceled
 */

export function isFinal(state: DeliveryState | undefined): boolean {
  return state === 'succeeded' || state === 'exhausted' || state === 'canceled'
}

/**
 * The status after an attempt; the same attempt a second time (an answer of the store was lost) changes nothing.
 * @param endedAt milliseconds since 1970 @param fraction uniform in [0, 1)
 */
export function afterAttempt(
  before: WebhookDeliveryStatus,
  result: AttemptResult,
  when: { endedAt: number; policy: SchedulePolicy; fraction: number },
): WebhookDeliveryStatus {
  // An attempt may still be under way while its delivery is canceled.
  if (isFinal(before.state)) return before
  if (before.attempts?.at(-1)?.at === result.attempt.at) return before
  const attempts = [...(before.attempts ?? []), result.attempt].slice(-8)
  const attemptCount = Math.min(8, (before.attemptCount ?? 0) + 1)
  const completedAt = new Date(when.endedAt).toISOString()
  if (result.succeeded) return { state: 'succeeded', attemptCount, attempts, completedAt }
  const times = { startedAt: Date.parse(result.attempt.at), endedAt: when.endedAt }
  const next = nextAttemptAt(attemptCount, times, when.policy, when.fraction)
  if (next === undefined) return { state: 'exhausted', attemptCount, attempts, completedAt }
  return { state: 'retrying', attemptCount, attempts, nextAttemptAt: new Date(next).toISOString() }
}

/**
 * The status of a delivery that was open when processes ended, again and again: it may be why, so it is attempted
 * apart from the others, and seldom.
 * @param scale factor on the wait @param now milliseconds since 1970
 */
export function setAsideStatus(now: number, scale: number): WebhookDeliveryStatus {
  const nextAttemptAt = new Date(now + SET_ASIDE_MS * scale).toISOString()
  return { state: 'retrying', attemptCount: 0, nextAttemptAt }
}

/** Whether it was set aside and has not been attempted since with an outcome that is known. */
export function isSetAside(status: WebhookDeliveryStatus | undefined): boolean {
  return status?.state === 'retrying' && (status.attemptCount ?? 0) === 0
}

/** The status of a delivery that ends without another attempt; a final one stays as it is. */
export function canceledStatus(
  before: WebhookDeliveryStatus,
  reason: CancelReason,
  now: number,
): WebhookDeliveryStatus {
  if (isFinal(before.state)) return before
  return {
    state: 'canceled',
    reason,
    attemptCount: before.attemptCount ?? 0,
    ...(before.attempts ? { attempts: before.attempts } : {}),
    completedAt: new Date(now).toISOString(),
  }
}

/**
 * The status of a delivery that was counted as exhausted before a crash kept its end from being written. What the
 * last attempt came to is not known any more; that it was made and failed is.
 */
export function exhaustedStatus(before: WebhookDeliveryStatus, now: number): WebhookDeliveryStatus {
  return {
    state: 'exhausted',
    attemptCount: MAX_ATTEMPTS,
    ...(before.attempts ? { attempts: before.attempts } : {}),
    completedAt: new Date(now).toISOString(),
  }
}

/** What records of the log say of a delivery. */

/** Its entry in the log is closed: the log says its end, or an object shows it. */
export function closesEntry(record: OutcomeRecord): boolean {
  return record.kind === 'moved' || record.kind === 'canceled' || (record.kind === 'sent' && !record.object)
}

/** It has come to its end, though an object of it may be owed. After the last attempt there is no next one. */
export function endsDelivery(record: OutcomeRecord): boolean {
  if (record.kind === 'failed') return record.nextAttemptAt === 0
  return record.kind === 'sent' || record.kind === 'canceled'
}

/** The status that the records of its attempts come to. */
export function statusFromRecords(records: readonly OutcomeRecord[]): WebhookDeliveryStatus {
  let status: WebhookDeliveryStatus = {}
  for (const record of records) {
    if (record.kind !== 'sent' && record.kind !== 'failed') continue
    const endedAt = Date.parse(record.attempt.at) + record.attempt.latencyMs
    const result = { succeeded: record.kind === 'sent', attempt: record.attempt }
    status = afterAttempt(status, result, { endedAt, policy: { ordered: false, scale: 1 }, fraction: 0 })
    if (record.kind === 'failed' && status.state === 'retrying') {
      status = { ...status, nextAttemptAt: new Date(record.nextAttemptAt).toISOString() }
    }
  }
  return status
}
