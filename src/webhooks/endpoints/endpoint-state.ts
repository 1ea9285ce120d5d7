/**
 * Whether an endpoint is enabled (interface §3.1). Three voices: the spec, the owner's requests by annotation,
 * and Davit's automatic disabling, which never writes the spec.
 *
 *   enabled  --spec.state disabled, or a disable request--> disabled (Requested)
 *   disabled (Requested) --spec.state enabled, or an enable request--> enabled
 *   enabled  --five exhausted deliveries over 24 hours--> disabled (ConsecutiveFailures)
 *   disabled (ConsecutiveFailures) --an enable request, or spec.state disabled and then enabled--> enabled, new streak
 */

import { type Request, readRequest } from '../../apis/annotations.ts'
import {
  DISABLE_ANNOTATION,
  ENABLE_ANNOTATION,
  type EndpointState,
  type WebhookEndpoint,
} from '../../apis/webhook-endpoint.ts'

export type StateDecision = {
  state: EndpointState
  disabledReason?: 'ConsecutiveFailures' | 'Requested'
  override?: { state: EndpointState; generation: number }
  /** Enabled again after automatic disabling: the streak starts anew. */
  newStreak: boolean
  handled: { enable?: string; disable?: string }
  problems: string[]
}

export function decideState(endpoint: WebhookEndpoint): StateDecision {
  const status = endpoint.status
  const createdAt = Date.parse(endpoint.metadata.creationTimestamp ?? '1970-01-01T00:00:00Z')
  const annotations = endpoint.metadata.annotations ?? {}
  const enable = readRequest(annotations[ENABLE_ANNOTATION], status?.lastHandled?.enable, createdAt)
  const disable = readRequest(annotations[DISABLE_ANNOTATION], status?.lastHandled?.disable, createdAt)
  const asked = latest(enable, disable)
  const override = overrideOf(endpoint, asked)
  const wanted = override?.state ?? endpoint.spec.state
  const autoDisabled = status?.state === 'disabled' && status.disabledReason === 'ConsecutiveFailures'
  const base = {
    ...(override ? { override } : {}),
    handled: handledOf(enable, disable),
    problems: problemsOf(enable, disable),
  }
  if (wanted === 'disabled')
    return { ...base, state: 'disabled', disabledReason: 'Requested', newStreak: false }
  if (autoDisabled && asked !== 'enabled') {
    return { ...base, state: 'disabled', disabledReason: 'ConsecutiveFailures', newStreak: false }
  }
  return { ...base, state: 'enabled', newStreak: autoDisabled || wasAutoDisabledBefore(endpoint) }
}

/** Disabled by the owner after Davit had disabled it: enabling starts a new streak as well. */
function wasAutoDisabledBefore(endpoint: WebhookEndpoint): boolean {
  const status = endpoint.status
  return status?.state === 'disabled' && status.announcedAt !== undefined
}

/** What the newest unanswered request asks for; of two at the same time, the safe one. */
function latest(enable: Request, disable: Request): EndpointState | undefined {
  if (enable.kind === 'new' && disable.kind === 'new') return enable.at > disable.at ? 'enabled' : 'disabled'
  if (enable.kind === 'new') return 'enabled'
  if (disable.kind === 'new') return 'disabled'
  return undefined
}

/** A request holds while the spec stays as it was when the request was made. */
function overrideOf(endpoint: WebhookEndpoint, asked: EndpointState | undefined) {
  const generation = endpoint.metadata.generation ?? 0
  if (asked !== undefined) return asked === endpoint.spec.state ? undefined : { state: asked, generation }
  const held = endpoint.status?.override
  return held?.generation === generation ? held : undefined
}

function handledOf(enable: Request, disable: Request): { enable?: string; disable?: string } {
  return {
    ...(enable.kind === 'none' ? {} : { enable: enable.value }),
    ...(disable.kind === 'none' ? {} : { disable: disable.value }),
  }
}

function problemsOf(enable: Request, disable: Request): string[] {
  const problems: string[] = []
  if (enable.kind === 'invalid') problems.push(`${ENABLE_ANNOTATION}: ${enable.message}`)
  if (disable.kind === 'invalid') problems.push(`${DISABLE_ANNOTATION}: ${disable.message}`)
  return problems
}
