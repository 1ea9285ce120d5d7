/** One pass over a template: gathers, asks for the next step and takes it, until there is none. */
import type { BakeStatus } from '../../api/bake-status.ts'
import { type BoxTemplate, REBAKE_ANNOTATION } from '../../api/box-template.ts'
import { templateFindings } from '../../domain/bake-conditions.ts'
import { type BakeFacts, type BakeStep, dueReason, planBake } from '../../domain/bake-plan.ts'
import { boxCurrency } from '../../domain/box-currency.ts'
import { conditionsAfter } from '../../domain/conditions.ts'
import { type Gathered, gatherBake } from './gather-bake.ts'
import { listRuns } from './list-runs.ts'
import { removeJob, takeBakeStep } from './take-bake-step.ts'
import type { TemplateContext } from './template-context.ts'
import { isBeyond, isKnownBeyond } from './template-room.ts'

/** A plan that goes round in circles must not hold a worker. */
const MAX_STEPS = 12

/** Steps after which there is nothing to ask. */
export type LastBakeStep = Extract<BakeStep, { step: 'nothing' | 'wait' }> & {
  /** Since when a problem is there that may go without a change of the template; milliseconds since 1970. */
  troubledSince?: number | undefined
}

export class BakePass {
  readonly context: TemplateContext
  template: BoxTemplate

  private constructor(context: TemplateContext, template: BoxTemplate) {
    this.context = context
    this.template = template
  }

  /** @throws ObjectGoneError, ApiError */
  static async run(context: TemplateContext, template: BoxTemplate): Promise<LastBakeStep> {
    const pass = new BakePass(context, template)
    return template.metadata.deletionTimestamp === undefined ? await pass.#run() : await pass.#cancel()
  }

  /** Its Jobs are its own, and go with it. They do not wait for what holds it still: a finalizer of somebody else. */
  async #cancel(): Promise<LastBakeStep> {
    const { context, template } = this
    const { jobs } = await listRuns(context, template)
    for (const { name, isOwn, isLeaving, progress } of jobs) {
      if (!isOwn || isLeaving || progress.state === 'ended') continue
      await removeJob(this, { step: 'remove-job', job: name, reason: 'its template is being deleted' })
    }
    context.turns.release(keyOfTemplate(template))
    return { step: 'nothing' }
  }

  async #run(): Promise<LastBakeStep> {
    const { book, settings } = this.context
    const rebake = this.template.metadata.annotations?.[REBAKE_ANNOTATION]
    // However many there are, they cost no call any more.
    if (isKnownBeyond(this.template, rebake) && isBeyond(book, this.template, settings.maxTemplates))
      return { step: 'nothing' }
    for (let taken = 0; taken < MAX_STEPS; taken += 1) {
      const gathered = await gatherBake(this.context, this.template)
      const { facts } = gathered
      const step = this.#turn(planBake(facts))
      if (step.step === 'nothing' || step.step === 'wait') {
        await this.record(gathered, facts.bake, step.step === 'wait' ? step.reason : undefined)
        const since = Date.parse(this.template.status?.bake?.completedAt ?? '') || facts.now
        return { ...step, troubledSince: facts.problem?.waits ? since : undefined }
      }
      await takeBakeStep(this, gathered, step)
    }
    throw new Error(`no end after ${MAX_STEPS} steps`)
  }

  /** A bake begins when it is its turn; who does not bake lets others have theirs. */
  #turn(step: BakeStep): BakeStep {
    const { turns, settings } = this.context
    const key = keyOfTemplate(this.template)
    if (step.step === 'start') {
      const full = turns.take(key)
      return full === undefined ? step : { step: 'wait', reason: TURN_WORDS[full](settings.limits[full]) }
    }
    if (isUnderWay(this.template)) turns.hold(key)
    else turns.release(key)
    return step
  }

  /** The status with this bake in it; the conditions follow from it. @param waitsFor what a bake that is due waits for */
  async record(
    { facts, names, credentials }: Gathered,
    bake: BakeStatus | undefined,
    waitsFor?: string,
  ): Promise<void> {
    const { context, template } = this
    const { now, generation, problem, credentialState } = facts
    const after: BakeFacts = { ...facts, bake, request: requestAfter(facts, bake) }
    const current = boxCurrency({ bake, generation, credentialState, names, credentials })
    const isDue = dueReason(after) !== undefined
    const findings = templateFindings({ bake, problem, isDue, waitsFor, current })
    this.template = await context.writer.status(template, {
      ...(bake === undefined ? {} : { bake }),
      observedGeneration: generation,
      conditions: conditionsAfter(template.status?.conditions, findings, { now, generation }),
    })
  }
}

const TURN_WORDS = {
  organization: (limit: number) =>
    `the organization has ${limit} under way, as many as it may have (DAVIT_MAX_BAKES_PER_ORGANIZATION)`,
  all: (limit: number) => `${limit} are under way, as many as the operator allows (DAVIT_MAX_BAKES)`,
}

export function keyOfTemplate({ metadata: { namespace = '', name } }: BoxTemplate): string {
  return `${namespace}/${name}`
}

/** Whether a bake of it was begun and has not ended. */
export function isUnderWay({ status }: BoxTemplate): boolean {
  return status?.bake?.state === 'pending' || status?.bake?.state === 'running'
}

/** A request that the bake answers is none any more. */
function requestAfter({ request }: BakeFacts, bake: BakeStatus | undefined): BakeFacts['request'] {
  const isAnswered = request.kind === 'new' && request.value === bake?.observedRebake
  return isAnswered ? { kind: 'old', value: request.value } : request
}
