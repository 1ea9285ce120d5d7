/** The status of an endpoint after a look at it: everything that is shown, from what was before and what was found. */

import { createdAtOf } from '../../apis/created-at.ts'
import type { LastHandled, WebhookEndpoint, WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'
import { mergeConditions } from '../../kube/conditions.ts'
import { fingerprintOf } from '../sender/domain-signature.ts'
import { keysInStatus, type SigningKey } from '../sender/signature.ts'
import type { StateDecision } from './endpoint-state.ts'
import { endpointFindings, type Problem } from './plan.ts'

export type ObservedEndpoint = {
  endpoint: WebhookEndpoint
  decision: StateDecision
  /** Absent until they are made. */
  keys?: { keys: readonly SigningKey[] } | undefined
}

export type EndpointObservations = {
  problems: readonly Problem[]
  /** Requests by annotation that are answered now. */
  handled: LastHandled
  /** The `disabledAt` that the other endpoints were told of. */
  announced: string | undefined
  /** A signing key was made on request. */
  rolled: boolean
}

/** @param now milliseconds since 1970 */
export function endpointStatus(
  observed: ObservedEndpoint,
  now: number,
  found: EndpointObservations,
): WebhookEndpointStatus {
  const { endpoint, decision, keys } = observed
  const before: Partial<WebhookEndpointStatus> = endpoint.status ?? {}
  const generation = endpoint.metadata.generation ?? 0
  const streak = streakAfter(before, decision)
  const findings = endpointFindings({
    decision,
    keysReady: keys !== undefined,
    problems: found.problems,
    ...streak,
    notified:
      decision.disabledReason === 'ConsecutiveFailures'
        ? before.conditions?.find(({ type }) => type === 'OwnersNotified')
        : undefined,
  })
  return defined({
    state: decision.state,
    ...disabledFields(before, decision, now, found.announced),
    ...streak,
    lastCounted: before.lastCounted,
    signingSecrets: keys && keysInStatus(keys.keys, now),
    lastHandled: Object.keys(found.handled).length > 0 ? found.handled : undefined,
    override: decision.override,
    updatedAt: updatedAt(observed, { rolled: found.rolled || hasOtherKey(before, keys?.keys) }, now),
    observedGeneration: generation,
    conditions: mergeConditions(before.conditions, findings, { now, generation }),
  })
}

/** Enabling after automatic disabling starts a new streak (settled, "Events and deliveries"). */
function streakAfter(before: Partial<WebhookEndpointStatus>, decision: StateDecision) {
  if (decision.newStreak) return { consecutiveFailures: 0, failingSince: undefined }
  return { consecutiveFailures: before.consecutiveFailures ?? 0, failingSince: before.failingSince }
}

function disabledFields(
  before: Partial<WebhookEndpointStatus>,
  decision: StateDecision,
  now: number,
  announced: string | undefined,
): Partial<Record<'disabledReason' | 'disabledAt' | 'announcedAt', string | undefined>> {
  if (decision.state === 'enabled') return {}
  const disabledAt = before.disabledAt ?? new Date(now).toISOString()
  return { disabledReason: decision.disabledReason ?? 'Requested', disabledAt, announcedAt: announced }
}

/**
 * Moves when something that the owner can see changes: spec, state, keys; not with a counter (settled, "REST
 * shapes"). An endpoint that was never changed was updated when it was made.
 */
function updatedAt(
  { endpoint, decision }: ObservedEndpoint,
  { rolled }: { rolled: boolean },
  now: number,
): string {
  const { metadata, spec, status: before } = endpoint
  const { generation = 0 } = metadata
  if (before?.updatedAt === undefined) {
    const isAsMade = generation === 1 && decision.state === spec.state
    return isAsMade ? createdAtOf(metadata) : new Date(now).toISOString()
  }
  const same =
    before.state === decision.state &&
    before.disabledReason === decision.disabledReason &&
    before.observedGeneration === generation &&
    !rolled
  return same ? before.updatedAt : new Date(now).toISOString()
}

/** The newest key is another one than was shown, whoever rolled it. */
function hasOtherKey(
  before: Partial<WebhookEndpointStatus>,
  keys: readonly SigningKey[] | undefined,
): boolean {
  const [shown] = before.signingSecrets ?? []
  const [newest] = keys ?? []
  return shown !== undefined && newest !== undefined && shown.fingerprint !== fingerprintOf(newest.secret)
}

/** Without the fields that are undefined, which a status does not have. */
function defined(fields: Record<string, unknown>): WebhookEndpointStatus {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as WebhookEndpointStatus
}
