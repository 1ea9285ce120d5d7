/** What was decided of a WebhookEvent, and the status that says so. */

import type { EventOutline } from '../../apis/event-outline.ts'
import type { WebhookEventStatus } from '../../apis/webhook-event.ts'
import { type ConditionUpdate, mergeConditions } from '../../kube/conditions.ts'
import type { Refusal } from './event-check.ts'
import { eventIdOf } from './store.ts'

/** `deliveries` is the number of endpoints that get it. */
export type EventDecision = { kind: 'accepted'; deliveries: number } | { kind: 'refused'; refusal: Refusal }

/**
 * Verdicts that no status says yet. With so many, nothing more is decided: all of it would be judged anew after a restart. Below its
 * reserve an organization goes on whatever others have.
 */
const MAX_UNWRITTEN = { organization: 5000, all: 50_000, reserve: 500 }

/** @param own verdicts of the organization that no status says yet @param all those of all organizations */
export function mayDecideMore(own: number, all: number): boolean {
  if (own >= MAX_UNWRITTEN.organization) return false
  return all < MAX_UNWRITTEN.all || own < MAX_UNWRITTEN.reserve
}

/** @param at `now` in milliseconds since 1970; `isOver` says that all of its deliveries have ended */
export function eventStatus(
  event: EventOutline,
  verdict: EventDecision,
  { now, isOver }: { now: number; isOver: boolean },
): Partial<WebhookEventStatus> {
  const generation = event.metadata.generation ?? 1
  const common = (findings: ConditionUpdate[]) => ({
    observedGeneration: generation,
    conditions: mergeConditions([], findings, { now, generation }),
  })
  const finishedAt = new Date(now).toISOString()
  if (verdict.kind === 'refused') {
    const { reason, message } = verdict.refusal
    const findings: ConditionUpdate[] = [
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
