/**
 * The controller of BoxTemplates (interface §3.3). One reconciliation gathers the facts, asks the plan for the next action, applies
 * it, and repeats this until nothing is to be done or there is something to wait for.
 */
import { type BoxTemplate, boxTemplate, boxTemplates, REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import { ObjectWriter } from '../../kube/mutation-cache.ts'
import {
  noRequeue,
  type ReconcileResult,
  type Reconciler,
  requeueAfter,
  retryOnConflict,
  runPlan,
} from '../../kube/reconcile-loop.ts'
import { applyAction, removeJob, writeStatus } from './apply.ts'
import { gatherBake, listBakeRuns, type TemplateContext } from './gather.ts'
import { type BakeAction, planBake } from './plan.ts'
import { exceedsTemplateQuota, isReportedOverQuota } from './quota.ts'

/** Keeps a plan that goes round in circles from holding a worker. */
const MAX_ACTIONS = 12
/** ServiceAccounts, claims and pods that leave are not watched, so they are polled. */
const MIN_REQUEUE_MS = 60_000
/** A problem that lasts is polled ever less often, up to this. */
const MAX_REQUEUE_MS = 900_000

type ReconciliationOutcome = Extract<BakeAction, { step: 'nothing' | 'wait' }> & {
  /** Since when there is a problem that may go away without a change of the template; milliseconds since 1970. */
  troubledSince?: number | undefined
}

/** Brings the bake of one BoxTemplate in line with its spec. The key is `<organization>/<name>`. */
export class TemplateReconciler implements Reconciler {
  readonly #context: TemplateContext

  constructor(dependencies: Omit<TemplateContext, 'writer'>) {
    const { resources, book } = dependencies
    const decode = (raw: unknown) => boxTemplate.parse(raw)
    const writer = new ObjectWriter({ resources, type: boxTemplates, decode, cache: book })
    this.#context = { ...dependencies, writer }
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    const [namespace = '', name = ''] = key.split('/')
    const { book, slots, writer } = this.#context
    const outcome = await retryOnConflict(
      book.get(namespace, name),
      (template) => writer.read(template),
      (template) => this.#run(template),
    )
    if (outcome !== undefined) return this.#requeue(outcome)
    slots.release(key)
    return noRequeue()
  }

  /** @throws ObjectGoneError, ApiError */
  async #run(given: BoxTemplate): Promise<ReconciliationOutcome> {
    if (given.metadata.deletionTimestamp !== undefined) return await this.#cancel(given)
    const { book, settings } = this.#context
    const rebake = given.metadata.annotations?.[REBAKE_ANNOTATION]
    // Costs no call, however many such templates there are.
    if (isReportedOverQuota(given, rebake) && exceedsTemplateQuota(book, given, settings.maxTemplates))
      return { step: 'nothing' }
    return await runPlan<BoxTemplate, ReconciliationOutcome>(given, MAX_ACTIONS, async (template) => {
      const gathered = await gatherBake(this.#context, template)
      const { facts } = gathered
      const action = this.#withSlot(template, planBake(facts))
      if (action.step !== 'nothing' && action.step !== 'wait')
        return { state: await applyAction(this.#context, gathered, action) }
      const waitsFor = action.step === 'wait' ? action.reason : undefined
      const { status } = await writeStatus(this.#context, gathered, facts.bake, waitsFor)
      const since = Date.parse(status?.bake?.completedAt ?? '') || facts.now
      return { conclusion: { ...action, troubledSince: facts.problem?.waits ? since : undefined } }
    })
  }

  /** Garbage collection removes the Jobs too, but only once foreign finalizers on the template are gone. */
  async #cancel(template: BoxTemplate): Promise<ReconciliationOutcome> {
    const { jobs } = await listBakeRuns(this.#context, template)
    for (const { name, isOwn, isLeaving, progress } of jobs) {
      if (!isOwn || isLeaving || progress.state === 'ended') continue
      await removeJob(this.#context, template, { job: name, reason: 'the template is being deleted' })
    }
    this.#context.slots.release(templateKey(template))
    return { step: 'nothing' }
  }

  /** Starts a bake only with a slot, and gives the slot back when no bake is in progress. */
  #withSlot(template: BoxTemplate, action: BakeAction): BakeAction {
    const { slots, settings } = this.#context
    const key = templateKey(template)
    if (action.step === 'start') {
      const limit = slots.acquire(key)
      if (limit === undefined) return action
      return { step: 'wait', reason: SLOT_LIMIT_MESSAGES[limit](settings.limits[limit]) }
    }
    if (isBaking(template)) slots.occupy(key)
    else slots.release(key)
    return action
  }

  #requeue({ step, until, troubledSince }: ReconciliationOutcome): ReconcileResult {
    const now = this.#context.clock.now()
    // Capped, since the clock may be set forward.
    if (until !== undefined) return requeueAfter(Math.min(Math.max(0, until - now), MAX_REQUEUE_MS))
    if (step === 'wait') return requeueAfter(MIN_REQUEUE_MS)
    if (troubledSince === undefined) return noRequeue()
    const wait = Math.min(Math.max((now - troubledSince) / 2, MIN_REQUEUE_MS), MAX_REQUEUE_MS)
    // Jitter spreads the templates that were queued together when the controller started.
    return requeueAfter(Math.round(wait * (1 + this.#context.random.fraction() / 4)))
  }
}

const SLOT_LIMIT_MESSAGES = {
  organization: (limit: number) =>
    `the organization has reached its limit on concurrent bakes (DAVIT_MAX_BAKES_PER_ORGANIZATION is ${limit})`,
  all: (limit: number) =>
    `the cluster-wide limit on concurrent bakes has been reached (DAVIT_MAX_BAKES is ${limit})`,
}

export function templateKey({ metadata: { namespace = '', name } }: BoxTemplate): string {
  return `${namespace}/${name}`
}

export function isBaking({ status }: BoxTemplate): boolean {
  return status?.bake?.state === 'pending' || status?.bake?.state === 'running'
}
