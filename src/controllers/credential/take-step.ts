/** The steps of a credential, taken. What the cloud refuses is a fact for the next one. */
import type { CloudFailure } from '../../domain/cloud-failure.ts'
import { NEW_PASS, type ParameterPlace } from '../../domain/credential-facts.ts'
import { ACCOUNT_CHANGED } from '../../domain/credential-plan.ts'
import type { CredentialStep, Handover } from '../../domain/credential-step.ts'
import { type DeletionOutcome, deletionMessage } from '../../domain/deletion-outcome.ts'
import { isOwnedBy } from '../../domain/owner-tags.ts'
import type { CloudAccess } from '../../ports/cloud-accounts.ts'
import { tryCloud } from '../settings/try-cloud.ts'
import type { CredentialPass } from './credential-pass.ts'
import { aboutCredential } from './credential-writer.ts'
import { deleteHandover } from './handover-secret.ts'

/** What changes something. */
type ActiveStep = Exclude<CredentialStep, { step: 'nothing' | 'refuse' | 'wait' }>

/** Others may have thousands of secrets to store in the same account. */
const TURN_MS = 600_000
/** What is deleted holds up its namespace. */
const REMOVAL = { deadlineMs: 10_000, turnMs: 20_000 }

/** @throws ObjectGoneError, ApiError; nothing of the cloud */
export async function takeStep(of: CredentialPass, step: ActiveStep): Promise<void> {
  const { context } = of
  switch (step.step) {
    case 'add-finalizer':
      of.credential = await context.writer.hold(of.credential)
      return
    case 'drop-finalizer':
      tellOfAbsent(of)
      await context.writer.release(of.credential)
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
      return await recordOrphan(of, step.at, step.reason)
    case 'delete-handover':
      return await dropHandover(of, step.handover)
    case 'note-handover':
      return await of.note(step.handover)
  }
}

async function accessOf({ context, credential }: CredentialPass, at: ParameterPlace): Promise<CloudAccess> {
  return await context.accounts.of(credential.metadata.namespace ?? '', at)
}

/** @throws the reason of the signal: then it is no fact about the cloud */
function failed(of: CredentialPass, failure: CloudFailure): void {
  of.signal.throwIfAborted()
  of.pass = { ...of.pass, failure }
}

async function look(of: CredentialPass, at: ParameterPlace): Promise<void> {
  const access = await accessOf(of, at)
  const { accounts, cloud } = of.context
  const { value: tags, failure } = await tryCloud(() => cloud.tagsOf(access, at.name, { signal: of.signal }))
  if (failure && failure.remedy !== 'gone') return failed(of, failure)
  const owner = { installation: accounts.installation, organizationUid: access.organizationUid }
  const ours = tags !== undefined && isOwnedBy(tags, owner)
  of.pass = {
    ...of.pass,
    failure: undefined,
    owner: tags === undefined ? 'absent' : ours ? 'ours' : 'not-ours',
  }
}

async function list(of: CredentialPass): Promise<void> {
  const { account } = of.sources
  if (account.state !== 'ready') return
  const access = await accessOf(of, account.place)
  const { failure } = await tryCloud(() => of.context.listings.list(access, of.signal))
  if (failure) return failed(of, failure)
  of.pass = { ...of.pass, failure }
}

async function put(
  of: CredentialPass,
  step: Extract<CredentialStep, { step: 'put-new' | 'put-version' }>,
): Promise<void> {
  const { value } = of.sources.handover
  if (!value) throw new Error('a step without its secret')
  const { accounts, cloud, events, metrics } = of.context
  const { at, handover } = step
  const access = await accessOf(of, at)
  const isNew = step.step === 'put-new'
  await of.announce(step)
  const tags = accounts.tagsOf(access, of.credential.metadata.name)
  const description = `Registry credential of the organization ${access.organization}.`
  const limits = { turnMs: TURN_MS, signal: of.signal }
  const { value: written, failure } = await tryCloud(() =>
    isNew
      ? cloud.create(access, { name: at.name, value, description, tags }, limits)
      : cloud.replace(access, at.name, value, limits),
  )
  if (failure) return failed(of, failure)
  metrics.secretStored(isNew ? 'created' : 'replaced')
  await of.record({ parameter: of.storedAt(at, written.version), handover })
  const message = `Version ${written.version} of ${at.name} in account ${at.account}, region ${at.region}.`
  events.record(aboutCredential(of.credential), { type: 'Normal', reason: 'SecretStored', message })
}

async function remove(of: CredentialPass, at: ParameterPlace): Promise<void> {
  const access = await accessOf(of, at)
  const { value: outcome, failure } = await tryCloud(() =>
    of.context.cloud.remove(access, at.name, { ...REMOVAL, signal: of.signal }),
  )
  if (failure) return failed(of, failure)
  of.pass = { ...of.pass, failure: undefined, removed: true, owner: 'absent' }
  tell(of, at.name, { outcome })
}

/** Somebody has removed it before. */
function tellOfAbsent(of: CredentialPass): void {
  const stored = of.credential.status?.parameter
  if (stored && of.pass.owner === 'absent' && !of.pass.removed)
    tell(of, stored.name, { outcome: 'not-found' })
}

/** In the ledger before anything else forgets it. */
async function recordOrphan(of: CredentialPass, at: ParameterPlace, reason: string): Promise<void> {
  const { name, account, region, roleArn } = at
  const { organization, organizationUid } = await accessOf(of, at)
  const orphan = { name, account, region, roleArn, reason }
  await of.context.ledger.add({ ...orphan, organization, organizationUid })
  of.pass = { ...of.pass, orphanRecorded: true }
  tell(of, name, { outcome: 'orphaned', orphan })
}

async function dropHandover(of: CredentialPass, handover: Handover): Promise<void> {
  const { namespace = '' } = of.credential.metadata
  const name = of.credential.spec.secretRef?.name ?? ''
  await deleteHandover(of.context.resources, { namespace, name }, handover)
  of.sources = { ...of.sources, handover: { facts: { state: 'missing' } } }
  of.pass = NEW_PASS
}

/** In a namespace that is being deleted there are no Events any more: the log, the metric and the ledger have it. */
function tell({ context, credential }: CredentialPass, name: string, result: DeletionOutcome): void {
  const { events, metrics, log } = context
  metrics.parameterRemoved(result.outcome)
  const message = deletionMessage(name, result)
  const isOrphan = result.outcome === 'orphaned'
  const reason = isOrphan ? 'ParameterOrphaned' : 'ParameterRemoved'
  events.record(aboutCredential(credential), { type: isOrphan ? 'Warning' : 'Normal', reason, message })
  const { namespace, name: of } = credential.metadata
  if (isOrphan) log.warn('A parameter could not be removed', { namespace, credential: of, ...result.orphan })
}
