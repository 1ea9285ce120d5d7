/** One pass over a template: gathers, asks for the next step and takes it, until there is none. */
import type { BakeStatus } from '../../api/bake-status.ts'
import type { BoxTemplate } from '../../api/box-template.ts'
import { templateFindings } from '../../domain/bake-conditions.ts'
import { type BakeFacts, type BakeStep, dueReason, planBake } from '../../domain/bake-plan.ts'
import { conditionsAfter } from '../../domain/conditions.ts'
import type { BakeContext } from './bake-context.ts'
import { type Gathered, gatherBake } from './gather-bake.ts'
import { takeBakeStep } from './take-bake-step.ts'

/** A plan that goes round in circles must not hold a worker. */
const MAX_STEPS = 12

/** Steps after which there is nothing to ask. */
export type LastBakeStep = Extract<BakeStep, { step: 'nothing' | 'wait' }> & { waits?: boolean }

export class BakePass {
  readonly context: BakeContext
  template: BoxTemplate

  private constructor(context: BakeContext, template: BoxTemplate) {
    this.context = context
    this.template = template
  }

  /** @throws TemplateGoneError, ApiError */
  static async run(context: BakeContext, template: BoxTemplate): Promise<LastBakeStep> {
    // Its Jobs are its own, and go with it: no finalizer has to hold it for them.
    if (template.metadata.deletionTimestamp !== undefined) return { step: 'nothing' }
    return await new BakePass(context, template).#run()
  }

  async #run(): Promise<LastBakeStep> {
    for (let taken = 0; taken < MAX_STEPS; taken += 1) {
      const gathered = await gatherBake(this.context, this.template)
      const step = planBake(gathered.facts)
      if (step.step === 'nothing' || step.step === 'wait') {
        await this.record(gathered, gathered.facts.bake)
        return { ...step, waits: gathered.facts.problem !== undefined }
      }
      await takeBakeStep(this, gathered, step)
    }
    throw new Error(`no end after ${MAX_STEPS} steps`)
  }

  /** The status with this bake in it; the conditions follow from it. */
  async record({ facts }: Gathered, bake: BakeStatus | undefined): Promise<void> {
    const { context, template } = this
    const { now, generation, problem } = facts
    const after: BakeFacts = { ...facts, bake, request: requestAfter(facts, bake) }
    const findings = templateFindings({ bake, problem, isDue: dueReason(after) !== undefined })
    this.template = await context.writer.status(template, {
      ...(bake === undefined ? {} : { bake }),
      observedGeneration: generation,
      conditions: conditionsAfter(template.status?.conditions, findings, { now, generation }),
    })
  }
}

/** A request that the bake answers is none any more. */
function requestAfter({ request }: BakeFacts, bake: BakeStatus | undefined): BakeFacts['request'] {
  const isAnswered = request.kind === 'new' && request.value === bake?.observedRebake
  return isAnswered ? { kind: 'old', value: request.value } : request
}
