/**
 * The next step for the bake of a template. The controller gathers the facts, asks, takes the step, and asks again with what came of
 * it, until the answer is `nothing` or `wait`. A step may be repeated: after a crash the facts lead to the same one.
 *
 *   none, succeeded, failed --due, no problem: start--> pending          (the name of the Job is durable before the Job is)
 *   none, succeeded, failed --due, a problem: refuse--> failed           (no Job)
 *   pending --its Job is not there: create--> pending
 *   pending --its Job is not there, and something changed--> as if it had not been started
 *   pending --its pod runs: run--> running
 *   pending, running --its Job ended: finish--> succeeded | failed
 *   pending --its pod cannot run: finish--> failed                       (then remove-job)
 *   running --its Job is gone: finish--> failed (canceled)
 *   pending, running --there are no bakes any more: refuse--> failed     (its Job ends by itself)
 *
 * A bake is due when there was none of this generation, when one is asked for, and, after a failure, when a credential has changed,
 * when the problem has gone, or when it was one that passes and its wait is over (interface §3.3). What changes in the middle of a bake
 * is seen after it. Nothing is started while any other Job or pod of the template is there.
 */

import type { Request } from '../../apis/annotations.ts'
import type { BakeStatus } from '../../apis/bake.ts'
import type { BakeProblem } from './bake-job.ts'
import { type BakeOutcome, type BakeProgress, FIXES, LONGEST_WAIT_MS, nextAttemptAt } from './outcome.ts'

export type JobFacts = {
  name: string
  /** Of this very template, not of one before it under the same name. */
  isOwn: boolean
  /** It is being deleted. */
  isLeaving: boolean
  progress: BakeProgress
}

export type BakeFacts = {
  now: number
  generation: number
  /** The annotation, against `bake.observedRebake`. */
  request: Request
  credentialState: string
  /** What keeps a bake from being begun now. */
  problem?: BakeProblem | undefined
  /** Nothing is baked at all, and no Job is looked for. */
  isOff?: boolean
  bake?: BakeStatus | undefined
  jobs: readonly JobFacts[]
  /** Pods that are not over, while their Job is, or is gone. */
  leavingPods: readonly string[]
}

export type BakeAction =
  /** The request cannot be read: that is said once. */
  | { step: 'ignore-request'; value: string; message: string }
  | { step: 'nothing'; until?: number | undefined }
  | { step: 'wait'; reason: string; until?: number | undefined }
  | { step: 'start'; attempts: number; reason: string }
  | { step: 'refuse'; problem: BakeProblem }
  | { step: 'create'; job: string }
  | { step: 'run' }
  | { step: 'finish'; outcome: BakeOutcome; nextAttemptAt?: number | undefined }
  | { step: 'remove-job'; job: string; reason: string }

/** So long after a pod was told to leave it is looked for again. */
const LEAVING_MS = 10_000

export function planBake(facts: BakeFacts): BakeAction {
  const { bake, request } = facts
  if (bake && request.kind === 'invalid')
    return { step: 'ignore-request', value: request.value, message: request.message }
  const open = bake?.state === 'pending' || bake?.state === 'running' ? bake : undefined
  if (!open) return planClosed(facts)
  const job = facts.jobs.find(({ isOwn, name }) => isOwn && name === open.job)
  return job ? planOpen(facts, open, job.progress) : planMissing(facts, open)
}

function planOpen(facts: BakeFacts, bake: BakeStatus, progress: BakeProgress): BakeAction {
  switch (progress.state) {
    case 'waiting':
      return { step: 'wait', reason: 'its pod does not run yet', until: progress.until }
    case 'running':
      return bake.state === 'running' ? { step: 'wait', reason: 'it runs' } : { step: 'run' }
    case 'stuck':
    case 'ended':
      return finishAction(facts, bake, progress.outcome)
  }
}

/** @param facts of the moment in which it ends */
export function finishAction(
  { now }: Pick<BakeFacts, 'now'>,
  { attempts }: BakeStatus,
  outcome: BakeOutcome,
): Extract<BakeAction, { step: 'finish' }> {
  const { failure, services } = outcome
  // Registries lock accounts, whatever else has failed beside the wrong password.
  const isLocking = services.some(({ verified }) => verified?.code === 'wrong_credentials')
  const next = failure && !isLocking ? nextAttemptAt({ code: failure.code, attempts }, now) : undefined
  return { step: 'finish', outcome, ...(next === undefined ? {} : { nextAttemptAt: next }) }
}

/** The Job of a bake that is not over is not there. */
function planMissing(facts: BakeFacts, bake: BakeStatus): BakeAction {
  if (bake.state === 'running' && !facts.isOff) return finishAction(facts, bake, CANCELED)
  const changed = reasonFor(facts, bake)
  if (changed !== undefined || facts.problem) return planClosed(facts, changed ?? 'not begun')
  return planCrowd(facts) ?? { step: 'create', job: bake.job ?? '' }
}

const CANCELED: BakeOutcome = {
  services: [],
  failure: {
    step: 'start',
    code: 'canceled',
    message: 'Its Job is gone, and with it what the bake came to.',
    fix: FIXES.canceled,
  },
}

function planClosed(facts: BakeFacts, begin?: string): BakeAction {
  const { problem } = facts
  const due = begin ?? dueReason(facts)
  if (due === undefined) return planCrowd(facts, { until: retryTime(facts) }) ?? idle(facts)
  if (problem)
    return isRefused(facts, problem) ? (planCrowd(facts) ?? idle(facts)) : { step: 'refuse', problem }
  return planCrowd(facts) ?? { step: 'start', attempts: attemptsOf(facts), reason: due }
}

/** Whatever else there is of the template: one bake at a time. */
function planCrowd(
  { jobs, leavingPods, now }: BakeFacts,
  { until }: { until?: number | undefined } = {},
): BakeAction | undefined {
  const others = jobs.filter(({ progress }) => progress.state !== 'ended')
  const other = others.find(({ isLeaving }) => !isLeaving)
  if (other)
    return {
      step: 'remove-job',
      job: other.name,
      reason: other.isOwn ? 'it is no bake that counts' : 'it is of a template that is gone',
    }
  const [leaving] = [
    ...others.map(({ name }) => `the Job ${name}`),
    ...leavingPods.map((name) => `the pod ${name}`),
  ]
  if (leaving === undefined) return undefined
  const again = Math.min(until ?? Number.POSITIVE_INFINITY, now + LEAVING_MS)
  return { step: 'wait', reason: `${leaving} is leaving`, until: again }
}

function idle(facts: BakeFacts): BakeAction {
  return { step: 'nothing', until: retryTime(facts) }
}

function retryTime({ bake, now }: Pick<BakeFacts, 'bake' | 'now'>): number | undefined {
  if (bake?.nextAttemptAt === undefined) return undefined
  const at = Date.parse(bake.nextAttemptAt)
  // The clock was set back since: nobody waits for it to come there again.
  return at > now + LONGEST_WAIT_MS ? now : at
}

/** Why a bake is due; undefined where none is. */
export function dueReason(facts: BakeFacts): string | undefined {
  const { bake, problem, now } = facts
  if (!bake) return 'the first'
  const changed = reasonFor(facts, bake)
  if (changed !== undefined || bake.state !== 'failed') return changed
  if (bake.failure?.step === 'check') return problem ? 'still refused' : 'the problem is gone'
  const retry = retryTime(facts)
  return retry !== undefined && now >= retry ? 'tried again' : undefined
}

/** What a bake that is recorded does not answer. */
function reasonFor(
  { generation, request, credentialState }: BakeFacts,
  bake: BakeStatus,
): string | undefined {
  if (bake.generation !== generation) return 'the spec has changed'
  if (request.kind === 'new') return 'it was asked for'
  const repeats = bake.state === 'failed' || bake.state === 'pending'
  return repeats && bake.credentialState !== credentialState ? 'a credential has changed' : undefined
}

/** Whether the status says so already. */
function isRefused(facts: BakeFacts, problem: BakeProblem): boolean {
  const { bake } = facts
  if (bake?.state !== 'failed' || reasonFor(facts, bake) !== undefined) return false
  const { failure } = bake
  return (
    failure?.step === 'check' &&
    failure.code === problem.code &&
    failure.service === problem.service &&
    failure.message === problem.message
  )
}

function attemptsOf(facts: BakeFacts): number {
  const { bake } = facts
  if (!bake || bake.state === 'succeeded' || reasonFor(facts, bake) !== undefined) return 1
  return bake.state === 'pending' ? bake.attempts : bake.attempts + 1
}
