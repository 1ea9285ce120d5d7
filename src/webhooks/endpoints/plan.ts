/** What the conditions of an endpoint say. `Ready` follows from the problems found; it is never set by hand. */
import type { ConditionUpdate } from '../../kube/conditions.ts'
import type { StateDecision } from './endpoint-state.ts'

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
