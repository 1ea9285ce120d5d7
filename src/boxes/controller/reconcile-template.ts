import type { BoxTemplate } from '../../apis/box-template.ts'
import { isApiError } from '../../kube/client.ts'
import { ObjectGoneError } from '../../kube/object-writer.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import { type ReconciliationOutcome, TemplateReconciliation } from './bake-pass.ts'
import type { TemplateContext } from './template-context.ts'

/** What no watch tells of: a ServiceAccount or a claim that came, a pod that left. */
const LOOK_AGAIN_MS = 60_000
/** A template that nobody mends is looked at ever less often. */
const MOST_LOOK_AGAIN_MS = 900_000
/** The watch may be behind: what was read is as new as it gets. */
const CONFLICTS = 3

/** Brings the bake of one BoxTemplate in line with its spec (interface §3.3). The key is `<organization>/<name>`. */
export class TemplateReconciler implements Reconciler {
  readonly #context: TemplateContext

  constructor(context: TemplateContext) {
    this.#context = context
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    const [namespace = '', name = ''] = key.split('/')
    let template = this.#context.book.get(namespace, name)
    for (let conflicts = 0; template; conflicts += 1) {
      try {
        return this.#next(await TemplateReconciliation.run(this.#context, template))
      } catch (error) {
        if (error instanceof ObjectGoneError) break
        if (!isApiError(error, 'Conflict') || conflicts === CONFLICTS) throw error
      }
      template = await this.#read(template)
    }
    this.#context.slots.release(key)
    return noRequeue()
  }

  async #read(template: BoxTemplate): Promise<BoxTemplate | undefined> {
    try {
      return await this.#context.writer.read(template)
    } catch (error) {
      if (error instanceof ObjectGoneError) return undefined
      throw error
    }
  }

  #next({ step, until, troubledSince }: ReconciliationOutcome): ReconcileResult {
    const now = this.#context.clock.now()
    // Not longer, since a clock may be set: then what is far away may be near.
    if (until !== undefined) return requeueAfter(Math.min(Math.max(0, until - now), MOST_LOOK_AGAIN_MS))
    if (step === 'wait') return requeueAfter(LOOK_AGAIN_MS)
    if (troubledSince === undefined) return noRequeue()
    const wait = Math.min(Math.max((now - troubledSince) / 2, LOOK_AGAIN_MS), MOST_LOOK_AGAIN_MS)
    // Those of one start of the controller do not come all at once for ever.
    return requeueAfter(Math.round(wait * (1 + this.#context.random.fraction() / 4)))
  }
}
