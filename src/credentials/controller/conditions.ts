/**
 * The conditions of a credential, derived from its state and the last action of a pass (`Ready` is never set by hand); and what bakes
 * have found out about it.
 */
import { createHash } from 'node:crypto'
import type { BakedService, BakeFailureCode, BakeResult } from '../../apis/bake.ts'
import type {
  CredentialDrift,
  CredentialType,
  CredentialVerification,
  RegistryCredential,
  StoredParameter,
} from '../../apis/registry-credential.ts'
import { failureReason } from '../../boxes/controller/outcome.ts'
import { type Cause, type ConditionUpdate, type Finding, whileTrue } from '../../kube/status.ts'
import type { CredentialAction, ListingFacts } from './plan.ts'

/**
 * Fingerprint of credentials: specs and secret versions. A failed bake is repeated if it differs (interface §3.3). What a bake itself
 * writes into their status is no part of it.
 */
export function credentialState(
  names: readonly string[],
  credentials: ReadonlyMap<string, RegistryCredential>,
): string {
  const facts = [...new Set(names)].sort().map((name) => {
    const { metadata, status } = credentials.get(name) ?? {}
    return [name, metadata?.uid ?? '', metadata?.generation ?? 0, status?.parameter?.version ?? 0]
  })
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 32)
}

export type CredentialView = {
  type: CredentialType
  /** The conclusion of the pass, or an action in progress. */
  step: CredentialAction
  stored?: StoredParameter | undefined
  pending?: boolean | undefined
  /** Its parameter was in an account that it has left. */
  moved?: boolean | undefined
  listing: ListingFacts
  /** From bakes, which write a fact; only this controller writes conditions. */
  verified: Finding
  warning?: string | undefined
  /** Why Davit keeps an input Secret that is not retained. */
  kept?: Cause | undefined
}

/** Refusals that make a stored secret unusable. */
const UNUSABLE: ReadonlySet<string> = new Set([
  'NotAnOrganization',
  'InvalidRegistry',
  'InvalidUsername',
  'ParameterMissing',
  'ParameterReplaced',
  'AccountChanged',
])
/** Of them, those after which the secret is not stored. */
const LOST: ReadonlySet<string> = new Set(['ParameterMissing', 'ParameterReplaced', 'AccountChanged'])

export function credentialFindings(view: CredentialView): ConditionUpdate[] {
  const findings: ConditionUpdate[] = [
    { type: 'Ready', ...ready(view) },
    ...whileTrue('Reconciling', reconciling(view.step)),
    ...whileTrue('Stalled', stalled(view.step)),
    { type: 'Verified', ...view.verified },
  ]
  if (view.type === 'ecr') return findings
  return [
    ...findings,
    { type: 'Stored', ...stored(view) },
    { type: 'Drifted', ...drifted(view) },
    ...whileTrue('InputSecretKept', view.kept),
  ]
}

function ready(view: CredentialView): Finding {
  const { step, type, warning } = view
  if (step.step === 'refuse' && (type === 'ecr' || UNUSABLE.has(step.reason))) return no(step)
  // A new value does not affect the previous one.
  const answer = type === 'ecr' ? ACCEPTED : stored({ ...view, pending: false, moved: false })
  const isWarned = warning !== undefined && answer.status === 'True'
  return isWarned ? { ...answer, message: `${answer.message} ${warning}` } : answer
}

const ACCEPTED: Finding = {
  status: 'True',
  reason: 'Accepted',
  message: 'No secret is stored. The box uses its IAM role to request a token from AWS for each pull.',
}

/** About the current value: clients that provide a new one wait for this condition. */
function stored({ step, stored: parameter, pending, moved }: CredentialView): Finding {
  if (step.step === 'refuse' && (!parameter || pending || LOST.has(step.reason))) return no(step)
  if (parameter && !pending) {
    const { name, version, account, region } = parameter
    const message = `Version ${version} of the parameter ${name} is stored in account ${account}, region ${region}.`
    return { status: 'True', reason: 'Stored', message }
  }
  if (step.step !== 'wait') return { status: 'False', ...STORING }
  // For the owner who deletes it later: nothing of it is stored.
  return no(moved && !parameter ? { ...step, reason: 'AccountChanged' } : step)
}

const STORING = { reason: 'Storing', message: 'The secret is being stored.' }

function no({ reason, message }: { reason: string; message: string }): Finding {
  return { status: 'False', reason, message }
}

function reconciling(step: CredentialAction): Cause | undefined {
  if (step.step === 'wait') return step
  return step.step === 'nothing' || step.step === 'refuse' ? undefined : STORING
}

function stalled(step: CredentialAction): Cause | undefined {
  return step.step === 'refuse' ? step : undefined
}

function drifted({ listing, stored: parameter }: CredentialView): Finding {
  if (!parameter || listing.state !== 'recorded')
    return {
      status: 'Unknown',
      reason: 'NotChecked',
      message: 'Davit has not yet checked whether the parameter was changed outside Davit.',
    }
  const { drift, staleSince } = listing
  switch (drift.kind) {
    case 'none':
    case 'adopt':
      if (staleSince !== undefined) return stale(staleSince)
      return {
        status: 'False',
        reason: 'InSync',
        message: 'The parameter has not changed since Davit wrote it.',
      }
    case 'changed':
      return yes(
        'ChangedOutsideDavit',
        `${drift.by} wrote version ${drift.version} of the parameter. Boxes still read version ${parameter.version}. To overwrite the change, provide the secret again.`,
      )
    case 'replaced':
      return yes(
        'ParameterReplaced',
        `${drift.by} recreated the parameter (version ${drift.version}, type ${drift.type}).`,
      )
    case 'key':
      return yes(
        'KeyChanged',
        `The parameter was last written by ${drift.by} and is encrypted with ${drift.key || 'another key'} instead of the configured key. To re-encrypt it with the configured key, provide the secret again.`,
      )
    case 'missing':
      return yes(
        'ParameterMissing',
        `The parameter ${parameter.name} does not exist in account ${parameter.account}, region ${parameter.region}.`,
      )
  }
}

function stale(since: number): Finding {
  const at = new Date(since).toISOString()
  const message = `Davit has not been able to list the account's parameters since ${at}, so it cannot detect later changes. The Events of the SecretsSettings object show the cause.`
  return { status: 'Unknown', reason: 'ListingStale', message }
}

function yes(reason: CredentialDrift, message: string): Finding {
  return { status: 'True', reason, message }
}

/** Codes about the credential; the others are about the network or the registry. */
const VERDICTS: ReadonlySet<string> = new Set<BakeFailureCode>([
  'wrong_credentials',
  'no_pull_permission',
  'token_expired',
])

/**
 * The newest verification of each credential in a bake, by credential id. @param now caps times, so that a node whose clock is ahead
 * does not win until then
 */
export function verificationsOf(
  bake: { template: string; services: readonly BakedService[] },
  results: BakeResult['services'],
  now: number,
): Map<string, CredentialVerification> {
  const found = new Map<string, CredentialVerification>()
  for (const { name, verified } of results) {
    const service = bake.services.find((each) => each.name === name)
    if (!verified || !service?.credential) continue
    const seen = verificationOf(bake.template, { ...service, credential: service.credential }, verified, now)
    const { id } = service.credential
    if (saysMore(seen, found.get(id))) found.set(id, seen)
  }
  return found
}

function verificationOf(
  template: string,
  { image, credential }: BakedService & { credential: NonNullable<BakedService['credential']> },
  { at, ok, code }: NonNullable<BakeResult['services'][number]['verified']>,
  now: number,
): CredentialVerification {
  return {
    at: Date.parse(at) > now ? new Date(now).toISOString() : at,
    ok,
    code,
    repository: repositoryOf(image),
    template,
    parameterVersion: credential.parameterVersion,
    generation: credential.generation,
  }
}

/** At the same moment, a refusal by one repository outweighs the acceptance by another. */
function saysMore(seen: CredentialVerification, held: CredentialVerification | undefined): boolean {
  if (held === undefined) return true
  const later = Date.parse(seen.at) - Date.parse(held.at)
  return later === 0 ? held.ok : later > 0
}

function repositoryOf(image: string): string {
  return image.replace(/@.*$/, '').replace(/:[^/]*$/, '')
}

/** Whether a verification is newer. Generation and version count before the time, which is that of a node whose clock may be behind. */
export function isNewer(found: CredentialVerification, held: CredentialVerification | undefined): boolean {
  if (held === undefined) return true
  const versions = (found.parameterVersion ?? 0) - (held.parameterVersion ?? 0)
  const generations = (found.generation ?? 0) - (held.generation ?? 0)
  const ahead = generations || versions
  return ahead === 0 ? Date.parse(found.at) > Date.parse(held.at) : ahead > 0
}

const NOT_CHECKED: Finding = {
  status: 'Unknown',
  reason: 'NotChecked',
  message:
    'The credential has not been used yet. The next bake that uses it will verify it with the registry.',
}

export function verifiedFinding({
  metadata,
  status,
}: Pick<RegistryCredential, 'metadata' | 'status'>): Finding {
  const seen = status?.verified
  if (!seen) return NOT_CHECKED
  const { at, ok, code, repository, template, parameterVersion } = seen
  const where = `${repository} (bake of template ${template}, ${at})`
  const isCurrent = seen.generation === metadata.generation && parameterVersion === status?.parameter?.version
  if (!isCurrent)
    return {
      status: 'Unknown',
      reason: 'ChangedSince',
      message: `The credential has changed since the registry ${ok ? 'accepted' : 'rejected'} it for ${where}.`,
    }
  if (code === 'secret_unreadable')
    return {
      status: 'Unknown',
      reason: failureReason(code),
      message: `The bake of template ${template} at ${at} could not read the secret, so it did not contact the registry to pull ${repository}.`,
    }
  if (ok)
    return { status: 'True', reason: 'Pulled', message: `The registry accepted the credential for ${where}.` }
  if (code === undefined || !VERDICTS.has(code))
    return {
      status: 'Unknown',
      reason: code === undefined ? 'NoAnswer' : failureReason(code),
      message: `The check was inconclusive: the registry neither accepted nor rejected the credential for ${where}.`,
    }
  return {
    status: 'False',
    reason: failureReason(code),
    message: `The registry rejected the credential for ${where}. To find out how to fix this, see the conditions of the BoxTemplate.`,
  }
}
