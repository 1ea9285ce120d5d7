/**
 * The conditions of a BoxTemplate, such that kstatus reads them correctly. All of them follow from the last bake and the current
 * problem.
 */
import type { BakedService, BakeFailure, BakeStatus } from '../../apis/bake.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import { type Cause, type ConditionUpdate, type Finding, whileTrue } from '../../kube/status.ts'
import { FIXES, failureReason } from './outcome.ts'
import type { BakeProblem } from './service-credentials.ts'

export type CurrentConditionInput = {
  bake: BakeStatus | undefined
  generation: number
  credentialState: string
  names: readonly string[]
  credentials: ReadonlyMap<string, RegistryCredential>
}

const MAX_NAMED = 3

/**
 * Whether the box was pulled with the credentials as they are now. A replaced secret does not cause another bake, since the box keeps
 * working. But the box's credentials file names the version of the secret that the bake read, so users must see which boxes are behind.
 */
export function currentCondition(view: CurrentConditionInput): Finding {
  const { bake } = view
  const services = bake?.state === 'succeeded' ? (bake.services ?? []) : bake?.lastSucceeded?.services
  if (services === undefined)
    return { status: 'Unknown', reason: 'NotBaked', message: 'No box has been baked yet.' }
  const used = new Map(
    services.flatMap(({ credential }) => (credential ? [[credential.id, credential]] : [])),
  )
  const found = [...used.values()].flatMap((credential) => changeSince(view, credential) ?? [])
  const [first, ...others] = found.length === 0 && isReplaced(view) ? [REPLACED] : found
  if (first === undefined)
    return {
      status: 'True',
      reason: 'UpToDate',
      message: 'The credentials have not changed since the box was baked.',
    }
  const named = [first, ...others].slice(0, MAX_NAMED).map(({ message }) => message)
  const more = moreAffected(found.length - MAX_NAMED)
  return { status: 'False', reason: first.reason, message: [...named, ...more, WHAT_TO_DO].join(' ') }
}

function moreAffected(count: number): string[] {
  if (count <= 0) return []
  return [count === 1 ? '1 other credential is affected.' : `${count} other credentials are affected.`]
}

const WHAT_TO_DO =
  'Request another bake by setting the annotation davit.dev/rebake-requested-at to the current time. Then copy the new credentials file to the machines that run the box.'
const REPLACED = {
  reason: 'CredentialChanged',
  message: 'A credential was deleted and recreated after the bake.',
}

/** Versions and generations do not show that a credential was deleted and recreated: both restart at 1. */
function isReplaced({ bake, generation, credentialState }: CurrentConditionInput): boolean {
  return (
    bake?.state === 'succeeded' && bake.generation === generation && bake.credentialState !== credentialState
  )
}

function changeSince(
  { names, credentials }: CurrentConditionInput,
  { id, parameterVersion, generation }: NonNullable<BakedService['credential']>,
): { reason: string; message: string } | undefined {
  const name = id.slice(CREDENTIAL_PREFIX.length)
  // The template does not use it any more, and will be baked with others.
  if (!names.includes(name)) return undefined
  const credential = credentials.get(name)
  if (credential === undefined)
    return {
      reason: 'CredentialGone',
      message: `The credential ${id} no longer exists, so the box cannot use it to pull images.`,
    }
  const version = credential.status?.parameter?.version
  if (parameterVersion !== undefined && version !== undefined && version !== parameterVersion)
    return {
      reason: 'SecretReplaced',
      message: `The box was baked with version ${parameterVersion} of ${id}'s secret, but the current version is ${version}.`,
    }
  if (generation === undefined || credential.metadata.generation === generation) return undefined
  return { reason: 'CredentialChanged', message: `The credential ${id} has changed since the bake.` }
}

export type TemplateView = {
  /** As it is going to be stored. */
  bake: BakeStatus | undefined
  problem: BakeProblem | undefined
  isDue: boolean
  /** What a bake that is due waits for, as message text. */
  waitsFor?: string | undefined
  current: Finding
}

export function templateFindings(view: TemplateView): ConditionUpdate[] {
  return [
    { type: 'Ready', ...ready(view) },
    ...whileTrue('Reconciling', reconciling(view)),
    ...whileTrue('Stalled', stalled(view)),
    { type: 'Succeeded', ...succeeded(view.bake) },
    { type: 'Current', ...view.current },
  ]
}

function ready({ bake, problem, isDue, waitsFor }: TemplateView): Finding {
  if (problem) return { status: 'False', ...problemText(problem) }
  if (isDue || !bake) return { status: 'False', ...due(waitsFor) }
  const finding = succeeded(bake)
  return finding.status === 'Unknown' ? { ...finding, status: 'False' } : finding
}

const DUE = { reason: 'Baking', message: 'A bake is about to start.' }

function due(waitsFor: string | undefined): { reason: string; message: string } {
  return waitsFor === undefined
    ? DUE
    : { reason: 'Waiting', message: `A bake is waiting to start: ${waitsFor}.` }
}

function succeeded(bake: BakeStatus | undefined): Finding {
  if (bake?.state === 'succeeded') {
    const count = bake.services?.length ?? 0
    const message = count === 1 ? 'The image was pulled.' : `The images for ${count} services were pulled.`
    return { status: 'True', reason: 'Baked', message }
  }
  if (bake?.state === 'failed' && bake.failure) return { status: 'False', ...failureText(bake.failure) }
  const message = bake === undefined ? DUE.message : BAKING[bake.state === 'running' ? 'running' : 'pending']
  return { status: 'Unknown', reason: 'Baking', message }
}

const BAKING = {
  pending: "The bake's Pod is not running yet.",
  running: 'The images are being pulled.',
}

function reconciling({ bake, problem, isDue, waitsFor }: TemplateView): Cause | undefined {
  if (bake?.state === 'pending' || bake?.state === 'running')
    return { reason: 'Baking', message: BAKING[bake.state] }
  if (problem) return problem.waits ? problemText(problem) : undefined
  if (isDue || !bake) return due(waitsFor)
  if (bake.nextAttemptAt !== undefined)
    return {
      reason: 'Retrying',
      message: `Attempt ${bake.attempts} failed. The next attempt is scheduled for ${bake.nextAttemptAt}.`,
    }
  return undefined
}

/** True if only a change of the template or of what it references helps. */
function stalled(view: TemplateView): Cause | undefined {
  const { bake, problem } = view
  if (reconciling(view)) return undefined
  if (problem) return problemText(problem)
  return bake?.state === 'failed' && bake.failure ? failureText(bake.failure) : undefined
}

function problemText({ service, code, message }: BakeProblem): { reason: string; message: string } {
  return {
    reason: failureReason(code),
    message: about(service, fixWithDetails({ fix: FIXES[code], message })),
  }
}

function failureText(failure: BakeFailure): { reason: string; message: string } {
  return { reason: failureReason(failure.code), message: about(failure.service, fixWithDetails(failure)) }
}

/** The fix comes first: the message of a condition or an Event may be cut off, unlike the one in `status.bake`. */
export function fixWithDetails({ fix, message }: Pick<BakeFailure, 'fix' | 'message'>): string {
  return message === '' ? fix : `${fix} Details: ${message}`
}

function about(service: string | undefined, text: string): string {
  return service === undefined ? text : `Service ${service}: ${text}`
}
