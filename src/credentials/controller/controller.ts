/**
 * Brings one RegistryCredential in line with its cloud account (interface §2.1, §4.1): reads the settings and the input Secret once,
 * then asks the plan (plan.ts) for the next action and applies it (apply.ts) until the plan has come to a conclusion.
 */

import { createdAtOf } from '../../apis/ids.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import {
  InterruptiblePasses,
  noRequeue,
  type ReconcileResult,
  type Reconciler,
  requeueAfter,
  retryOnConflict,
  runPlan,
} from '../../kube/reconcile-loop.ts'
import { exponentialMs } from '../../lib/time.ts'
import { applyAction, type Conclusion, conclude } from './apply.ts'
import { type CredentialContext, gatherFacts, type PassState, readSources } from './gather.ts'
import { NO_RECONCILE_FACTS, nextAction } from './plan.ts'

const MAX_STEPS = 20
/** For changes that no watch reports, such as a corrected policy. */
const RECHECK_MS = 60_000
/**
 * Secrets are not watched, which would take the right to read all of them. The Secret that a credential names is polled instead: soon
 * after a change of the credential, then less and less often up to once a minute, and so rarely with many credentials that at most ten
 * Secrets are read in a second.
 */
const FIRST_SECRET_POLL_MS = 5_000
const SECRET_POLL_GROWTH = 1.25
const POLL_EACH_MS = 100
/** Reasons that end when the owner changes the Secret. */
const ABOUT_THE_SECRET: ReadonlySet<string> = new Set([
  'SecretMissing',
  'SecretForbidden',
  'InvalidSecretType',
  'SecretKeyMissing',
  'InvalidSecret',
  'SecretShared',
])
const RETRY = { firstMs: 2000, longestMs: 300_000 }
/** The REST API sets `updatedAt` with its own writes; what it wrote so recently stands. */
const REST_UPDATE_GRACE_MS = 60_000

type Outcome = Conclusion | { step: 'gone' }

/** The key is `<organization>/<name>`. */
export class CredentialReconciler implements Reconciler {
  readonly #context: CredentialContext
  /** Passes in a row that ended in waiting for the cloud. */
  readonly #cloudWaits = new Map<string, number>()
  /** How often the Secret of a credential was polled since this version of the credential. */
  readonly #secretPolls = new Map<string, { version: string; count: number }>()
  readonly #interruptions = new InterruptiblePasses()

  constructor(context: CredentialContext) {
    this.#context = context
  }

  async reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { book, mutex, writer } = this.#context
    return await this.#interruptions.run(key, signal, async (both) => {
      const outcome = await mutex.run(key, () =>
        retryOnConflict(
          book.get(...refOf(key)),
          (credential) => writer.read(credential),
          (credential) => runPass(this.#context, credential, both),
        ),
      )
      return this.#next(key, outcome ?? { step: 'gone' })
    })
  }

  /** Restarts a pass that waits for its turn at the account, since the credential was deleted or its spec changed. */
  interrupt(key: string): void {
    this.#interruptions.interrupt(key)
  }

  #next(key: string, last: Outcome): ReconcileResult {
    const isWaiting = last.step === 'wait' && last.reason === 'CloudUnavailable'
    const waits = isWaiting ? (this.#cloudWaits.get(key) ?? 0) + 1 : 0
    if (waits > 0) this.#cloudWaits.set(key, waits)
    else this.#cloudWaits.delete(key)
    if (last.step === 'gone') {
      this.#secretPolls.delete(key)
      return noRequeue()
    }
    const pollMs = this.#secretPollMs(key)
    if (last.step === 'nothing') return pollMs === undefined ? noRequeue() : requeueAfter(pollMs)
    if (ABOUT_THE_SECRET.has(last.reason) && pollMs !== undefined) return requeueAfter(pollMs)
    if (last.step === 'refuse') return requeueAfter(RECHECK_MS)
    const { clock } = this.#context
    if (last.until !== undefined) return requeueAfter(Math.max(0, last.until - clock.now()))
    if (waits === 0) return requeueAfter(RECHECK_MS)
    return requeueAfter(exponentialMs(waits, RETRY))
  }

  /** When to poll the Secret of a credential that names one. */
  #secretPollMs(key: string): number | undefined {
    const { book } = this.#context
    const { spec, metadata } = book.get(...refOf(key)) ?? {}
    if (spec?.type !== 'token' || spec.secretRef === undefined) {
      this.#secretPolls.delete(key)
      return undefined
    }
    const version = metadata?.resourceVersion ?? ''
    const before = this.#secretPolls.get(key)
    const count = before?.version === version ? before.count + 1 : 0
    this.#secretPolls.set(key, { version, count })
    const grown = Math.min(RECHECK_MS, FIRST_SECRET_POLL_MS * SECRET_POLL_GROWTH ** Math.min(20, count))
    return Math.max(grown, POLL_EACH_MS * book.size)
  }
}

function refOf(key: string): [namespace: string, name: string] {
  const [namespace = '', name = ''] = key.split('/')
  return [namespace, name]
}

/** @throws ObjectGoneError, ApiError, the signal's reason */
async function runPass(
  context: CredentialContext,
  credential: RegistryCredential,
  signal: AbortSignal,
): Promise<Outcome> {
  const stored = credential.status?.conditions?.find(({ type }) => type === 'Stored')
  const start: PassState = {
    credential,
    sources: await readSources(context, credential),
    pass: NO_RECONCILE_FACTS,
    moved: stored?.reason === 'AccountChanged',
  }
  return await runPlan<PassState, Outcome>(start, MAX_STEPS, async (state) => {
    const action = nextAction(gatherFacts(context, state))
    switch (action.step) {
      case 'nothing':
      case 'refuse':
      case 'wait':
        await conclude(context, state, action, updatedAtOf(state.credential, context.clock.now()))
        return { conclusion: action }
      case 'drop-finalizer':
        await applyAction(context, state, action, signal)
        return { conclusion: { step: 'gone' } }
      default:
        return { state: await applyAction(context, state, action, signal) }
    }
  })
}

/** When something last changed that the owner can see (interface S2). */
function updatedAtOf({ metadata, status }: RegistryCredential, now: number): string {
  const recorded = status?.updatedAt
  if (recorded !== undefined && status?.observedGeneration === metadata.generation) return recorded
  if (recorded !== undefined && now - Date.parse(recorded) < REST_UPDATE_GRACE_MS) return recorded
  return (status?.observedGeneration ?? -1) < 0 ? createdAtOf(metadata) : new Date(now).toISOString()
}
