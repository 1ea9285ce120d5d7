import type {
  CancelReason,
  DeliveryAttempt,
  DeliveryState,
  WebhookDeliveryStatus,
} from '../../apis/webhook-delivery.ts'
import type { FinishedState } from '../../lib/metrics.ts'
import { sanitizeText } from '../../lib/text.ts'
import { attemptsOf, type LogState } from '../log/fold.ts'
import { MAX_ATTEMPTS, nextAttemptAt, type SchedulePolicy, SET_ASIDE_MS } from './retry-schedule.ts'

/**
 * Decides what an attempt was and what follows from it: the status of a delivery, as attempts and records of the log determine it
 * (interface §3.2, §6.3).
 *
 *   pending --attempt fails--> retrying --attempt fails, fewer than 8 made--> retrying
 *   pending, retrying --attempt answered with 2xx--> succeeded
 *   retrying --eighth attempt fails--> exhausted
 *   pending, retrying --its endpoint is deleted, or it was held too long, ...--> canceled
 */

export type Outcome =
  | { kind: 'response'; code: number; latencyMs: number; response: string; location?: string }
  | { kind: 'failure'; error: string; latencyMs: number; code?: number }

const MAX_TEXT = 256

export type AttemptResult = { succeeded: boolean; attempt: DeliveryAttempt }

/** 2xx within the deadline is success, all else is failure. @param startedAt milliseconds since 1970 */
export function toAttemptResult(outcome: Outcome, startedAt: number): AttemptResult {
  const at = new Date(startedAt).toISOString()
  const latencyMs = Math.max(0, Math.round(outcome.latencyMs))
  if (outcome.kind === 'failure') {
    const code = outcome.code === undefined ? {} : { code: outcome.code }
    const error = sanitizeText(outcome.error, MAX_TEXT)
    return { succeeded: false, attempt: { at, latencyMs, ...code, error } }
  }
  const succeeded = outcome.code >= 200 && outcome.code <= 299
  const response = outcome.response === '' ? {} : { response: sanitizeText(outcome.response, MAX_TEXT) }
  const error = succeeded ? {} : { error: sanitizeText(describeStatus(outcome), MAX_TEXT) }
  return { succeeded, attempt: { at, code: outcome.code, latencyMs, ...error, ...response } }
}

function describeStatus({ code, location }: Extract<Outcome, { kind: 'response' }>): string {
  if (code < 300 || code > 399) return `HTTP ${code}`
  const where = location === undefined ? '' : ` (Location: ${location})`
  return `HTTP ${code}: redirects are not followed${where}`
}

export function isFinal(state: DeliveryState | undefined): state is FinishedState {
  return state === 'succeeded' || state === 'exhausted' || state === 'canceled'
}

/**
 * The status after an attempt. Applying the same attempt again (a response of the store was lost) changes nothing.
 * @param endedAt milliseconds since 1970 @param fraction uniform in [0, 1)
 */
export function afterAttempt(
  before: WebhookDeliveryStatus,
  result: AttemptResult,
  when: { endedAt: number; policy: SchedulePolicy; fraction: number },
): WebhookDeliveryStatus {
  // The delivery may have been canceled during the attempt.
  if (isFinal(before.state)) return before
  if (before.attempts?.some(({ at }) => at === result.attempt.at)) return before
  const attempts = [...(before.attempts ?? []), result.attempt].slice(-MAX_ATTEMPTS)
  const attemptCount = Math.min(MAX_ATTEMPTS, (before.attemptCount ?? 0) + 1)
  const completedAt = new Date(when.endedAt).toISOString()
  if (result.succeeded) return { state: 'succeeded', attemptCount, attempts, completedAt }
  const times = { startedAt: Date.parse(result.attempt.at), endedAt: when.endedAt }
  const next = nextAttemptAt(attemptCount, times, when.policy, when.fraction)
  if (next === undefined) return { state: 'exhausted', attemptCount, attempts, completedAt }
  return { state: 'retrying', attemptCount, attempts, nextAttemptAt: new Date(next).toISOString() }
}

/** The error of an attempt that ended its controller. */
const ENDED_CONTROLLER = 'the Davit controller stopped during this attempt'

/**
 * The status of a delivery whose attempt crashed its owner, as no other attempt can have: it failed, and is retried later.
 * @param begun when it started, and how many were made before @param scale factor on the wait @param now milliseconds since 1970
 */
export function setAsideStatus(
  before: WebhookDeliveryStatus,
  begun: { at: number; attempts: number },
  { now, scale }: { now: number; scale: number },
): WebhookDeliveryStatus {
  // Its outcome is known, or it is counted already.
  if ((before.attemptCount ?? 0) > begun.attempts) return before
  const attempt = { at: new Date(begun.at).toISOString(), latencyMs: 0, error: ENDED_CONTROLLER }
  const when = { endedAt: now, policy: { ordered: false, scale }, fraction: 0 }
  const status = afterAttempt(before, { succeeded: false, attempt }, when)
  if (status.state !== 'retrying') return status
  return { ...status, nextAttemptAt: new Date(now + SET_ASIDE_MS * scale).toISOString() }
}

/** Whether its last attempt ended a controller. */
export function hasEndedController(status: WebhookDeliveryStatus | undefined): boolean {
  return status?.attempts?.at(-1)?.error === ENDED_CONTROLLER
}

/** The status of a delivery that ends without another attempt; a final status stays. */
export function canceledStatus(
  before: WebhookDeliveryStatus,
  reason: CancelReason,
  now: number,
): WebhookDeliveryStatus {
  const { state, attemptCount = 0, attempts } = before
  if (isFinal(state)) return before
  const completedAt = new Date(now).toISOString()
  return { state: 'canceled', reason, attemptCount, ...(attempts && { attempts }), completedAt }
}

/** The status of a delivery that was counted as exhausted before a crash: its last attempt failed, it is not known how. */
export function exhaustedStatus({ attempts }: WebhookDeliveryStatus, now: number): WebhookDeliveryStatus {
  const completedAt = new Date(now).toISOString()
  return { state: 'exhausted', attemptCount: MAX_ATTEMPTS, ...(attempts && { attempts }), completedAt }
}

/** The status of a delivery whose state is in the log alone. */
export function statusFromLog(state: LogState): WebhookDeliveryStatus {
  const { end, nextAttemptAt } = state
  const attempts = attemptsOf(state).slice(-MAX_ATTEMPTS)
  const last = attempts.at(-1)
  if (!last) return {}
  const attemptCount = attempts.length
  if (end === 'none')
    return { state: 'retrying', attemptCount, attempts, nextAttemptAt: new Date(nextAttemptAt).toISOString() }
  const completedAt = new Date(Date.parse(last.at) + last.latencyMs).toISOString()
  return { state: end === 'sent' ? 'succeeded' : end, attemptCount, attempts, completedAt }
}
