/**
 * Decides the next action for the bake of a template. The controller gathers the facts, asks, applies the action, and asks again until
 * the answer is `nothing` or `wait`. Actions are idempotent: after a crash the same facts lead to the same action.
 *
 *   none, succeeded, failed --due: start--> pending                   (stores the Job's name before the Job exists)
 *   none, succeeded, failed --due, but with a problem: refuse--> failed (without a Job)
 *   pending --no Job: create--> pending
 *   pending --no Job, and something changed--> as if it had not started
 *   pending --pod runs: run--> running
 *   pending, running --Job ended: finish--> succeeded | failed
 *   pending --pod cannot run: finish--> failed                        (then remove-job)
 *   running --Job is gone: finish--> failed (canceled)
 *   pending, running --bakes were turned off: refuse--> failed        (the Job ends by itself)
 *
 * A bake is due if this generation has none, if one is requested, and, after a failure, if a credential changed, the problem is gone,
 * or the wait of a retryable failure is over (interface §3.3). Changes during a bake take effect after it. Nothing starts while
 * another Job or pod of the template exists.
 */
import type { Request } from '../../apis/annotations.ts'
import type { BakeStatus } from '../../apis/bake.ts'
import { type BakeOutcome, type BakeProgress, FIXES, LONGEST_WAIT_MS, nextAttemptAt } from './outcome.ts'
import type { BakeProblem } from './service-credentials.ts'

export type JobFacts = {
  name: string
  /** Owned by this template, not by an earlier one of the same name. */
  isOwn: boolean
  isLeaving: boolean
  progress: BakeProgress
}

export type BakeFacts = {
  now: number
  generation: number
  /** The rebake annotation, compared with `bake.observedRebake`. */
  request: Request
  credentialState: string
  problem?: BakeProblem | undefined
  /** The cluster has no bake image: nothing is baked, and `jobs` is empty. */
  isOff?: boolean
  bake?: BakeStatus | undefined
  jobs: readonly JobFacts[]
  /** Pods that have not ended though their Job has ended or is gone. */
  leavingPods: readonly string[]
}

export type BakeAction =
  /** Reports an unreadable request, once. */
  | { step: 'ignore-request'; value: string; message: string }
  | { step: 'nothing'; until?: number | undefined }
  | { step: 'wait'; reason: string; until?: number | undefined }
  | { step: 'start'; attempts: number; reason: string }
  | { step: 'refuse'; problem: BakeProblem }
  | { step: 'create'; job: string }
  | { step: 'run' }
  | { step: 'finish'; outcome: BakeOutcome; nextAttemptAt?: number | undefined }
  | { step: 'remove-job'; job: string; reason: string }

/** How often to look for a Job or pod that is being deleted. */
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
      return { step: 'wait', reason: "the current bake's Pod is not running yet", until: progress.until }
    case 'running':
      return bake.state === 'running'
        ? { step: 'wait', reason: 'the current bake is running' }
        : { step: 'run' }
    case 'stuck':
    case 'ended':
      return finishAction(facts, bake, progress.outcome)
  }
}

/** @param isTransient absent: the failure itself tells whether a retry may help */
export function finishAction(
  { now }: Pick<BakeFacts, 'now'>,
  { attempts }: BakeStatus,
  outcome: BakeOutcome,
  isTransient?: boolean,
): Extract<BakeAction, { step: 'finish' }> {
  const { failure, services } = outcome
  // Registries lock accounts: no retry after a wrong password, whatever else failed.
  const isLocking = services.some(({ verified }) => verified?.code === 'wrong_credentials')
  const next = failure && !isLocking ? nextAttemptAt({ ...failure, attempts, isTransient }, now) : undefined
  return { step: 'finish', outcome, nextAttemptAt: next }
}

function planMissing(facts: BakeFacts, bake: BakeStatus): BakeAction {
  if (bake.state === 'running' && !facts.isOff) return finishAction(facts, bake, CANCELED)
  const changed = changeSince(facts, bake)
  if (changed !== undefined || facts.problem) return planClosed(facts, changed ?? 'not started yet')
  return planOthers(facts) ?? { step: 'create', job: bake.job ?? '' }
}

const CANCELED: BakeOutcome = {
  services: [],
  failure: {
    step: 'start',
    code: 'canceled',
    message: "The bake's Job no longer exists, so the result is lost.",
    fix: FIXES.canceled,
  },
}

/** @param cause why a bake is due, if that is known */
function planClosed(facts: BakeFacts, cause = dueReason(facts)): BakeAction {
  const { problem } = facts
  const idle: BakeAction = { step: 'nothing', until: retryTime(facts) }
  if (cause === undefined) return planOthers(facts, retryTime(facts)) ?? idle
  if (problem) return isRefused(facts, problem) ? (planOthers(facts) ?? idle) : { step: 'refuse', problem }
  return planOthers(facts) ?? { step: 'start', attempts: nextAttempt(facts), reason: cause }
}

/** Removes or waits for all other Jobs and pods of the template: one bake at a time. */
function planOthers({ jobs, leavingPods, now }: BakeFacts, until?: number): BakeAction | undefined {
  const others = jobs.filter(({ progress }) => progress.state !== 'ended')
  const other = others.find(({ isLeaving }) => !isLeaving)
  if (other)
    return {
      step: 'remove-job',
      job: other.name,
      reason: other.isOwn
        ? 'the Job does not belong to the current bake'
        : 'the BoxTemplate of the Job no longer exists',
    }
  const [leaving] = [
    ...others.map(({ name }) => `the Job ${name}`),
    ...leavingPods.map((name) => `the Pod ${name}`),
  ]
  if (leaving === undefined) return undefined
  const again = Math.min(until ?? Number.POSITIVE_INFINITY, now + LEAVING_MS)
  return { step: 'wait', reason: `${leaving} is still terminating`, until: again }
}

function retryTime({ bake, now }: Pick<BakeFacts, 'bake' | 'now'>): number | undefined {
  if (bake?.nextAttemptAt === undefined) return undefined
  const at = Date.parse(bake.nextAttemptAt)
  // Stored by a clock that was ahead.
  return at > now + LONGEST_WAIT_MS ? now : at
}

export function dueReason(facts: BakeFacts): string | undefined {
  const { bake, problem, now } = facts
  if (!bake) return 'first bake'
  const changed = changeSince(facts, bake)
  if (changed !== undefined || bake.state !== 'failed') return changed
  if (bake.failure?.step === 'check') return problem ? 'still rejected' : 'the problem was resolved'
  const retry = retryTime(facts)
  return retry !== undefined && now >= retry ? 'retry' : undefined
}

function changeSince(
  { generation, request, credentialState }: BakeFacts,
  bake: BakeStatus,
): string | undefined {
  if (bake.generation !== generation) return 'the spec changed'
  if (request.kind === 'new') return 'a bake was requested'
  const repeats = bake.state === 'failed' || bake.state === 'pending'
  return repeats && bake.credentialState !== credentialState ? 'a credential changed' : undefined
}

function isRefused(facts: BakeFacts, problem: BakeProblem): boolean {
  const { bake } = facts
  if (bake?.state !== 'failed' || changeSince(facts, bake) !== undefined) return false
  const { failure } = bake
  return (
    failure?.step === 'check' &&
    failure.code === problem.code &&
    failure.service === problem.service &&
    failure.message === problem.message
  )
}

function nextAttempt(facts: BakeFacts): number {
  const { bake } = facts
  if (!bake || bake.state === 'succeeded' || changeSince(facts, bake) !== undefined) return 1
  return bake.state === 'pending' ? bake.attempts : bake.attempts + 1
}
