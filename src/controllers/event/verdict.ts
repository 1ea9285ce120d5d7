/** What was decided of a WebhookEvent, and the status that says so. */

import type { EventOutline } from '../../api/event-outline.ts'
import type { WebhookEventStatus } from '../../api/webhook-event.ts'
import { conditionsAfter, type Finding } from '../../domain/conditions.ts'
import type { Refusal } from '../../domain/event-check.ts'
import { eventIdOf } from './event-book.ts'

/** `deliveries` is the number of endpoints that get it. */
export type Verdict = { kind: 'accepted'; deliveries: number } | { kind: 'refused'; refusal: Refusal }

/** @param at `now` in milliseconds since 1970; `isOver` says that all of its deliveries have ended */
export function statusOf(
  event: EventOutline,
  verdict: Verdict,
  { now, isOver }: { now: number; isOver: boolean },
): Partial<WebhookEventStatus> {
  const generation = event.metadata.generation ?? 1
  const common = (findings: Finding[]) => ({
    observedGeneration: generation,
    conditions: conditionsAfter([], findings, { now, generation }),
  })
  const finishedAt = new Date(now).toISOString()
  if (verdict.kind === 'refused') {
    const { reason, message } = verdict.refusal
    const findings: Finding[] = [
      { type: 'Ready', status: 'False', reason, message },
      { type: 'Stalled', status: 'True', reason, message },
    ]
    return { state: 'refused', finishedAt, ...common(findings) }
  }
  const { deliveries } = verdict
  const none = deliveries === 0
  const message = none
    ? 'No enabled endpoint subscribes to its type.'
    : `It goes to ${deliveries} endpoint(s).`
  const reason = none ? 'NobodySubscribed' : 'Accepted'
  return {
    state: none || isOver ? 'dispatched' : 'accepted',
    eventId: eventIdOf(event),
    deliveries,
    ...(none || isOver ? { finishedAt } : {}),
    ...common([{ type: 'Ready', status: 'True', reason, message }]),
  }
}
