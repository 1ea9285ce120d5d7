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
import type { ConditionUpdate } from '../../kube/status.ts'
import type { CredentialAction, ListingFacts } from './facts.ts'

/**
 * Stands for credentials as they are: their specs, and the versions of their secrets. A failed bake is repeated when it is another
 * (interface §3.3). What a bake itself writes into their status is no part of it.
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

/** What the conditions of a credential say. `Ready` follows from what is stored; it is never set by hand. */

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

/** What a bake has seen of a credential at the point of use: a fact in its status, from which the condition `Verified` follows. */

/** Codes that speak of the credential. The others are of the network, or of the registry. */
const VERDICTS: ReadonlySet<string> = new Set<BakeFailureCode>([
  'wrong_credentials',
  'no_pull_right',
  'token_expired',
])

/**
 * What the services of a bake have seen, by the id of their credentials; the newest of each.
 *
 * @param now a node whose clock is ahead would else have the last word for as long as it is
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
  const { parameterVersion, generation } = credential
  return {
    at: Date.parse(at) > now ? new Date(now).toISOString() : at,
    ok,
    ...(code === undefined ? {} : { code }),
    repository: repositoryOf(image),
    template,
    ...(parameterVersion === undefined ? {} : { parameterVersion }),
    generation,
  }
}

/** One that a repository has refused is not called good by another of the same moment. */
function saysMore(seen: CredentialVerification, held: CredentialVerification | undefined): boolean {
  if (held === undefined) return true
  const later = Date.parse(seen.at) - Date.parse(held.at)
  return later === 0 ? held.ok : later > 0
}

/** Without tag and digest. */
function repositoryOf(image: string): string {
  return image.replace(/@.*$/, '').replace(/:[^/]*$/, '')
}

/**
 * Whether it says anything new. What was seen of a newer secret or spec counts before the time, which is that of a node: its clock may be
 * behind that of the node before.
 */
export function isNewer(found: CredentialVerification, held: CredentialVerification | undefined): boolean {
  if (held === undefined) return true
  const versions = (found.parameterVersion ?? 0) - (held.parameterVersion ?? 0)
  const generations = (found.generation ?? 0) - (held.generation ?? 0)
  const ahead = generations || versions
  return ahead === 0 ? Date.parse(found.at) > Date.parse(held.at) : ahead > 0
}

type AnswerOfCredentialVerified = Omit<ConditionUpdate, 'type'>

const NOT_CHECKED: AnswerOfCredentialVerified = {
  status: 'Unknown',
  reason: 'NotChecked',
  message: 'Nobody has asked the registry yet: a bake does.',
}

/** Status, reason and words of the condition. */
export function verifiedFinding({
  metadata,
  status,
}: Pick<RegistryCredential, 'metadata' | 'status'>): AnswerOfCredentialVerified {
  const seen = status?.verified
  if (!seen) return NOT_CHECKED
  const { at, ok, code, repository, template, parameterVersion } = seen
  const where = `${repository}, at ${at}, by the bake of ${template}`
  const isCurrent = seen.generation === metadata.generation && parameterVersion === status?.parameter?.version
  if (!isCurrent)
    return {
      status: 'Unknown',
      reason: 'ChangedSince',
      message: `It has changed since it was ${ok ? 'taken' : 'refused'} for ${where}.`,
    }
  if (code === 'secret_unreadable')
    return {
      status: 'Unknown',
      reason: failureReason(code),
      message: `No registry was asked, since the box could not read the secret: for ${where}.`,
    }
  if (ok) return { status: 'True', reason: 'Pulled', message: `The registry took it for ${where}.` }
  if (code === undefined || !VERDICTS.has(code))
    return {
      status: 'Unknown',
      reason: code === undefined ? 'NoAnswer' : failureReason(code),
      message: `The registry said nothing of it: ${where}.`,
    }
  return { status: 'False', reason: failureReason(code), message: `It was refused for ${where}.` }
}
