/** Counting exhausted deliveries and disabling automatically (interface §3.1). */
import type { WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'

/** Both must hold: so many exhausted deliveries in a row, over at least so long. */
export const DISABLE_AFTER_FAILURES = 5
export const DISABLE_AFTER_MS = 24 * 60 * 60 * 1000

export type Streak = Pick<WebhookEndpointStatus, 'consecutiveFailures' | 'failingSince' | 'lastCounted'>

export type HealthDecision =
  /** Counted before: a repeat after a crash. */
  { kind: 'counted' } | { kind: 'count'; consecutiveFailures: number; failingSince: string; disable: boolean }

/**
 * What an exhausted delivery does to the streak. Decided only here, never by a timer: a brief outage that
 * exhausts a few deliveries does not disable. @param now milliseconds since 1970
 */
export function decideExhausted(streak: Streak, deliveryId: string, now: number): HealthDecision {
  if (streak.lastCounted === deliveryId) return { kind: 'counted' }
  const consecutiveFailures = (streak.consecutiveFailures ?? 0) + 1
  const failingSince =
    consecutiveFailures > 1 && streak.failingSince ? streak.failingSince : new Date(now).toISOString()
  const disable =
    consecutiveFailures >= DISABLE_AFTER_FAILURES && now - Date.parse(failingSince) >= DISABLE_AFTER_MS
  return { kind: 'count', consecutiveFailures, failingSince, disable }
}
