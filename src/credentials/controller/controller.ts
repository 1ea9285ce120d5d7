/** The steps of a credential, taken. What the cloud refuses is a fact for the next one. */

import { tryCloud } from '../accounts/try-cloud.ts'
import { isOwnedBy } from '../aws/owner-tags.ts'
import type { CloudAccess } from '../cloud.ts'
import type { CloudFailure } from '../cloud-failure.ts'
import type { CredentialReconcile } from './credential-pass.ts'
import type { CredentialAction, InputSecretRef } from './credential-step.ts'
import { credentialEventTarget } from './credential-writer.ts'
import { type DeletionOutcome, deletionMessage } from './deletion-outcome.ts'
import { NO_RECONCILE_FACTS, type ParameterLocation } from './facts.ts'
import { deleteInputSecret } from './input-secret.ts'
import { ACCOUNT_CHANGED } from './plan.ts'

/** What changes something. */
type MutatingAction = Exclude<CredentialAction, { step: 'nothing' | 'refuse' | 'wait' }>

/** Others may have thousands of secrets to store in the same account. */
const TURN_MS = 600_000
/** What is deleted holds up its namespace. */
const REMOVAL = { deadlineMs: 10_000, turnMs: 20_000 }

/** @throws ObjectGoneError, ApiError; nothing of the cloud */
export async function applyAction(of: CredentialReconcile, step: MutatingAction): Promise<void> {
  const { context } = of
  switch (step.step) {
    case 'add-finalizer':
      of.credential = await context.writer.addFinalizer(of.credential)
      return
    case 'drop-finalizer':
      recordAbsentParameter(of)
      await context.writer.removeFinalizer(of.credential)
      return
    case 'look':
      return await look(of, step.at)
    case 'list':
      return await list(of)
    case 'put-new':
    case 'put-version':
      return await put(of, step)
    case 'adopt':
      return await of.record({ parameter: of.storedAt(step.at, step.version) })
    case 'forget':
      of.moved = true
      // In one write: Ready without its parameter it is at no time.
      return await of.record({ parameter: undefined, handover: undefined }, ACCOUNT_CHANGED)
    case 'remove':
      return await remove(of, step.at)
    case 'record-orphan':
      return await recordFailedDeletion(of, step.at, step.reason)
    case 'delete-handover':
      return await dropInputSecret(of, step.handover)
    case 'note-handover':
      return await of.recordInputSecret(step.handover)
  }
}

async function accessOf(
  { context, credential }: CredentialReconcile,
  at: ParameterLocation,
): Promise<CloudAccess> {
  return await context.accounts.accessTo(credential.metadata.namespace ?? '', at)
}

/** @throws the reason of the signal: then it is no fact about the cloud */
function noteFailure(of: CredentialReconcile, failure: CloudFailure): void {
  of.signal.throwIfAborted()
  of.pass = { ...of.pass, failure }
}

async function look(of: CredentialReconcile, at: ParameterLocation): Promise<void> {
  const access = await accessOf(of, at)
  const { accounts, cloud } = of.context
  const { value: tags, failure } = await tryCloud(() => cloud.tagsOf(access, at.name, { signal: of.signal }))
  if (failure && failure.remedy !== 'gone') return noteFailure(of, failure)
  const owner = { installation: accounts.installation, organizationUid: access.organizationUid }
  const ours = tags !== undefined && isOwnedBy(tags, owner)
  of.pass = {
    ...of.pass,
    failure: undefined,
    owner: tags === undefined ? 'absent' : ours ? 'ours' : 'not-ours',
  }
}

async function list(of: CredentialReconcile): Promise<void> {
  const { account } = of.sources
  if (account.state !== 'ready') return
  const access = await accessOf(of, account.place)
  const { failure } = await tryCloud(() => of.context.listings.list(access, of.signal))
  if (failure) return noteFailure(of, failure)
  of.pass = { ...of.pass, failure }
}

async function put(
  of: CredentialReconcile,
  step: Extract<CredentialAction, { step: 'put-new' | 'put-version' }>,
): Promise<void> {
  const { value } = of.sources.inputSecret
  if (!value) throw new Error('a step without its secret')
  const { accounts, cloud, events, metrics } = of.context
  const { at, handover } = step
  const access = await accessOf(of, at)
  const isNew = step.step === 'put-new'
  await of.recordProgress(step)
  const tags = accounts.tagsOf(access, of.credential.metadata.name)
  const description = `Registry credential of the organization ${access.organization}.`
  const limits = { turnMs: TURN_MS, signal: of.signal }
  const { value: written, failure } = await tryCloud(() =>
    isNew
      ? cloud.create(access, { name: at.name, value, description, tags }, limits)
      : cloud.replace(access, at.name, value, limits),
  )
  if (failure) return noteFailure(of, failure)
  metrics.secretStored(isNew ? 'created' : 'replaced')
  await of.record({ parameter: of.storedAt(at, written.version), handover })
  const message = `Version ${written.version} of ${at.name} in account ${at.account}, region ${at.region}.`
  events.record(credentialEventTarget(of.credential), { type: 'Normal', reason: 'SecretStored', message })
}

async function remove(of: CredentialReconcile, at: ParameterLocation): Promise<void> {
  const access = await accessOf(of, at)
  const { value: outcome, failure } = await tryCloud(() =>
    of.context.cloud.remove(access, at.name, { ...REMOVAL, signal: of.signal }),
  )
  if (failure) return noteFailure(of, failure)
  of.pass = { ...of.pass, failure: undefined, removed: true, owner: 'absent' }
  recordDeletion(of, at.name, { outcome })
}

/** Somebody has removed it before. */
function recordAbsentParameter(of: CredentialReconcile): void {
  const stored = of.credential.status?.parameter
  if (stored && of.pass.owner === 'absent' && !of.pass.removed)
    recordDeletion(of, stored.name, { outcome: 'not-found' })
}

/** In the ledger before anything else forgets it. */
async function recordFailedDeletion(
  of: CredentialReconcile,
  at: ParameterLocation,
  reason: string,
): Promise<void> {
  const { name, account, region, roleArn } = at
  const { organization, organizationUid } = await accessOf(of, at)
  const orphan = { name, account, region, roleArn, reason }
  await of.context.failedDeletions.add({ ...orphan, organization, organizationUid })
  of.pass = { ...of.pass, failedDeletionRecorded: true }
  recordDeletion(of, name, { outcome: 'orphaned', orphan })
}

async function dropInputSecret(of: CredentialReconcile, handover: InputSecretRef): Promise<void> {
  const { namespace = '' } = of.credential.metadata
  const name = of.credential.spec.secretRef?.name ?? ''
  await deleteInputSecret(of.context.resources, { namespace, name }, handover)
  of.sources = { ...of.sources, inputSecret: { facts: { state: 'missing' } } }
  of.pass = NO_RECONCILE_FACTS
}

/** In a namespace that is being deleted there are no Events any more: the log, the metric and the ledger have it. */
function recordDeletion(
  { context, credential }: CredentialReconcile,
  name: string,
  result: DeletionOutcome,
): void {
  const { events, metrics, log } = context
  metrics.parameterRemoved(result.outcome)
  const message = deletionMessage(name, result)
  const isOrphan = result.outcome === 'orphaned'
  const reason = isOrphan ? 'ParameterOrphaned' : 'ParameterRemoved'
  events.record(credentialEventTarget(credential), { type: isOrphan ? 'Warning' : 'Normal', reason, message })
  const { namespace, name: of } = credential.metadata
  if (isOrphan) log.warn('A parameter could not be removed', { namespace, credential: of, ...result.orphan })
}
