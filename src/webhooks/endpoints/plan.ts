import { type Request, readRequest } from '../../apis/annotations.ts'
import { createdAtOf } from '../../apis/ids.ts'
import {
  DISABLE_ANNOTATION,
  ENABLE_ANNOTATION,
  type EndpointState,
  type LastHandled,
  type WebhookEndpoint,
  type WebhookEndpointSpec,
  type WebhookEndpointStatus,
} from '../../apis/webhook-endpoint.ts'
import { type ConditionUpdate, mergeConditions } from '../../kube/status.ts'
import { fingerprintOf, keysInStatus, type SigningKey } from '../sender/signature.ts'

/**
 * Whether an endpoint is enabled (interface §3.1). Three voices: the spec, the owner's requests by annotation,
 * and Davit's automatic disabling, which never writes the spec.
 *
 *   enabled  --spec.state disabled, or a disable request--> disabled (Requested)
 *   disabled (Requested) --spec.state enabled, or an enable request--> enabled
 *   enabled  --five exhausted deliveries over 24 hours--> disabled (ConsecutiveFailures)
 *   disabled (ConsecutiveFailures) --an enable request, or spec.state disabled and then enabled--> enabled, new streak
 */

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

/** What the conditions of an endpoint say. `Ready` follows from the problems found; it is never set by hand. */

/** A reason why the endpoint cannot be in force until somebody acts. */
export type Problem = {
  reason:
    | 'NotAnOrganization'
    | 'UrlNotAllowed'
    | 'SigningKeysDamaged'
    | 'SigningSecretRefused'
    | 'UnknownEventTypes'
  message: string
}

export type EndpointFacts = {
  decision: StateDecision
  /** The signing keys are made. */
  keysReady: boolean
  /** The gravest first. */
  problems: readonly Problem[]
  consecutiveFailures: number
  failingSince?: string | undefined
  /** How telling the owners of automatic disabling went; absent where there was nothing to tell. */
  notified?: ConditionUpdate | undefined
}

export function endpointFindings(facts: EndpointFacts): ConditionUpdate[] {
  const stalled = stalledBy(facts)
  const findings: ConditionUpdate[] = [
    ready(facts, stalled),
    reconciling(facts, stalled),
    stalledFinding(stalled),
    delivering(facts),
  ]
  if (facts.notified) findings.push(facts.notified)
  return findings
}

type Stall = { reason: string; message: string }

function stalledBy(facts: EndpointFacts): Stall | undefined {
  const problem = facts.problems[0]
  if (problem) return problem
  if (facts.decision.disabledReason !== 'ConsecutiveFailures') return undefined
  return {
    reason: 'ConsecutiveFailures',
    message:
      `Disabled automatically: ${facts.consecutiveFailures} deliveries in a row used up their attempts, the first at ` +
      `${facts.failingSince ?? 'an unknown time'}. Mend the receiver, then set the annotation davit.dev/enable-requested-at to the time now.`,
  }
}

function ready({ decision, keysReady }: EndpointFacts, stalled: Stall | undefined): ConditionUpdate {
  if (stalled) return { type: 'Ready', status: 'False', ...stalled }
  if (!keysReady)
    return {
      type: 'Ready',
      status: 'False',
      reason: 'MakingSigningKey',
      message: 'The signing key is being made.',
    }
  if (decision.state === 'disabled') {
    return {
      type: 'Ready',
      status: 'True',
      reason: 'Paused',
      message: 'Disabled as asked; nothing is sent until it is enabled.',
    }
  }
  return {
    type: 'Ready',
    status: 'True',
    reason: 'Accepted',
    message: 'Subscribed; deliveries are signed and sent.',
  }
}

function reconciling({ keysReady }: EndpointFacts, stalled: Stall | undefined): ConditionUpdate {
  if (!keysReady && !stalled) {
    return {
      type: 'Reconciling',
      status: 'True',
      reason: 'MakingSigningKey',
      message: 'The signing key is being made.',
    }
  }
  return {
    type: 'Reconciling',
    status: 'False',
    reason: 'UpToDate',
    message: 'The status speaks of the current spec.',
  }
}

function stalledFinding(stalled: Stall | undefined): ConditionUpdate {
  if (stalled) return { type: 'Stalled', status: 'True', ...stalled }
  return {
    type: 'Stalled',
    status: 'False',
    reason: 'NothingToMend',
    message: 'Nothing waits for somebody to act.',
  }
}

function delivering({ decision, consecutiveFailures, failingSince }: EndpointFacts): ConditionUpdate {
  const type = 'Delivering'
  if (decision.state === 'disabled') {
    return { type, status: 'False', reason: 'Disabled', message: 'The endpoint is disabled.' }
  }
  if (consecutiveFailures > 0) {
    const message = `${consecutiveFailures} deliveries in a row used up their attempts since ${failingSince ?? 'an unknown time'}.`
    return { type, status: 'False', reason: 'Failing', message }
  }
  return {
    type,
    status: 'True',
    reason: 'Healthy',
    message: 'No delivery has used up its attempts since the last success.',
  }
}

/** The status of an endpoint after a look at it: everything that is shown, from what was before and what was found. */

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

/**
 * A PATCH over REST as a merge patch of the endpoint: only the fields that were given, so that concurrent ones do not
 * lose each other's. Where the spec is managed elsewhere, pausing and resuming become requests by annotation, and
 * nothing else can be changed (settled, "REST shapes").
 */

type SpecChange = {
  url?: string | undefined
  eventTypes?: readonly string[] | undefined
  description?: string | null | undefined
  ordered?: boolean | undefined
  deliveryLog?: WebhookEndpointSpec['deliveryLog'] | undefined
  concurrency?: number | undefined
}
export type WantedChange = SpecChange & { status?: EndpointState | undefined }

/** A request by annotation that goes with the patch. `at`: milliseconds since 1970. */
export type StateRequest = { state: EndpointState; at: number }

export type ChangePlan =
  /** `fields` would have to be changed, and are somebody else's. */
  | { kind: 'managed'; fields: string[] }
  | { kind: 'patch'; spec?: object; annotations?: Record<string, string>; request?: StateRequest }

/** @param managed whether the spec is managed elsewhere @param now milliseconds since 1970 */
export function planChange(
  endpoint: WebhookEndpoint,
  wanted: WantedChange,
  managed: boolean,
  now: number,
): ChangePlan {
  const { status, ...fields } = wanted
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  const request = status && { state: status, at: requestTime(endpoint, now) }
  const asked = request ? { request, annotations: annotationsOf(request) } : {}
  if (managed) {
    const changed = given.filter(([name, value]) => isChange(endpoint, name, value)).map(([name]) => name)
    return changed.length > 0 ? { kind: 'managed', fields: changed } : { kind: 'patch', ...asked }
  }
  const spec = { ...Object.fromEntries(given), ...(status ? { state: status } : {}) }
  return { kind: 'patch', ...(Object.keys(spec).length > 0 ? { spec } : {}), ...asked }
}

/** Whether the controller has looked at the spec, and at the request. @param generation of the patched object */
export function isAcknowledged(
  { status }: Pick<WebhookEndpoint, 'status'>,
  generation: number,
  request: StateRequest | undefined,
): boolean {
  if (!status || status.observedGeneration < generation) return false
  if (!request) return true
  const { enable, disable } = status.lastHandled ?? {}
  const handled = request.state === 'enabled' ? enable : disable
  // A later request may have taken its place before anybody looked.
  return Date.parse(handled ?? '') >= request.at
}

/** By which the controller is asked for a state. */
export function annotationsOf({ state, at }: StateRequest): Record<string, string> {
  const annotation = state === 'enabled' ? ENABLE_ANNOTATION : DISABLE_ANNOTATION
  return { [annotation]: new Date(at).toISOString() }
}

const MAX_AHEAD_MS = 3_600_000

/**
 * A time that makes the request a new one: behind those that were made before, of which a later one would win, and
 * not older than the object, whatever the clocks of the processes say.
 */
export function requestTime({ metadata }: WebhookEndpoint, now: number): number {
  const { annotations = {}, creationTimestamp = '' } = metadata
  const before = [ENABLE_ANNOTATION, DISABLE_ANNOTATION].map((name) => Date.parse(annotations[name] ?? ''))
  const sensible = before.filter((at) => at <= now + MAX_AHEAD_MS)
  return Math.max(now, Date.parse(creationTimestamp) || 0, ...sensible.map((at) => at + 1))
}

function isChange({ spec }: WebhookEndpoint, name: string, value: unknown): boolean {
  const held = (spec as Readonly<Record<string, unknown>>)[name] ?? null
  return JSON.stringify(held) !== JSON.stringify(value)
}
