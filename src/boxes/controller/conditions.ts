/** What the conditions of a template say, so that kstatus reads them right. `Ready` follows from the last bake; it is never set by hand. */
import type { BakeFailure, BakeStatus } from '../../apis/bake.ts'
import type { ConditionUpdate } from '../../kube/conditions.ts'
import { failureReason } from './bake-failure.ts'
import type { BakeProblem } from './bake-problem.ts'

type Answer = Omit<ConditionUpdate, 'type'>

export type TemplateView = {
  /** As it will be. */
  bake: BakeStatus | undefined
  /** What would keep a bake from being begun now. */
  problem: BakeProblem | undefined
  /** Another bake is due: the last one does not answer what is wanted. */
  isDue: boolean
  /** What a bake that is due waits for, in words. */
  waitsFor?: string | undefined
  /** Whether the box was baked with the credentials as they are (box-currency.ts). */
  current: Answer
}

export function templateFindings(view: TemplateView): ConditionUpdate[] {
  return [
    { type: 'Ready', ...ready(view) },
    { type: 'Reconciling', ...reconciling(view) },
    { type: 'Stalled', ...stalled(view) },
    { type: 'Succeeded', ...succeeded(view.bake) },
    { type: 'Current', ...view.current },
  ]
}

function ready({ bake, problem, isDue, waitsFor }: TemplateView): Answer {
  if (problem) return { status: 'False', ...problemWords(problem) }
  if (isDue || !bake) return { status: 'False', ...due(waitsFor) }
  const answer = succeeded(bake)
  return answer.status === 'Unknown' ? { ...answer, status: 'False' } : answer
}

const DUE = { reason: 'Baking', message: 'A bake is due.' }

function due(waitsFor: string | undefined): { reason: string; message: string } {
  return waitsFor === undefined
    ? DUE
    : { reason: 'Waiting', message: `A bake is due, and waits: ${waitsFor}.` }
}

function succeeded(bake: BakeStatus | undefined): Answer {
  if (bake?.state === 'succeeded') {
    const count = bake.services?.length ?? 0
    const message = count === 1 ? 'The image was pulled.' : `The images of ${count} services were pulled.`
    return { status: 'True', reason: 'Baked', message }
  }
  if (bake?.state === 'failed' && bake.failure) return { status: 'False', ...failureWords(bake.failure) }
  const message = bake === undefined ? DUE.message : BAKING[bake.state === 'running' ? 'running' : 'pending']
  return { status: 'Unknown', reason: 'Baking', message }
}

const BAKING = {
  pending: 'The pod of the bake does not run yet.',
  running: 'The images are being pulled.',
}

function reconciling({ bake, problem, isDue, waitsFor }: TemplateView): Answer {
  if (bake?.state === 'pending' || bake?.state === 'running')
    return { status: 'True', reason: 'Baking', message: BAKING[bake.state] }
  if (problem?.waits) return { status: 'True', ...problemWords(problem) }
  if (problem) return UP_TO_DATE
  if (isDue || !bake) return { status: 'True', ...due(waitsFor) }
  if (bake.nextAttemptAt !== undefined)
    return {
      status: 'True',
      reason: 'Retrying',
      message: `Attempt ${bake.attempts} failed; the next is at ${bake.nextAttemptAt}.`,
    }
  return UP_TO_DATE
}

const UP_TO_DATE: Answer = {
  status: 'False',
  reason: 'UpToDate',
  message: 'The status speaks of the current spec.',
}

/** What nothing but a change, by somebody, can mend. */
function stalled(view: TemplateView): Answer {
  const { bake, problem } = view
  if (reconciling(view).status === 'True') return NOTHING_TO_MEND
  if (problem) return { status: 'True', ...problemWords(problem) }
  if (bake?.state === 'failed' && bake.failure) return { status: 'True', ...failureWords(bake.failure) }
  return NOTHING_TO_MEND
}

const NOTHING_TO_MEND: Answer = {
  status: 'False',
  reason: 'NothingToMend',
  message: 'Nothing waits for somebody to act.',
}

function problemWords({ service, code, message }: BakeProblem): { reason: string; message: string } {
  return { reason: failureReason(code), message: about(service, message) }
}

/** What to do comes first: a condition has less room than the status has for the words of a tool. */
function failureWords({ service, code, message, fix }: BakeFailure): { reason: string; message: string } {
  const words = message === '' ? '' : ` The words: ${message}`
  return { reason: failureReason(code), message: about(service, `${fix}${words}`) }
}

function about(service: string | undefined, words: string): string {
  return service === undefined ? words : `Service ${service}: ${words}`
}
