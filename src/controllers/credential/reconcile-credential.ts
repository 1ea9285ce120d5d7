import { isApiError } from '../../ports/kubernetes.ts'
import { ObjectGoneError } from '../../runtime/object-writer.ts'
import { after, done, type Reconciler, type Result } from '../../runtime/reconcile-loop.ts'
import { Interruptions } from '../interruptions.ts'
import type { CredentialContext } from './credential-context.ts'
import type { LastStep } from './credential-pass.ts'
import { CredentialPass } from './credential-pass.ts'

/** What no watch tells of: a policy that was mended, a Secret of another type that came. */
const LOOK_AGAIN_MS = 60_000
const FIRST_RETRY_MS = 2000
const LONGEST_RETRY_MS = 300_000
/** The watch may be behind: what was read is as new as it gets. */
const CONFLICTS = 3

/** Brings one RegistryCredential in line with its account (interface §2.1, §4.1). The key is `<organization>/<name>`. */
export class CredentialReconciler implements Reconciler {
  readonly #context: CredentialContext
  /** Passes in a row that ended with waiting for the cloud. */
  readonly #waits = new Map<string, number>()
  readonly #interruptions = new Interruptions()

  constructor(context: CredentialContext) {
    this.#context = context
  }

  async reconcile(key: string, signal: AbortSignal): Promise<Result> {
    return await this.#interruptions.run(key, signal, async (both) => {
      const last = await this.#context.mutex.run(key, () => this.#pass(key, both))
      return this.#next(key, last)
    })
  }

  /** It was deleted, or is wanted otherwise: a pass that waits for its turn at the account begins anew. */
  interrupt(key: string): void {
    this.#interruptions.interrupt(key)
  }

  async #pass(key: string, signal: AbortSignal): Promise<LastStep> {
    const [namespace = '', name = ''] = key.split('/')
    const { book, writer } = this.#context
    let credential = book.get(namespace, name)
    for (let conflicts = 0; credential; conflicts += 1) {
      try {
        return await CredentialPass.run(this.#context, credential, signal)
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

  #next(key: string, last: LastStep): Result {
    const waits =
      last.step === 'wait' && last.reason === 'CloudUnavailable' ? (this.#waits.get(key) ?? 0) + 1 : 0
    if (waits > 0) this.#waits.set(key, waits)
    else this.#waits.delete(key)
    if (last.step === 'gone' || last.step === 'nothing') return done()
    if (last.step === 'refuse') return after(LOOK_AGAIN_MS)
    const { clock } = this.#context
    if (last.until !== undefined) return after(Math.max(0, last.until - clock.now()))
    if (waits > 0) return after(Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(16, waits - 1)))
    return after(LOOK_AGAIN_MS)
  }
}
