/**
 * One pass over a credential: gathers, asks for the next step and takes it, until there is none. What a step has done in the
 * account is durable in the status before the next is asked for.
 */

import { createdAtOf } from '../../apis/created-at.ts'
import type { Condition } from '../../apis/meta.ts'
import type {
  RegistryCredential,
  RegistryCredentialStatus,
  StoredParameter,
} from '../../apis/registry-credential.ts'
import { mergeConditions } from '../../kube/conditions.ts'
import { credentialWarning } from '../credential-spec.ts'
import { credentialFindings } from './conditions.ts'
import { applyAction } from './controller.ts'
import type { CredentialContext } from './credential-context.ts'
import type { CredentialAction, InputSecretRef } from './credential-step.ts'
import { verifiedFinding } from './credential-verified.ts'
import { NO_RECONCILE_FACTS, type ParameterLocation, type ReconcileFacts } from './facts.ts'
import { type CredentialSources, gatherFacts, listingFacts, readSources } from './gather.ts'
import { isPendingInputSecret } from './handover-state.ts'
import { nextAction } from './plan.ts'

/** A plan that goes round in circles must not hold a worker. */
const MAX_STEPS = 20

/** Steps after which there is nothing to ask. */
type Conclusion = Extract<CredentialAction, { step: 'nothing' | 'refuse' | 'wait' }>
export type ReconcileOutcome = Conclusion | { step: 'gone' }

export class CredentialReconcile {
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
