import { isApiError } from '../../kube/client.ts'
import { InterruptiblePasses } from '../../kube/interruptions.ts'
import { ObjectGoneError } from '../../kube/object-writer.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import type { CredentialContext } from './credential-context.ts'
import type { ReconcileOutcome } from './credential-pass.ts'
import { CredentialReconcile } from './credential-pass.ts'

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
