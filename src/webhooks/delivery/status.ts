/**
 * The life of a delivery (interface §3.2).
 *
 *   pending --attempt fails--> retrying --attempt fails, fewer than 8 made--> retrying
 *   pending, retrying --attempt answered with 2xx--> succeeded
 *   retrying --eighth attempt fails--> exhausted
 *   pending, retrying --its endpoint is deleted, or it was held too long, ...--> canceled
 */
import type { CancelReason, DeliveryState, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import type { AttemptResult } from './attempt-result.ts'
import { MAX_ATTEMPTS, nextAttemptAt, type SchedulePolicy, SET_ASIDE_MS } from './retry-schedule.ts'

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
