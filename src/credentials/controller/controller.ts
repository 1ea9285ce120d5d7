import { createdAtOf } from '../../apis/ids.ts'
import type { Condition } from '../../apis/meta.ts'
import type {
  RegistryCredential,
  RegistryCredentialStatus,
  StoredParameter,
} from '../../apis/registry-credential.ts'
import { isApiError } from '../../kube/client.ts'
import { ObjectGoneError } from '../../kube/mutation-cache.ts'
import {
  InterruptiblePasses,
  noRequeue,
  type ReconcileResult,
  type Reconciler,
  requeueAfter,
} from '../../kube/reconcile-loop.ts'
import { mergeConditions } from '../../kube/status.ts'
import { tryCloud } from '../accounts/identity.ts'
import { isOwnedBy } from '../aws/names.ts'
import type { CloudAccess, CloudFailure } from '../cloud.ts'
import { credentialWarning } from '../spec.ts'
import { credentialFindings, verifiedFinding } from './conditions.ts'
import {
  type CredentialAction,
  type DeletionOutcome,
  deletionMessage,
  type InputSecretRef,
  isPendingInputSecret,
  NO_RECONCILE_FACTS,
  type ParameterLocation,
  type ReconcileFacts,
} from './facts.ts'
import {
  type CredentialContext,
  type CredentialSources,
  credentialEventTarget,
  gatherFacts,
  listingFacts,
  readSources,
} from './gather.ts'
import { deleteInputSecret } from './input-secret.ts'
import { ACCOUNT_CHANGED, nextAction } from './plan.ts'

/**
 * One pass over a credential: gathers, asks for the next step and takes it, until there is none. What a step has done in the
 * account is durable in the status before the next is asked for.
 */

/** A plan that goes round in circles must not hold a worker. */
const MAX_STEPS = 20

/** Steps after which there is nothing to ask. */
type Conclusion = Extract<CredentialAction, { step: 'nothing' | 'refuse' | 'wait' }>
type ReconcileOutcome = Conclusion | { step: 'gone' }

class CredentialReconcile {
  readonly context: CredentialContext
  credential: RegistryCredential
  sources: CredentialSources
  pass: ReconcileFacts = NO_RECONCILE_FACTS
  moved: boolean
  /** Ends the waiting for the cloud. */
  readonly signal: AbortSignal

  private constructor(given: Pick<CredentialReconcile, 'context' | 'credential' | 'sources' | 'signal'>) {
    this.context = given.context
    this.credential = given.credential
    this.sources = given.sources
    this.signal = given.signal
    const stored = given.credential.status?.conditions?.find(({ type }) => type === 'Stored')
    this.moved = stored?.reason === 'AccountChanged'
  }

  /** @throws ObjectGoneError, ApiError; the reason of the signal */
  static async run(
    context: CredentialContext,
    credential: RegistryCredential,
    signal: AbortSignal,
  ): Promise<ReconcileOutcome> {
    const sources = await readSources(context, credential)
    return await new CredentialReconcile({ context, credential, sources, signal }).#run()
  }

  async #run(): Promise<ReconcileOutcome> {
    for (let taken = 0; taken < MAX_STEPS; taken += 1) {
      const step = nextAction(
        gatherFacts(this.context, this.credential, { ...this.sources, pass: this.pass, moved: this.moved }),
      )
      switch (step.step) {
        case 'nothing':
        case 'refuse':
        case 'wait':
          await this.#conclude(step)
          return step
        case 'drop-finalizer':
          await applyAction(this, step)
          return { step: 'gone' }
        default:
          await applyAction(this, step)
      }
    }
    throw new Error(`no end after ${MAX_STEPS} steps`)
  }

  /** Durable before anything follows from it. @param said with it; absent: when the pass ends */
  async record(
    change: Pick<RegistryCredentialStatus, 'handover'> & { parameter: StoredParameter | undefined },
    said?: Conclusion,
  ): Promise<void> {
    const { context, credential } = this
    const updatedAt = new Date(context.clock.now()).toISOString()
    const status = { ...credential.status, ...change, updatedAt }
    const conditions = said && this.#conditions(said, change.parameter)
    this.credential = await context.writer.updateStatus(credential, {
      ...status,
      ...(conditions && { conditions }),
    })
    this.pass = NO_RECONCILE_FACTS
  }

  /** Said before a step that takes its time: whoever waits for a new value is not told of the one before. */
  async recordProgress(step: CredentialAction): Promise<void> {
    const { context, credential } = this
    const { status } = credential
    const isSaid = status?.conditions?.some(({ type, status: is }) => type === 'Stored' && is === 'True')
    if (!isSaid) return
    const conditions = this.#conditions(step, status?.parameter)
    this.credential = await context.writer.updateStatus(credential, { ...status, conditions })
  }

  /** Nothing that its owner would call a change. */
  async recordInputSecret(handover: InputSecretRef): Promise<void> {
    const { context, credential } = this
    this.credential = await context.writer.updateStatus(credential, { ...credential.status, handover })
  }

  /** The parameter at a place, as the status has it. */
  storedAt(at: ParameterLocation, version: number): StoredParameter {
    const { name, region, account, roleArn, kmsKeyId } = at
    return { name, version, region, account, roleArn, ...(kmsKeyId === undefined ? {} : { kmsKeyId }) }
  }

  async #conclude(step: Conclusion): Promise<void> {
    const { context, credential } = this
    const { metadata, status } = credential
    const generation = metadata.generation ?? 1
    const updatedAt = updatedAtOf(credential, context.clock.now())
    this.credential = await context.writer.updateStatus(credential, {
      ...status,
      updatedAt,
      observedGeneration: generation,
      conditions: this.#conditions(step, status?.parameter),
    })
  }

  #conditions(step: CredentialAction, stored: StoredParameter | undefined): Condition[] {
    const { context, credential } = this
    const { metadata, spec, status } = credential
    const findings = credentialFindings({
      type: spec.type,
      step,
      stored,
      moved: this.moved,
      pending: isPendingInputSecret(this.sources.inputSecret.facts, status?.handover),
      listing: listingFacts(context, credential, this.sources.account),
      verified: verifiedFinding(credential),
      warning: credentialWarning(spec),
    })
    return mergeConditions(credential.status?.conditions, findings, {
      now: context.clock.now(),
      generation: metadata.generation ?? 1,
    })
  }
}

/** Whoever writes by REST has said it already. */
const REST_UPDATE_GRACE_MS = 60_000

/** When something last changed that the owner can see (settled, "REST shapes"). */
function updatedAtOf({ metadata, status }: RegistryCredential, now: number): string {
  const told = status?.updatedAt
  if (told !== undefined && status?.observedGeneration === metadata.generation) return told
  if (told !== undefined && now - Date.parse(told) < REST_UPDATE_GRACE_MS) return told
  return (status?.observedGeneration ?? -1) < 0 ? createdAtOf(metadata) : new Date(now).toISOString()
}

/** The steps of a credential, taken. What the cloud refuses is a fact for the next one. */

/** What changes something. */
type MutatingAction = Exclude<CredentialAction, { step: 'nothing' | 'refuse' | 'wait' }>

/** Others may have thousands of secrets to store in the same account. */
const TURN_MS = 600_000
/** What is deleted holds up its namespace. */
const REMOVAL = { deadlineMs: 10_000, turnMs: 20_000 }

/** @throws ObjectGoneError, ApiError; nothing of the cloud */
async function applyAction(of: CredentialReconcile, step: MutatingAction): Promise<void> {
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

/** What no watch tells of: a policy that was mended. */
const LOOK_AGAIN_MS = 60_000
/**
 * Secrets are not watched, since that would need the right to see all of them. Each that is named is looked for: soon after its
 * credential has changed, then ever less often, once a minute at the last, and so seldom with many that ten are read in a second.
 */
const FIRST_LOOK_MS = 5_000
const LOOK_GROWTH = 1.25
const EACH_SECRET_MS = 100
/** Refusals that end when the owner does something about the Secret. */
const ABOUT_THE_SECRET: ReadonlySet<string> = new Set([
  'SecretForbidden',
  'SecretTypeRefused',
  'SecretKeyMissing',
  'SecretRefused',
  'SecretShared',
])
const FIRST_RETRY_MS = 2000
const LONGEST_RETRY_MS = 300_000
/** The watch may be behind: what was read is as new as it gets. */
const CONFLICTS = 3

/** Brings one RegistryCredential in line with its account (interface §2.1, §4.1). The key is `<organization>/<name>`. */
export class CredentialReconciler implements Reconciler {
  readonly #context: CredentialContext
  /** Passes in a row that ended with waiting for the cloud. */
  readonly #waits = new Map<string, number>()
  /** Looks in a row since the version of a credential that is named. */
  readonly #looks = new Map<string, { version: string; count: number }>()
  readonly #interruptions = new InterruptiblePasses()

  constructor(context: CredentialContext) {
    this.#context = context
  }

  async reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    return await this.#interruptions.run(key, signal, async (both) => {
      const last = await this.#context.mutex.run(key, () => this.#pass(key, both))
      return this.#next(key, last)
    })
  }

  /** It was deleted, or is wanted otherwise: a pass that waits for its turn at the account begins anew. */
  interrupt(key: string): void {
    this.#interruptions.interrupt(key)
  }

  async #pass(key: string, signal: AbortSignal): Promise<ReconcileOutcome> {
    const [namespace = '', name = ''] = key.split('/')
    const { book, writer } = this.#context
    let credential = book.get(namespace, name)
    for (let conflicts = 0; credential; conflicts += 1) {
      try {
        return await CredentialReconcile.run(this.#context, credential, signal)
      } catch (error) {
        if (error instanceof ObjectGoneError) break
        if (!isApiError(error, 'Conflict') || conflicts === CONFLICTS) throw error
      }
      credential = await writer.read(credential).catch((error: unknown) => {
        if (error instanceof ObjectGoneError) return undefined
        throw error
      })
    }
    return { step: 'gone' }
  }

  #next(key: string, last: ReconcileOutcome): ReconcileResult {
    const waits =
      last.step === 'wait' && last.reason === 'CloudUnavailable' ? (this.#waits.get(key) ?? 0) + 1 : 0
    if (waits > 0) this.#waits.set(key, waits)
    else this.#waits.delete(key)
    if (last.step === 'gone') {
      this.#looks.delete(key)
      return noRequeue()
    }
    const secretMs = this.#secretMs(key)
    if (last.step === 'nothing') return secretMs === undefined ? noRequeue() : requeueAfter(secretMs)
    const isAboutSecret = ABOUT_THE_SECRET.has(last.reason) || last.reason === 'SecretMissing'
    if (isAboutSecret && secretMs !== undefined) return requeueAfter(secretMs)
    if (last.step === 'refuse') return requeueAfter(LOOK_AGAIN_MS)
    const { clock } = this.#context
    if (last.until !== undefined) return requeueAfter(Math.max(0, last.until - clock.now()))
    if (waits > 0)
      return requeueAfter(Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(16, waits - 1)))
    return requeueAfter(LOOK_AGAIN_MS)
  }

  /** When to look for the Secret of a credential that names one. */
  #secretMs(key: string): number | undefined {
    const [namespace = '', name = ''] = key.split('/')
    const { book } = this.#context
    const { spec, metadata } = book.get(namespace, name) ?? {}
    if (spec?.type !== 'token' || spec.secretRef === undefined) {
      this.#looks.delete(key)
      return undefined
    }
    const version = metadata?.resourceVersion ?? ''
    const before = this.#looks.get(key)
    const count = before?.version === version ? before.count + 1 : 0
    this.#looks.set(key, { version, count })
    const grown = Math.min(LOOK_AGAIN_MS, FIRST_LOOK_MS * LOOK_GROWTH ** Math.min(20, count))
    return Math.max(grown, EACH_SECRET_MS * book.size)
  }
}
