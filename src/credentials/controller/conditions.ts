/** What the conditions of a credential say. `Ready` follows from what is stored; it is never set by hand. */
import type { CredentialDrift, CredentialType, StoredParameter } from '../../apis/registry-credential.ts'
import type { ConditionUpdate } from '../../kube/conditions.ts'
import type { CredentialAction } from './credential-step.ts'
import type { ListingFacts } from './facts.ts'

export type CredentialView = {
  type: CredentialType
  /** The last step of the pass: `nothing`, `refuse` or `wait`, or one that is still under way. */
  step: CredentialAction
  /** status.parameter as it will be. */
  stored?: StoredParameter | undefined
  /** A Secret is handed over whose value is not stored. */
  pending?: boolean | undefined
  /** It had a parameter in an account that it has left. */
  moved?: boolean | undefined
  listing: ListingFacts
  /** What a bake has seen; the condition is derived here, so that nobody else writes conditions. */
  verified: Omit<ConditionUpdate, 'type'>
  /** Said beside Ready. */
  warning?: string | undefined
}

/** Refusals that take the use of what is stored away. */
const UNUSABLE: ReadonlySet<string> = new Set([
  'NotAnOrganization',
  'RegistryRefused',
  'UsernameRefused',
  'ParameterMissing',
  'ParameterReplaced',
  'AccountChanged',
])
/** Of them, those after which the secret is not stored. */
const LOST: ReadonlySet<string> = new Set(['ParameterMissing', 'ParameterReplaced', 'AccountChanged'])

type Answer = { status: ConditionUpdate['status']; reason: string; message: string }

export function credentialFindings(view: CredentialView): ConditionUpdate[] {
  const findings: ConditionUpdate[] = [
    { type: 'Ready', ...ready(view) },
    { type: 'Reconciling', ...reconciling(view.step) },
    { type: 'Stalled', ...stalled(view.step) },
    { type: 'Verified', ...view.verified },
  ]
  if (view.type === 'ecr') return findings
  return [...findings, { type: 'Stored', ...stored(view) }, { type: 'Drifted', ...drifted(view) }]
}

function ready(view: CredentialView): Answer {
  const { step, type, warning } = view
  if (step.step === 'refuse' && (type === 'ecr' || UNUSABLE.has(step.reason))) return no(step)
  // A new value on its way takes nothing away from the one before.
  const answer = type === 'ecr' ? ACCEPTED : stored({ ...view, pending: false, moved: false })
  const isWarned = warning !== undefined && answer.status === 'True'
  return isWarned ? { ...answer, message: `${answer.message} ${warning}` } : answer
}

const ACCEPTED: Answer = {
  status: 'True',
  reason: 'Accepted',
  message: 'Nothing is stored: the role of the box asks AWS for a token at every pull.',
}

/** Of the secret at hand: whoever hands over a new one waits for it with this condition. */
function stored({ step, stored: parameter, pending, moved }: CredentialView): Answer {
  if (step.step === 'refuse' && (!parameter || pending || LOST.has(step.reason))) return no(step)
  if (parameter && !pending) {
    const { name, version, account, region } = parameter
    const message = `Version ${version} of ${name} in account ${account}, region ${region}.`
    return { status: 'True', reason: 'Stored', message }
  }
  if (step.step !== 'wait') return { status: 'False', ...STORING }
  // Whoever deletes it later has to know that nothing of it is there.
  return no(moved && !parameter ? { ...step, reason: 'AccountChanged' } : step)
}

const STORING = { reason: 'Storing', message: 'The secret is being stored.' }

function no({ reason, message }: { reason: string; message: string }): Answer {
  return { status: 'False', reason, message }
}

function reconciling(step: CredentialAction): Answer {
  if (step.step === 'wait') return { status: 'True', reason: step.reason, message: step.message }
  if (step.step === 'nothing' || step.step === 'refuse')
    return { status: 'False', reason: 'UpToDate', message: 'The status speaks of the current spec.' }
  return { status: 'True', ...STORING }
}

function stalled(step: CredentialAction): Answer {
  if (step.step === 'refuse') return { status: 'True', reason: step.reason, message: step.message }
  return { status: 'False', reason: 'NothingToMend', message: 'Nothing waits for somebody to act.' }
}

function drifted({ listing, stored: parameter }: CredentialView): Answer {
  if (!parameter || listing.state !== 'recorded')
    return { status: 'Unknown', reason: 'NotChecked', message: 'The account was not listed yet.' }
  const { drift, staleSince } = listing
  switch (drift.kind) {
    case 'none':
    case 'adopt':
      if (staleSince !== undefined) return stale(staleSince)
      return { status: 'False', reason: 'InSync', message: 'The parameter is as Davit wrote it.' }
    case 'changed':
      return yes(
        'ChangedByOther',
        `${drift.by} wrote version ${drift.version}. Boxes go on reading version ${parameter.version}; give the secret again to write over it.`,
      )
    case 'replaced':
      return yes('ParameterReplaced', `${drift.by} made it anew: version ${drift.version}, ${drift.type}.`)
    case 'key':
      return yes(
        'KeyChanged',
        `It is encrypted with ${drift.key || 'another key'}, last written by ${drift.by}.`,
      )
    case 'missing':
      return yes(
        'ParameterMissing',
        `${parameter.name} is not in account ${parameter.account}, region ${parameter.region}.`,
      )
  }
}

function stale(since: number): Answer {
  const at = new Date(since).toISOString()
  const message = `The account was listed at ${at} for the last time: what somebody changed since is not known. Events of the SecretsSettings say why.`
  return { status: 'Unknown', reason: 'ListingStale', message }
}

function yes(reason: CredentialDrift, message: string): Answer {
  return { status: 'True', reason, message }
}
