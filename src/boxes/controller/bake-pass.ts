/** One pass over a template: gathers, asks for the next step and takes it, until there is none. */
import type { BakeStatus } from '../../apis/bake.ts'
import { type BoxTemplate, REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import { mergeConditions } from '../../kube/conditions.ts'
import { currentCondition } from './box-currency.ts'
import { templateFindings } from './conditions.ts'
import { applyBakeAction, removeJob } from './controller.ts'
import { listBakeRuns } from './gather.ts'
import { type GatheredBake, gatherBake } from './gather-bake.ts'
import { type BakeAction, type BakeFacts, dueReason, planBake } from './plan.ts'
import type { TemplateContext } from './template-context.ts'
import { exceedsTemplateQuota, isReportedOverQuota } from './template-room.ts'

/** A plan that goes round in circles must not hold a worker. */
const MAX_STEPS = 12

/** Steps after which there is nothing to ask. */
export type ReconciliationOutcome = Extract<BakeAction, { step: 'nothing' | 'wait' }> & {
  /** Since when a problem is there that may go without a change of the template; milliseconds since 1970. */
  troubledSince?: number | undefined
}

export class TemplateReconciliation {
  readonly context: TemplateContext
  template: BoxTemplate

  private constructor(context: TemplateContext, template: BoxTemplate) {
    this.context = context
    this.template = template
  }

  /** @throws ObjectGoneError, ApiError */
  static async run(context: TemplateContext, template: BoxTemplate): Promise<ReconciliationOutcome> {
    const pass = new TemplateReconciliation(context, template)
    return template.metadata.deletionTimestamp === undefined ? await pass.#run() : await pass.#cancel()
  }

  /** Its Jobs are its own, and go with it. They do not wait for what holds it still: a finalizer of somebody else. */
  async #cancel(): Promise<ReconciliationOutcome> {
    const { context, template } = this
    const { jobs } = await listBakeRuns(context, template)
    for (const { name, isOwn, isLeaving, progress } of jobs) {
      if (!isOwn || isLeaving || progress.state === 'ended') continue
      await removeJob(this, { step: 'remove-job', job: name, reason: 'its template is being deleted' })
    }
    context.slots.release(templateKey(template))
    return { step: 'nothing' }
  }

  async #run(): Promise<ReconciliationOutcome> {
    const { book, settings } = this.context
    const rebake = this.template.metadata.annotations?.[REBAKE_ANNOTATION]
    // However many there are, they cost no call any more.
    if (
      isReportedOverQuota(this.template, rebake) &&
      exceedsTemplateQuota(book, this.template, settings.maxTemplates)
    )
      return { step: 'nothing' }
    for (let taken = 0; taken < MAX_STEPS; taken += 1) {
      const gathered = await gatherBake(this.context, this.template)
      const { facts } = gathered
      const step = this.#turn(planBake(facts))
      if (step.step === 'nothing' || step.step === 'wait') {
        await this.writeStatus(gathered, facts.bake, step.step === 'wait' ? step.reason : undefined)
        const since = Date.parse(this.template.status?.bake?.completedAt ?? '') || facts.now
        return { ...step, troubledSince: facts.problem?.waits ? since : undefined }
      }
      await applyBakeAction(this, gathered, step)
    }
    throw new Error(`no end after ${MAX_STEPS} steps`)
  }

  /** A bake begins when it is its turn; who does not bake lets others have theirs. */
  #turn(step: BakeAction): BakeAction {
    const { slots, settings } = this.context
    const key = templateKey(this.template)
    if (step.step === 'start') {
      const full = slots.acquire(key)
      return full === undefined
        ? step
        : { step: 'wait', reason: SLOT_LIMIT_MESSAGES[full](settings.limits[full]) }
    }
    if (isBaking(this.template)) slots.occupy(key)
    else slots.release(key)
    return step
  }

  /** The status with this bake in it; the conditions follow from it. @param waitsFor what a bake that is due waits for */
  async writeStatus(
    { facts, names, credentials }: GatheredBake,
    bake: BakeStatus | undefined,
    waitsFor?: string,
  ): Promise<void> {
    const { context, template } = this
    const { now, generation, problem, credentialState } = facts
    const after: BakeFacts = { ...facts, bake, request: requestAfter(facts, bake) }
    const current = currentCondition({ bake, generation, credentialState, names, credentials })
    const isDue = dueReason(after) !== undefined
    const findings = templateFindings({ bake, problem, isDue, waitsFor, current })
    this.template = await context.writer.updateStatus(template, {
      ...(bake === undefined ? {} : { bake }),
      observedGeneration: generation,
      conditions: mergeConditions(template.status?.conditions, findings, { now, generation }),
    })
  }
}

const SLOT_LIMIT_MESSAGES = {
  organization: (limit: number) =>
    `the organization has ${limit} under way, as many as it may have (DAVIT_MAX_BAKES_PER_ORGANIZATION)`,
  all: (limit: number) => `${limit} are under way, as many as the operator allows (DAVIT_MAX_BAKES)`,
}

export function templateKey({ metadata: { namespace = '', name } }: BoxTemplate): string {
  return `${namespace}/${name}`
}

/** Whether a bake of it was begun and has not ended. */
export function isBaking({ status }: BoxTemplate): boolean {
  return status?.bake?.state === 'pending' || status?.bake?.state === 'running'
}

/** A request that the bake answers is none any more. */
function requestAfter({ request }: BakeFacts, bake: BakeStatus | undefined): BakeFacts['request'] {
  const isAnswered = request.kind === 'new' && request.value === bake?.observedRebake
  return isAnswered ? { kind: 'old', value: request.value } : request
}
