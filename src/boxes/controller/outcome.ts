/**
 * What a bake has come to, from what Kubernetes tells of its Job and pod, and from the pod's termination message. None of it is
 * trusted to be there or to be readable: whatever is found is progress, or an end in words.
 */

import type { BakeFailure } from '../../apis/bake.ts'
import { type BakeFailureCode, type BakeResult, bakeResult } from '../../apis/bake-result.ts'
import { bakeFailure } from './bake-failure.ts'
import type { BakeJob, BakePod } from './bake-run.ts'

/** `services` as the pod told of them; none where it told nothing. */
export type BakeOutcome = { services: BakeResult['services']; failure?: BakeFailure | undefined }

export type BakeProgress =
  /** `until`: when to look again, though nothing has happened; milliseconds since 1970. */
  | { state: 'waiting'; until?: number | undefined }
  | { state: 'running' }
  /** It will come to nothing: its Job is to be removed. */
  | { state: 'stuck'; outcome: BakeOutcome }
  | { state: 'ended'; outcome: BakeOutcome }

export type BakeRun = {
  /** When this bake was begun, by our own clock, milliseconds since 1970; absent where the Job is of another one. */
  startedAt?: number | undefined
  job: BakeJob
  /** The pod of the Job, if there is one. */
  pod?: BakePod | undefined
  /** Why the Job has no pod, or why that does not start, in the words of Kubernetes; newest last. */
  complaints: readonly string[]
  /** Names of the services that were ordered. */
  services: readonly string[]
  /** So long a Job of a bake may be active: after that whoever controls Jobs ends it, if there is anybody. */
  activeMs: number
}

/** Name of the container of a bake. */
export const BAKE_CONTAINER = 'bake'

/** So long a Job may be without a pod, an image may fail to be pulled, and a pod may wait for a node or for its volumes. */
const POD_MS = 60_000
/** So long a Job may be suspended: by somebody, or by a queue that makes it wait for its turn. */
const SUSPENDED_MS = 3_600_000
/** So long whoever controls Jobs may take to end one. */
const END_MS = 600_000
const IMAGE_MS = 120_000
/** So long a Job may be without a pod, and without a word. */
const NO_POD_MS = 600_000
const SCHEDULE_MS = 600_000

const IMAGE_REASONS = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'ImageInspectError',
  'RegistryUnavailable',
  'SignatureValidationFailed',
])
const CREATE_REASONS = new Set([
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
  'PostStartHookError',
])

/** @param now milliseconds since 1970 */
export function bakeProgress(run: BakeRun, now: number): BakeProgress {
  const { job, pod } = run
  const condition = (type: string) =>
    job.status.conditions.find((each) => each.type === type && each.status === 'True')
  if (condition('Complete')) return { state: 'ended', outcome: completed(run) }
  const failed = condition('Failed')
  if (failed) return { state: 'ended', outcome: failedJob(run, failed) }
  // It may be suspended in between, and somebody may do that again and again: no bake holds its turn for ever.
  if (now >= madeAt(run) + SUSPENDED_MS + run.activeMs + END_MS)
    return { state: 'stuck', outcome: failure('timed_out', 'The Job has not ended long after its deadline.') }
  const suspended = condition('Suspended')
  if ((suspended || job.spec.suspend) && (!pod || isWaiting(pod))) {
    return given(begunAt(run) + SUSPENDED_MS, now, () =>
      failure('suspended', suspended?.message || 'The Job is suspended.'),
    )
  }
  if (!pod) return withoutPod(run, now)
  return isWaiting(pod) ? waitingPod(run, pod, now) : { state: 'running' }
}

/** Its container was not started yet. */
export function isWaiting(pod: BakePod): boolean {
  const { running, terminated } = stateOf(pod)
  return !running && !terminated && !isOver(pod)
}

function stateOf(pod: BakePod) {
  return pod.status.containerStatuses.find(({ name }) => name === BAKE_CONTAINER)?.state ?? {}
}

/** The Job has not heard of it yet. */
function isOver({ status }: BakePod): boolean {
  return status.phase === 'Succeeded' || status.phase === 'Failed'
}

function failure(code: BakeFailureCode, message: string, step: BakeFailure['step'] = 'start'): BakeOutcome {
  return { services: [], failure: bakeFailure({ step, code, message }) }
}

function completed(run: BakeRun): BakeOutcome {
  const { pod } = run
  if (!pod) return failure('no_result', 'The Job completed, and its pod is gone with its result.')
  const { result, problem } = readResult(pod, run.services)
  if (result === undefined) return failure('no_result', `The Job completed, and its pod ${problem}`)
  if (result.failure === undefined) return { services: result.services }
  return failedResult(result, result.failure)
}

function failedJob(run: BakeRun, failed: { reason: string; message: string }): BakeOutcome {
  const { pod } = run
  const words = failed.message || failed.reason
  const told = pod ? readResult(pod, run.services) : undefined
  const own = told?.result?.failure && failedResult(told.result, told.result.failure)
  // Told to end, a bake does not know by whom: Kubernetes may.
  if (own && own.failure?.code !== 'canceled') return own
  // Its last word, after the box was put in place. What failed came later, or beside it: such as a container of a mesh that did not end.
  if (told?.result && !own) return { services: told.result.services }
  const ended =
    failed.reason === 'DeadlineExceeded' ? failure('timed_out', words) : terminationOutcome(pod, words)
  if (ended) return { ...ended, services: own?.services ?? [] }
  if (own) return own
  return failedPod(pod, words, told?.problem)
}

/** A kubelet has only words for it. It is of the pod's own making: the next one would come to the same. */
const OUT_OF_SPACE = /exceeds the (total )?limit|exceeded its local ephemeral storage limit/
/** Of a kubelet whose node is shut down. */
const NODE_REASONS = new Set(['Evicted', 'Terminated', 'NodeShutdown', 'Shutdown', 'NodeLost'])

/** Who ended the pod, where it was not the bake itself. @param words of the Job */
function terminationOutcome(pod: BakePod | undefined, words: string): BakeOutcome | undefined {
  if (!pod) return failure('evicted', `The pod is gone: ${words}`)
  const { reason, message, conditions } = pod.status
  const disrupted = conditions.find(({ type, status }) => type === 'DisruptionTarget' && status === 'True')
  if (reason === 'Evicted' && OUT_OF_SPACE.test(message)) return failure('no_room', message)
  if (disrupted || NODE_REASONS.has(reason))
    return failure('evicted', message || disrupted?.message || reason)
  return reason === 'DeadlineExceeded' ? failure('timed_out', message || words) : undefined
}

/** @param words of the Job @param problem what is wrong with the result, after "and" */
function failedPod(pod: BakePod | undefined, words: string, problem: string | undefined): BakeOutcome {
  const { reason = '', message = '' } = pod?.status ?? {}
  const terminated = pod && stateOf(pod).terminated
  if (terminated?.reason === 'OOMKilled')
    return failure('out_of_memory', 'The container used more memory than it may (OOMKilled).')
  if (terminated === undefined) return failure('pod_refused', message || reason || `The pod failed: ${words}`)
  return failure('no_result', `The pod ended with exit code ${terminated.exitCode}, and ${problem}`)
}

function failedResult(result: BakeResult, told: NonNullable<BakeResult['failure']>): BakeOutcome {
  return { services: result.services, failure: bakeFailure(told) }
}

/** The termination message, if it is what was ordered. What cannot be read is not shown: nobody knows what is in it. */
function readResult(
  pod: BakePod,
  services: readonly string[],
): { result: BakeResult; problem?: never } | { result?: never; problem: string } {
  const message = stateOf(pod).terminated?.message ?? ''
  if (message === '') return { problem: 'left no result.' }
  const result = parseResult(message)
  if (result === undefined) return { problem: 'left a result that cannot be read.' }
  const named = result.services.map(({ name }) => name)
  if (named.some((name) => !services.includes(name)) || new Set(named).size < named.length)
    return { problem: 'left a result about other services.' }
  if (result.state === 'failed')
    return result.failure ? { result } : { problem: 'left a failure without saying which.' }
  const whole = result.services.filter(({ digest }) => digest !== undefined).length === services.length
  return whole && !result.failure ? { result } : { problem: 'left a result that lacks services.' }
}

function parseResult(message: string): BakeResult | undefined {
  try {
    return bakeResult.safeParse(JSON.parse(message)).data
  } catch {
    return undefined
  }
}

function withoutPod(run: BakeRun, now: number): BakeProgress {
  const { job, complaints } = run
  const until = begunAt(run) + POD_MS
  const words = complaints.at(-1)
  if (words === undefined) {
    const { active, succeeded, failed, startTime } = job.status
    // It has had one, which is gone: the Job is about to say so.
    if (active + succeeded + failed > 0) return { state: 'waiting', until: now + POD_MS }
    const last = Math.max(madeAt(run), Date.parse(startTime ?? '') || 0) + NO_POD_MS
    // Nothing tells of Events: they are looked for.
    const next = now < until ? until : now + POD_MS
    return now < last
      ? { state: 'waiting', until: Math.min(next, last) }
      : { state: 'stuck', outcome: failure('no_pod', NO_POD) }
  }
  if (now < until) return { state: 'waiting', until }
  return { state: 'stuck', outcome: failure(refusalCode(words), words) }
}

const NO_POD = 'The Job has made no pod for ten minutes, and there is no Event that says why.'

/** Kubernetes has only words for it. */
function refusalCode(words: string): BakeFailureCode {
  if (/exceeded quota|must specify limits|must specify requests/.test(words)) return 'quota'
  if (/serviceaccount "[^"]*" not found|error looking up service account/.test(words))
    return 'service_account_missing'
  return 'pod_refused'
}

function waitingPod(run: BakeRun, pod: BakePod, now: number): BakeProgress {
  const made = madeAt(run, pod)
  const scheduled = pod.status.conditions.find(({ type }) => type === 'PodScheduled')
  // A node may have come late, and has as much time as any other.
  const onNode = Math.max(made, transitionOf(scheduled))
  const { waiting } = stateOf(pod)
  const words = waiting && (waiting.message || waiting.reason)
  if (waiting?.reason === 'InvalidImageName')
    return { state: 'stuck', outcome: failure('bake_image_missing', words ?? '') }
  if (waiting && IMAGE_REASONS.has(waiting.reason))
    return given(onNode + IMAGE_MS, now, () => failure('bake_image_missing', words ?? ''))
  if (waiting && CREATE_REASONS.has(waiting.reason))
    return given(onNode + IMAGE_MS, now, () => failure('pod_refused', words ?? ''))
  if (scheduled?.status === 'False')
    return given(made + SCHEDULE_MS, now, () =>
      failure('unschedulable', scheduled.message || scheduled.reason),
    )
  const complaint = run.complaints.at(-1)
  if (complaint !== undefined)
    return given(onNode + SCHEDULE_MS, now, () => failure('not_started', complaint))
  // A kubelet that says nothing leaves it to the deadline of the Job.
  return { state: 'waiting' }
}

/** It may still come right until then. */
function given(until: number, now: number, outcome: () => BakeOutcome): BakeProgress {
  return now < until ? { state: 'waiting', until } : { state: 'stuck', outcome: outcome() }
}

/** Since when it goes on as it does: it may have been suspended, or is so since then. */
function begunAt(run: BakeRun): number {
  const { conditions } = run.job.status
  return Math.max(madeAt(run), transitionOf(conditions.find(({ type }) => type === 'Suspended')))
}

/** By our own clock as well: where that is ahead of the API server's, what is new would seem to have waited for long. */
function madeAt({ job, startedAt = 0 }: BakeRun, object: BakeJob | BakePod = job): number {
  return Math.max(Date.parse(object.metadata.creationTimestamp ?? '') || 0, startedAt)
}

function transitionOf(condition: BakeJob['status']['conditions'][number] | undefined): number {
  return Date.parse(condition?.lastTransitionTime ?? '') || 0
}
