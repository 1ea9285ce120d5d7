/**
 * The actions of a credential's plan, applied. Each takes the state of the pass and returns the next one; a refusal of the cloud is a
 * fact for the next decision, not an exception. What an action did in the account is durable in the status before the next one is asked for.
 */
import type { Condition } from '../../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  type RegistryCredentialStatus,
  type StoredParameter,
} from '../../apis/registry-credential.ts'
import { mergeConditions } from '../../kube/status.ts'
import { tryCloud } from '../accounts/identity.ts'
import { isOwnedBy } from '../aws/parameter-tags.ts'
import type { CloudFailure } from '../cloud.ts'
import { credentialWarning } from '../spec.ts'
import { credentialFindings, verifiedFinding } from './conditions.ts'
import {
  type CredentialContext,
  type CredentialSources,
  credentialEventTarget,
  listingFacts,
  type PassState,
} from './gather.ts'
import { deleteInputSecret } from './input-secret.ts'
import { type InputSecretRef, isPendingInputSecret, keptInputSecret } from './input-secret-plan.ts'
import {
  ACCOUNT_CHANGED,
  type CredentialAction,
  type DeletionOutcome,
  deletionMessage,
  NO_RECONCILE_FACTS,
  type ParameterLocation,
} from './plan.ts'

/** Actions that end a pass. */
export type Conclusion = Extract<CredentialAction, { step: 'nothing' | 'refuse' | 'wait' }>
type Put = Extract<CredentialAction, { step: 'put-new' | 'put-version' }>

/** Long, since others may have thousands of secrets to store in the same account. */
const TURN_MS = 600_000
/** Short, since a deletion holds up its namespace. */
const REMOVAL = { deadlineMs: 10_000, turnMs: 20_000 }

/**
 * @param signal ends waiting for the cloud
 * @throws ObjectGoneError, ApiError, the signal's reason; no CloudError
 */
export async function applyAction(
  context: CredentialContext,
  state: PassState,
  action: Exclude<CredentialAction, Conclusion>,
  signal: AbortSignal,
): Promise<PassState> {
  const { credential } = state
  switch (action.step) {
    case 'add-finalizer':
      return { ...state, credential: await context.writer.addFinalizer(credential, PARAMETER_FINALIZER) }
    case 'drop-finalizer':
      reportAbsentParameter(context, state)
      return { ...state, credential: await context.writer.removeFinalizer(credential, PARAMETER_FINALIZER) }
    case 'look':
      return await readOwner(context, state, action.at, signal)
    case 'list':
      return await list(context, state, signal)
    case 'put-new':
    case 'put-version':
      return await put(context, state, action, signal)
    case 'adopt':
      // Whose value the version has is not known, so the next input Secret counts as new.
      return await recordParameter(context, state, {
        parameter: storedAt(action.at, action.version),
        handover: undefined,
      })
    case 'forget':
      // In one write: the credential is never Ready without its parameter.
      return await recordParameter(
        context,
        { ...state, moved: true },
        { parameter: undefined, handover: undefined },
        ACCOUNT_CHANGED,
      )
    case 'remove':
      return await remove(context, state, action.at, signal)
    case 'record-failed-deletion':
      return await recordFailedDeletion(context, state, action.at, action.reason)
    case 'delete-input-secret':
      return await dropInputSecret(context, state, action.inputSecret)
    case 'record-input-secret':
      return await updateStatus(context, state, { handover: action.inputSecret })
  }
}

/** Writes the conclusion of the pass into the status. @param updatedAt when the owner last saw a change */
export async function conclude(
  context: CredentialContext,
  state: PassState,
  conclusion: Conclusion,
  updatedAt: string,
): Promise<void> {
  const { metadata, status } = state.credential
  await updateStatus(context, state, {
    updatedAt,
    observedGeneration: metadata.generation ?? 1,
    conditions: conditionsOf(context, state, conclusion, status?.parameter),
  })
}

async function updateStatus(
  context: CredentialContext,
  state: PassState,
  change: Partial<RegistryCredentialStatus>,
): Promise<PassState> {
  const { credential } = state
  const desired = { ...credential.status, ...change }
  return { ...state, credential: await context.writer.updateStatus(credential, desired) }
}

/** Durable before anything follows from it. @param conclusion written along with it; absent: at the end of the pass */
async function recordParameter(
  context: CredentialContext,
  state: PassState,
  change: Pick<RegistryCredentialStatus, 'handover'> & { parameter: StoredParameter | undefined },
  conclusion?: Conclusion,
): Promise<PassState> {
  const updatedAt = new Date(context.clock.now()).toISOString()
  const conditions = conclusion && conditionsOf(context, state, conclusion, change.parameter)
  const next = await updateStatus(context, state, { ...change, updatedAt, ...(conditions && { conditions }) })
  return { ...next, pass: NO_RECONCILE_FACTS }
}

function conditionsOf(
  context: CredentialContext,
  { credential, sources, moved }: PassState,
  action: CredentialAction,
  stored: StoredParameter | undefined,
): Condition[] {
  const { metadata, spec, status } = credential
  const findings = credentialFindings({
    type: spec.type,
    step: action,
    stored,
    moved,
    pending: isPendingInputSecret(sources.inputSecret.facts, status?.handover),
    listing: listingFacts(context, credential, sources.account),
    verified: verifiedFinding(credential),
    warning: credentialWarning(spec),
    kept: keptInputSecret(sources.inputSecret.facts, status?.handover, spec.secretRef?.name ?? ''),
  })
  return mergeConditions(status?.conditions, findings, {
    now: context.clock.now(),
    generation: metadata.generation ?? 1,
  })
}

function storedAt(at: ParameterLocation, version: number): StoredParameter {
  const { name, region, account, roleArn, kmsKeyId } = at
  return { name, version, region, account, roleArn, kmsKeyId }
}

/** @throws the signal's reason: an interruption is no fact about the cloud */
function failed(state: PassState, failure: CloudFailure, signal: AbortSignal): PassState {
  signal.throwIfAborted()
  return { ...state, pass: { ...state.pass, failure } }
}

function accessTo(context: CredentialContext, { credential }: PassState, at: ParameterLocation) {
  return context.accounts.accessTo(credential.metadata.namespace ?? '', at)
}

async function readOwner(
  context: CredentialContext,
  state: PassState,
  at: ParameterLocation,
  signal: AbortSignal,
): Promise<PassState> {
  const { accounts, cloud } = context
  const access = await accessTo(context, state, at)
  const { value: tags, failure } = await tryCloud(() => cloud.tagsOf(access, at.name, { signal }))
  if (failure && failure.remedy !== 'gone') return failed(state, failure, signal)
  const isOurs = tags !== undefined && isOwnedBy(tags, accounts.ownerOf(access.organizationUid))
  const owner = tags === undefined ? 'absent' : isOurs ? 'ours' : 'not-ours'
  return { ...state, pass: { ...state.pass, failure: undefined, owner } }
}

async function list(context: CredentialContext, state: PassState, signal: AbortSignal): Promise<PassState> {
  const { account } = state.sources
  if (account.state !== 'ready') return state
  const access = await accessTo(context, state, account.location)
  const { failure } = await tryCloud(() => context.listings.list(access, signal))
  return failure ? failed(state, failure, signal) : { ...state, pass: { ...state.pass, failure } }
}

async function put(
  context: CredentialContext,
  before: PassState,
  action: Put,
  signal: AbortSignal,
): Promise<PassState> {
  const { value } = before.sources.inputSecret
  if (!value) throw new Error('the action requires a secret value')
  const { accounts, cloud, events, metrics } = context
  const { at, inputSecret } = action
  const access = await accessTo(context, before, at)
  const isNew = action.step === 'put-new'
  const state = await retractStored(context, before, action)
  const { credential } = state
  const tags = accounts.tagsOf(access, credential.metadata.name)
  const description = `Registry credential of organization ${access.organization}.`
  const limits = { turnMs: TURN_MS, signal }
  const { value: written, failure } = await tryCloud(() =>
    isNew
      ? cloud.create(access, { name: at.name, value, description, tags }, limits)
      : cloud.replace(access, at.name, value, limits),
  )
  if (failure) return failed(state, failure, signal)
  metrics.secretStored(isNew ? 'created' : 'replaced')
  const next = await recordParameter(context, state, {
    parameter: storedAt(at, written.version),
    handover: inputSecret,
  })
  const message = `Version ${written.version} of the parameter ${at.name} is stored in account ${at.account}, region ${at.region}.`
  events.record(credentialEventTarget(next.credential), { type: 'Normal', reason: 'SecretStored', message })
  return next
}

/**
 * Before a slow action, so that a client that waits for the new value does not take Stored=True of the previous one for it. If the
 * process ends in the action, the newest version may have the new value: then no input Secret counts as stored.
 */
async function retractStored(
  context: CredentialContext,
  state: PassState,
  action: CredentialAction,
): Promise<PassState> {
  const { status } = state.credential
  const isStored = status?.conditions?.some((one) => one.type === 'Stored' && one.status === 'True')
  if (!isStored && status?.handover === undefined) return state
  const conditions = conditionsOf(context, state, action, status?.parameter)
  return await updateStatus(context, state, { conditions, handover: undefined })
}

async function remove(
  context: CredentialContext,
  before: PassState,
  at: ParameterLocation,
  signal: AbortSignal,
): Promise<PassState> {
  const access = await accessTo(context, before, at)
  const { metadata, status } = before.credential
  // If the process ends in the action, the parameter may be gone: then no input Secret counts as stored.
  const isRecorded = metadata.deletionTimestamp === undefined && status?.handover !== undefined
  const state = isRecorded ? await updateStatus(context, before, { handover: undefined }) : before
  const { value: outcome, failure } = await tryCloud(() =>
    context.cloud.remove(access, at.name, { ...REMOVAL, signal }),
  )
  if (failure) return failed(state, failure, signal)
  reportDeletion(context, state, at.name, { outcome })
  return { ...state, pass: { ...state.pass, failure: undefined, removed: true, owner: 'absent' } }
}

/** The parameter was already gone when the deletion looked for it. */
function reportAbsentParameter(context: CredentialContext, state: PassState): void {
  const { credential, pass } = state
  const stored = credential.status?.parameter
  if (stored && pass.owner === 'absent' && !pass.removed)
    reportDeletion(context, state, stored.name, { outcome: 'not_found' })
}

/** Durable in the list of failed deletions before anything else forgets the parameter. */
async function recordFailedDeletion(
  context: CredentialContext,
  state: PassState,
  at: ParameterLocation,
  reason: string,
): Promise<PassState> {
  const { name, account, region, roleArn } = at
  const { organization, organizationUid } = await accessTo(context, state, at)
  const failedDeletion = { name, account, region, roleArn, reason }
  await context.failedDeletions.add({ ...failedDeletion, organization, organizationUid })
  reportDeletion(context, state, name, { outcome: 'orphaned', failedDeletion })
  return { ...state, pass: { ...state.pass, failedDeletionRecorded: true } }
}

async function dropInputSecret(
  context: CredentialContext,
  state: PassState,
  inputSecret: InputSecretRef,
): Promise<PassState> {
  const { metadata, spec } = state.credential
  const ref = { namespace: metadata.namespace ?? '', name: spec.secretRef?.name ?? '' }
  await deleteInputSecret(context.resources, ref, inputSecret)
  const sources: CredentialSources = { ...state.sources, inputSecret: { facts: { state: 'missing' } } }
  return { ...state, sources, pass: NO_RECONCILE_FACTS }
}

/** A namespace that is being deleted takes no Events any more: then only the log, the metric and the list have it. */
function reportDeletion(
  { events, metrics, log }: CredentialContext,
  { credential }: PassState,
  parameter: string,
  result: DeletionOutcome,
): void {
  metrics.parameterRemoved(result.outcome)
  const message = deletionMessage(parameter, result)
  const isFailed = result.outcome === 'orphaned'
  const reason = isFailed ? 'ParameterOrphaned' : 'ParameterRemoved'
  events.record(credentialEventTarget(credential), { type: isFailed ? 'Warning' : 'Normal', reason, message })
  const { namespace, name } = credential.metadata
  if (isFailed)
    log.warn('parameter_delete_failed', 'failed to delete parameter', {
      namespace,
      credential: name,
      ...result.failedDeletion,
    })
}
