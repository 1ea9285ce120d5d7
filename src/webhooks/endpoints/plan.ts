import { type Request, readRequest } from '../../apis/annotations.ts'
import { createdAtOf } from '../../apis/ids.ts'
import type { Condition, ObjectMeta } from '../../apis/meta.ts'
import {
  DISABLE_ANNOTATION,
  ENABLE_ANNOTATION,
  type EndpointState,
  type LastHandled,
  type WebhookEndpoint,
  type WebhookEndpointStatus,
} from '../../apis/webhook-endpoint.ts'
import { type ConditionUpdate, mergeConditions, whileTrue } from '../../kube/status.ts'
import { withPeriod } from '../../lib/text.ts'
import { keysInStatus, type SigningKey } from '../sender/key-rotation.ts'
import { fingerprintOf } from '../sender/signature.ts'

/**
 * The decisions about an endpoint: whether it is enabled, what its conditions and status say, and how a PATCH over REST
 * becomes a merge patch of the object.
 */

/**
 * Whether an endpoint is enabled (interface §3.1) depends on its spec, the owner's requests by annotation, and automatic
 * disabling, which never writes the spec.
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
  /** Enabled again after automatic disabling: the streak of failures starts over. */
  newStreak: boolean
  handled: { enable?: string; disable?: string }
  problems: string[]
}

export function decideState(endpoint: WebhookEndpoint): StateDecision {
  const { status } = endpoint
  const enable = requestOf(endpoint, ENABLE_ANNOTATION, 'enable')
  const disable = requestOf(endpoint, DISABLE_ANNOTATION, 'disable')
  const asked = latest(enable, disable)
  const override = overrideOf(endpoint, asked)
  const wanted = override?.state ?? endpoint.spec.state
  const autoDisabled = status?.state === 'disabled' && status.disabledReason === 'ConsecutiveFailures'
  const base = {
    ...(override ? { override } : {}),
    handled: {
      ...(enable.kind === 'none' ? {} : { enable: enable.value }),
      ...(disable.kind === 'none' ? {} : { disable: disable.value }),
    },
    problems: [
      ...(enable.kind === 'invalid' ? [`${ENABLE_ANNOTATION}: ${enable.message}`] : []),
      ...(disable.kind === 'invalid' ? [`${DISABLE_ANNOTATION}: ${disable.message}`] : []),
    ],
  }
  if (wanted === 'disabled')
    return { ...base, state: 'disabled', disabledReason: 'Requested', newStreak: false }
  if (autoDisabled && asked !== 'enabled') {
    return { ...base, state: 'disabled', disabledReason: 'ConsecutiveFailures', newStreak: false }
  }
  // Also if the owner disabled it after Davit had done so.
  const wasAutoDisabled = status?.state === 'disabled' && status.announcedAt !== undefined
  return { ...base, state: 'enabled', newStreak: autoDisabled || wasAutoDisabled }
}

/** What an annotation of the owner requests. @param action under which the last request is in the status */
export function requestOf(
  { metadata, status }: WebhookEndpoint,
  annotation: string,
  action: keyof LastHandled,
): Request {
  return readRequest(metadata.annotations?.[annotation], status?.lastHandled?.[action], createdMs(metadata))
}

/** When the object was created, milliseconds since 1970; 0 if it does not say. */
export function createdMs({ creationTimestamp = '' }: Pick<ObjectMeta, 'creationTimestamp'>): number {
  return Date.parse(creationTimestamp) || 0
}

/** The newest request that is not handled yet; of two at the same time, the safe one. */
function latest(enable: Request, disable: Request): EndpointState | undefined {
  if (enable.kind === 'new' && disable.kind === 'new') return enable.at > disable.at ? 'enabled' : 'disabled'
  if (enable.kind === 'new') return 'enabled'
  if (disable.kind === 'new') return 'disabled'
  return undefined
}

/** A request is valid until the spec changes. */
function overrideOf(endpoint: WebhookEndpoint, asked: EndpointState | undefined) {
  const generation = endpoint.metadata.generation ?? 0
  if (asked !== undefined) return asked === endpoint.spec.state ? undefined : { state: asked, generation }
  const held = endpoint.status?.override
  return held?.generation === generation ? held : undefined
}

/** A reason why the endpoint does not work until its owner acts. */
export type Problem = {
  reason:
    | 'NotAnOrganization'
    | 'UrlNotAllowed'
    | 'SigningSecretsUnreadable'
    | 'CannotWriteSigningSecret'
    | 'CannotStoreDelivery'
    | 'UnknownEventTypes'
  message: string
}

export type EndpointFacts = {
  endpoint: { namespace: string; name: string }
  decision: StateDecision
  /** The signing keys exist. */
  keysReady: boolean
  /** The most serious first. */
  problems: readonly Problem[]
  /** What may make attempts fail, although nothing has to be wrong. */
  warning?: string | undefined
  consecutiveFailures: number
  failingSince?: string | undefined
  /** Whether the owners were notified of automatic disabling; absent if there was no reason to. */
  notified?: ConditionUpdate | undefined
  /** Whether all successes have objects; absent if that was never in question. */
  coverage?: ConditionUpdate | undefined
}

/** `Ready` follows from the problems. */
export function endpointConditions(facts: EndpointFacts): ConditionUpdate[] {
  const { decision, keysReady, warning, notified, coverage } = facts
  const stalled = stalledBy(facts)
  const waits = keysReady || stalled ? undefined : MAKING_KEY
  return [
    readyCondition(decision, stalled ?? waits, warning),
    ...whileTrue('Reconciling', waits),
    ...whileTrue('Stalled', stalled),
    deliveringCondition(facts),
    ...(notified ? [notified] : []),
    ...(coverage ? [coverage] : []),
  ]
}

type Obstacle = { reason: string; message: string }

const MAKING_KEY: Obstacle = {
  reason: 'CreatingSigningSecret',
  message: 'Davit is creating the signing secret.',
}

function stalledBy(facts: EndpointFacts): Obstacle | undefined {
  const { endpoint, problems, decision } = facts
  const [problem] = problems
  if (problem) return problem
  if (decision.disabledReason !== 'ConsecutiveFailures') return undefined
  return {
    reason: 'ConsecutiveFailures',
    message:
      `${disabledText(facts)} Fix the receiver, then run: kubectl -n ${endpoint.namespace} ` +
      `annotate webhookendpoint ${endpoint.name} --overwrite ${ENABLE_ANNOTATION}="$(date -u +%FT%TZ)"`,
  }
}

/** Why an endpoint was disabled automatically, for conditions, Events and emails. */
export function disabledText({
  consecutiveFailures,
  failingSince,
}: Pick<EndpointFacts, 'consecutiveFailures' | 'failingSince'>): string {
  const first = failingSince === undefined ? '' : `, the first at ${failingSince}`
  return `Davit disabled the endpoint because ${consecutiveFailures} consecutive deliveries exhausted their retries${first}.`
}

function readyCondition(
  decision: StateDecision,
  obstacle: Obstacle | undefined,
  warning: string | undefined,
): ConditionUpdate {
  const type = 'Ready'
  if (obstacle) return { type, status: 'False', ...obstacle }
  if (decision.state === 'disabled') {
    const message =
      'The endpoint has been disabled as requested. Davit will not send anything to it until you enable it.'
    return { type, status: 'True', reason: 'Paused', message }
  }
  const accepted = 'The endpoint receives the events it subscribes to.'
  const message = warning === undefined ? accepted : `${accepted} ${warning}`
  return { type, status: 'True', reason: 'Accepted', message }
}

function deliveringCondition(facts: EndpointFacts): ConditionUpdate {
  const { decision, consecutiveFailures } = facts
  const type = 'Delivering'
  if (decision.state === 'disabled') {
    return { type, status: 'False', reason: 'Disabled', message: 'The endpoint is disabled.' }
  }
  if (consecutiveFailures > 0) {
    return { type, status: 'False', reason: 'Failing', message: failingText(facts) }
  }
  const message =
    'No delivery has exhausted its retries since the last success or since the endpoint was last enabled, whichever is later.'
  return { type, status: 'True', reason: 'Healthy', message }
}

function failingText({ consecutiveFailures, failingSince }: EndpointFacts): string {
  if (consecutiveFailures === 1) {
    const at = failingSince === undefined ? '' : ` at ${failingSince}`
    return `The most recently finished delivery exhausted its retries${at}.`
  }
  const first = failingSince === undefined ? '' : `, the first at ${failingSince}`
  return `The ${consecutiveFailures} most recently finished deliveries exhausted their retries${first}.`
}

export type AttemptSummary = Pick<WebhookEndpointStatus, 'lastAttempt' | 'lastSuccessTime'>

export type ObservedEndpoint = {
  endpoint: WebhookEndpoint
  decision: StateDecision
  /** Absent until they exist. */
  keys?: { keys: readonly SigningKey[] } | undefined
}

export type EndpointObservations = {
  problems: readonly Problem[]
  warning?: string | undefined
  /** Requests by annotation that are handled now. */
  handled: LastHandled
  /** The `disabledAt` that was published to the other endpoints. */
  announced: string | undefined
  /** A signing key was created on request. */
  rolled: boolean
  leftOut?: LeftOut | undefined
  attempts?: AttemptSummary
}

/** The whole status after a pass. @param now milliseconds since 1970 */
export function endpointStatus(
  observed: ObservedEndpoint,
  now: number,
  found: EndpointObservations,
): WebhookEndpointStatus {
  const { endpoint, decision, keys } = observed
  const before: Partial<WebhookEndpointStatus> = endpoint.status ?? {}
  const generation = endpoint.metadata.generation ?? 0
  const streak = streakAfter(before, decision)
  const { namespace = '', name } = endpoint.metadata
  const isFailed = decision.disabledReason === 'ConsecutiveFailures'
  const conditions = endpointConditions({
    endpoint: { namespace, name },
    decision,
    keysReady: keys !== undefined,
    problems: found.problems,
    warning: found.warning,
    ...streak,
    notified: isFailed ? conditionOf(before, 'OwnersNotified') : undefined,
    coverage: decideCoverage(conditionOf(before, COVERAGE), found.leftOut, now).condition,
  })
  return defined({
    state: decision.state,
    ...(decision.state === 'disabled' && {
      disabledReason: decision.disabledReason ?? 'Requested',
      disabledAt: before.disabledAt ?? new Date(now).toISOString(),
      announcedAt: found.announced,
    }),
    ...streak,
    lastCounted: before.lastCounted,
    ...newerAttempts(before, found.attempts ?? {}),
    signingSecrets: keys && keysInStatus(keys.keys, now),
    ownerEmails: isFailed ? before.ownerEmails : undefined,
    lastHandled: Object.keys(found.handled).length > 0 ? found.handled : undefined,
    override: decision.override,
    updatedAt: updatedAt(observed, found.rolled || hasOtherKey(before, keys?.keys), now),
    observedGeneration: generation,
    conditions: mergeConditions(before.conditions, conditions, { now, generation }),
  })
}

/** The newer of what the status has and what the process knows: after a restart the process knows less. */
export function newerAttempts(before: AttemptSummary, known: AttemptSummary): AttemptSummary {
  const isNewer = (known.lastAttempt?.at ?? '') > (before.lastAttempt?.at ?? '')
  const lastAttempt = isNewer ? known.lastAttempt : before.lastAttempt
  const [lastSuccessTime] = [known.lastSuccessTime, before.lastSuccessTime]
    .filter((time) => time !== undefined)
    .sort()
    .reverse()
  return {
    ...(lastAttempt === undefined ? {} : { lastAttempt }),
    ...(lastSuccessTime === undefined ? {} : { lastSuccessTime }),
  }
}

const COVERAGE = 'SuccessesShown'
/** The condition changes at most once in this time. */
const COVERAGE_HELD_MS = 5 * 60_000

/** When a delivery that succeeded last got no object, and when last because that was rejected (quota, policy); milliseconds since 1970. */
export type LeftOut = { at: number; rejectedAt: number | undefined }

/**
 * Whether every delivery that succeeded has an object.
 * @returns no condition while none was ever left out; `changesAt`: when to decide again
 */
export function decideCoverage(
  before: Condition | undefined,
  leftOut: LeftOut | undefined,
  now: number,
): { condition?: ConditionUpdate; changesAt?: number } {
  const until = (at = Number.NEGATIVE_INFINITY) => at + COVERAGE_HELD_MS
  const allUntil = until(leftOut?.at)
  const isLeftOut = now < allUntil
  if (!before && !isLeftOut) return {}
  const why = now < until(leftOut?.rejectedAt) ? SOME_REJECTED : SOME_LEFT_OUT
  const condition = isLeftOut ? why : ALL_COVERED
  const heldUntil = before ? Date.parse(before.lastTransitionTime) + COVERAGE_HELD_MS : now
  if (before && before.status !== condition.status && now < heldUntil) {
    const { type, status, reason, message } = before
    return { condition: { type, status, reason, message }, changesAt: heldUntil }
  }
  return { condition, ...(isLeftOut ? { changesAt: allUntil } : {}) }
}

const SOME_LEFT_OUT: ConditionUpdate = {
  type: COVERAGE,
  status: 'False',
  reason: 'TooManyDeliveries',
  message:
    'Some deliveries that succeeded on the first attempt have no WebhookDelivery because Davit limits the number of WebhookDelivery objects it creates. The REST API lists all deliveries.',
}
const SOME_REJECTED: ConditionUpdate = {
  type: COVERAGE,
  status: 'False',
  reason: 'CannotStoreDelivery',
  message:
    'Some deliveries that succeeded on the first attempt have no WebhookDelivery because the API server rejected the objects. The CannotStoreDelivery Event names the quota or policy. The REST API lists all deliveries.',
}
const ALL_COVERED: ConditionUpdate = {
  type: COVERAGE,
  status: 'True',
  reason: 'AllShown',
  message: 'Every delivery that succeeded in the last five minutes has a WebhookDelivery.',
}

export function conditionOf(
  { conditions }: Pick<Partial<WebhookEndpointStatus>, 'conditions'>,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type)
}

/** Enabling after automatic disabling starts a new streak (interface S10). */
function streakAfter(before: Partial<WebhookEndpointStatus>, decision: StateDecision) {
  if (decision.newStreak) return { consecutiveFailures: 0, failingSince: undefined }
  return { consecutiveFailures: before.consecutiveFailures ?? 0, failingSince: before.failingSince }
}

/**
 * Changes with what the owner can see: spec, state and keys, but not counters (interface S2). For an endpoint that never
 * changed it is the time of its creation.
 */
function updatedAt({ endpoint, decision }: ObservedEndpoint, rolled: boolean, now: number): string {
  const { metadata, spec, status: before } = endpoint
  const { generation = 0 } = metadata
  if (before?.updatedAt === undefined) {
    const isAsCreated = generation === 1 && decision.state === spec.state
    return isAsCreated ? createdAtOf(metadata) : new Date(now).toISOString()
  }
  // What is missing was written, and an older CRD does not have it: that is no change, or each pass would make one.
  const same =
    (before.state ?? decision.state) === decision.state &&
    (before.disabledReason ?? decision.disabledReason) === decision.disabledReason &&
    (before.observedGeneration < 0 || before.observedGeneration === generation) &&
    !rolled
  return same ? before.updatedAt : new Date(now).toISOString()
}

/** The newest key is not the one in the status: another process rotated it. */
function hasOtherKey(
  before: Partial<WebhookEndpointStatus>,
  keys: readonly SigningKey[] | undefined,
): boolean {
  const reported = before.signingSecrets?.[0]?.fingerprint
  const newest = keys?.[0]
  return reported !== undefined && newest !== undefined && reported !== fingerprintOf(newest.secret)
}

function defined(fields: Record<string, unknown>): WebhookEndpointStatus {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as WebhookEndpointStatus
}

/** A PATCH over REST. */
export type WantedChange = {
  status?: EndpointState | undefined
  url?: string | undefined
  eventTypes?: readonly string[] | undefined
  description?: string | null | undefined
  ordered?: boolean | undefined
  concurrency?: number | undefined
}

/** A request by annotation that is part of the patch. `at`: milliseconds since 1970. */
export type StateRequest = { state: EndpointState; at: number }

export type ChangePlan =
  /** `fields` would change, and belong to another field manager. */
  | { kind: 'managed'; fields: string[] }
  | { kind: 'patch'; spec?: object; annotations?: Record<string, string>; request?: StateRequest }

/**
 * A merge patch of the given fields only, so that concurrent changes do not undo each other. If the spec is `managed`
 * elsewhere, disabling and enabling become requests by annotation, and nothing else can be changed (interface S5).
 * @param now milliseconds since 1970
 */
export function planChange(
  endpoint: WebhookEndpoint,
  wanted: WantedChange,
  managed: boolean,
  now: number,
): ChangePlan {
  const { status, ...fields } = wanted
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  const request = status && { state: status, at: requestTime(endpoint, now) }
  const asked = request ? { request, annotations: annotationsOf(request) } : {}
  if (managed) {
    const changed = entries.filter(([name, value]) => isChange(endpoint, name, value)).map(([name]) => name)
    return changed.length > 0 ? { kind: 'managed', fields: changed } : { kind: 'patch', ...asked }
  }
  const spec = { ...Object.fromEntries(entries), ...(status ? { state: status } : {}) }
  return { kind: 'patch', ...(Object.keys(spec).length > 0 ? { spec } : {}), ...asked }
}

/** @param rejection how the API server rejects the object of a delivery that has not ended */
export function cannotStore(rejection: string): Problem {
  const message = `Davit cannot create a WebhookDelivery: ${withPeriod(rejection)} Meanwhile, Davit keeps retrying both the delivery and the creation of the object. If the delivery's log entry expires before the object exists, Davit cancels the delivery. Remove the quota or policy that blocks the WebhookDelivery.`
  return { reason: 'CannotStoreDelivery', message }
}

/** Whether the controller has seen the spec and the request. @param generation of the patched object */
export function isAcknowledged(
  { status }: Pick<WebhookEndpoint, 'status'>,
  generation: number,
  request: StateRequest | undefined,
): boolean {
  if (!status || status.observedGeneration < generation) return false
  if (!request) return true
  const { enable, disable } = status.lastHandled ?? {}
  const handled = request.state === 'enabled' ? enable : disable
  // A later request may have replaced it before the controller saw it.
  return Date.parse(handled ?? '') >= request.at
}

export function annotationsOf({ state, at }: StateRequest): Record<string, string> {
  const annotation = state === 'enabled' ? ENABLE_ANNOTATION : DISABLE_ANNOTATION
  return { [annotation]: new Date(at).toISOString() }
}

const MAX_AHEAD_MS = 3_600_000

/**
 * A time that makes the request count as new, even if clocks differ: after earlier requests, because the latest one
 * wins, and not before the creation of the object.
 */
export function requestTime({ metadata }: WebhookEndpoint, now: number): number {
  const { annotations = {} } = metadata
  const earlier = [ENABLE_ANNOTATION, DISABLE_ANNOTATION].map((name) => Date.parse(annotations[name] ?? ''))
  const plausible = earlier.filter((at) => at <= now + MAX_AHEAD_MS)
  return Math.max(now, createdMs(metadata), ...plausible.map((at) => at + 1))
}

function isChange({ spec }: WebhookEndpoint, name: string, value: unknown): boolean {
  const held = (spec as Readonly<Record<string, unknown>>)[name] ?? null
  return JSON.stringify(held) !== JSON.stringify(value)
}
