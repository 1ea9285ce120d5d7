import { z } from 'zod'
import { type BakeFailure, type BakeFailureCode, type BakeResult, bakeResult } from '../../apis/bake.ts'
import { objectMeta } from '../../apis/meta.ts'
import { sanitizeText } from '../../lib/text.ts'

/** What Kubernetes tells of a bake: its Job, its pod, and what kept the pod from being made. Written by others: bounded, and never trusted. */

const ownedMeta = objectMeta.extend({
  ownerReferences: z.array(z.object({ kind: z.string(), name: z.string(), uid: z.string() })).optional(),
})

const reportedCondition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: z.string().default(''),
  /** Null where whoever wrote it gave none. */
  lastTransitionTime: z.string().nullish(),
})

const count = z.number().default(0)

export const bakeJob = z.object({
  metadata: ownedMeta,
  spec: z.object({ suspend: z.boolean().nullish() }).default({}),
  status: z
    .object({
      conditions: z.array(reportedCondition).default([]),
      /** Pods that it has, and that it has had. */
      active: count,
      succeeded: count,
      failed: count,
      /** When it was begun, or resumed. */
      startTime: z.string().nullish(),
    })
    .default({ conditions: [], active: 0, succeeded: 0, failed: 0 }),
})
export type BakeJob = z.infer<typeof bakeJob>

const terminatedState = z.object({
  exitCode: z.number().default(0),
  reason: z.string().default(''),
  message: z.string().default(''),
})

const containerStatus = z.object({
  name: z.string(),
  state: z
    .object({
      waiting: z.object({ reason: z.string().default(''), message: z.string().default('') }).optional(),
      running: z.object({ startedAt: z.string().optional() }).optional(),
      terminated: terminatedState.optional(),
    })
    .default({}),
})

export const bakePod = z.object({
  metadata: ownedMeta,
  status: z
    .object({
      phase: z.string().default('Pending'),
      reason: z.string().default(''),
      message: z.string().default(''),
      conditions: z.array(reportedCondition).default([]),
      containerStatuses: z.array(containerStatus).default([]),
    })
    .default({ phase: 'Pending', reason: '', message: '', conditions: [], containerStatuses: [] }),
})
export type BakePod = z.infer<typeof bakePod>

/** An Event of Kubernetes. */
export const clusterEvent = z.object({
  metadata: objectMeta,
  /** When it was last seen; those of newer clients have a series instead. */
  lastTimestamp: z.string().nullish(),
  eventTime: z.string().nullish(),
  series: z.object({ lastObservedTime: z.string().nullish() }).nullish(),
  reason: z.string().default(''),
  message: z.string().default(''),
})
export type ClusterEvent = z.infer<typeof clusterEvent>

/** What the codes of a failed bake mean: what to do, the reason of a condition, and whether it passes by itself. */

/** Interface §7: what to do, for each. */
export const FIXES: Readonly<Record<BakeFailureCode, string>> = {
  wrong_credentials:
    'The user name or the secret is wrong, expired or revoked: give the credential a new secret, or correct its user name. The bake is then repeated.',
  no_pull_right:
    'The login is good, and may not pull this repository: give it the right to, or name another credential. For ECR, the role of the box needs the right to pull, and the policy of the repository must allow it.',
  not_found_or_private:
    'There is no such repository or tag, or it is private and the credential may not see it: registries answer both alike. Correct the image, or name a credential that may pull it.',
  platform_missing:
    'The image is of several platforms, and none of them is that of the box: set spec.platform to one that it has, or push the image for this one. Without spec.platform it is that of the node that bakes.',
  token_expired:
    'The token has expired: give the credential a new secret. For ECR use the type ecr, which asks for a token at every pull.',
  rate_limited:
    'The registry wants fewer requests: the bake is tried again later, twice; or pull with a credential that has a higher limit.',
  tls_failed:
    'The certificate of the registry is not trusted, or what answers speaks no TLS: correct the host in the image, or the certificate.',
  dns_failed: 'No such name is known: correct the host in the image.',
  unreachable: 'The registry does not answer: check that the nodes of the cluster may reach it.',
  no_room:
    'The volume is full: make the claim of spec.output larger, or remove what is not needed. Without a claim, ask the operator for more room (DAVIT_BAKE_SCRATCH).',
  secret_unreadable:
    'The role of the box could not read the secret, or for ECR get a login (ecr:GetAuthorizationToken): compare its policy with status.readerPolicy of the SecretsSettings, and its trust policy with the ServiceAccount.',
  realm_refused:
    'The registry sends the password to a host that is not its own: if that host belongs to it, the operator can allow it (DAVIT_BAKE_REALMS).',
  timed_out:
    'It took longer than the operator allows (DAVIT_BAKE_DEADLINE_SECONDS): make the images smaller, or ask for more time.',
  canceled:
    'It was told to end, or its Job was deleted: ask for another bake. The box may be the new one all the same: its credentials.json names the bake that wrote it.',
  tool_failed: 'The words are those of the tool; the log of the pod has all of them.',
  not_an_organization: 'Ask the operator to label the namespace davit.dev/organization=true.',
  too_many_templates:
    'Delete older templates, or ask the operator for more (DAVIT_MAX_TEMPLATES_PER_ORGANIZATION). The bake then begins.',
  image_refused: 'Correct the reference to the image.',
  catalog_credential: 'Take registryCredentialId away, or make it a service of the kind custom.',
  credential_unknown: 'Make the RegistryCredential, or correct registryCredentialId. The bake then begins.',
  credential_not_ready: 'See the conditions of the credential. The bake begins when it is ready.',
  host_mismatch: 'Name a credential for the host of the image, or correct one of the two.',
  ecr_region_mismatch: 'Name a credential for the region of the image, or correct one of the two.',
  ecr_account_mismatch: 'Name a credential for the account of the image, or correct one of the two.',
  service_account_missing: 'Make the ServiceAccount, or correct spec.instanceRole. The bake then begins.',
  output_missing: 'Make the PersistentVolumeClaim, or correct spec.output. The bake then begins.',
  ca_missing:
    'Make the ConfigMap, or tell the operator, who has named it to all bakes. The bake then begins.',
  bake_image_missing: 'Tell the operator: DAVIT_BAKE_IMAGE must name an image that the nodes can pull.',
  quota: 'Raise the quota of the namespace, or remove what uses it.',
  pod_refused: 'Mend what the words name; the cluster does not take the pod of the bake as it is.',
  suspended:
    'Somebody has suspended the Job, or a queue that does not let it run: mend that, and ask for another bake.',
  no_pod:
    'The Job has made no pod, and nothing says why: ask the operator whether the controller of Jobs runs (kube-controller-manager).',
  unschedulable: 'Mend what the scheduler names, such as room on the nodes, or the volume of spec.output.',
  not_started:
    'Mend what the words name, such as a volume that cannot be mounted; the pod has a node, and did not start there.',
  evicted: 'The node ended the pod. If that goes on, ask the operator for more memory or room for bakes.',
  out_of_memory: 'Ask the operator to give bakes more memory (DAVIT_BAKE_MEMORY).',
  no_result:
    'See the log of the pod, as long as it is there, and ask for another bake. The box may be the new one all the same: its credentials.json names the bake that wrote it.',
}

/** What trying again may help, with nothing changed. A wrong password is not of them: registries lock accounts. */
const RETRYABLE: ReadonlySet<BakeFailureCode> = new Set([
  'evicted',
  'quota',
  'bake_image_missing',
  'no_pod',
  'unschedulable',
  'not_started',
  // It went while the pod was to be made: the next look says what is missing, and goes on when it is there.
  'service_account_missing',
  // AWS does not answer, or has not heard of a new right yet. No registry was asked, so nothing is locked.
  'secret_unreadable',
  'unreachable',
  'dns_failed',
  'rate_limited',
])

/** In all, of one bake. */
export const MAX_ATTEMPTS = 3
const WAITS_MS = [30_000, 120_000]
/** Registries count by the hour. */
const RATE_WAITS_MS = [900_000, 7_200_000]
export const LONGEST_WAIT_MS = Math.max(...WAITS_MS, ...RATE_WAITS_MS)

/** When a failed bake is tried again by itself; undefined: not before something changes. @param attempts made so far */
export function nextAttemptAt(
  { code, attempts }: { code: BakeFailureCode; attempts: number },
  now: number,
): number | undefined {
  const waits = code === 'rate_limited' ? RATE_WAITS_MS : WAITS_MS
  const wait = attempts < MAX_ATTEMPTS ? waits[attempts - 1] : undefined
  return RETRYABLE.has(code) && wait !== undefined ? now + wait : undefined
}

/** One word in camel case, for a condition. */
export function failureReason(code: string): string {
  return code.replace(/(^|_)([a-z])/g, (_match, _start, letter: string) => letter.toUpperCase())
}

const MAX_MESSAGE = 2048

/** With what to do. The message may have line ends, which tools write; nothing else that controls a terminal. */
export function bakeFailure(failure: Omit<BakeFailure, 'fix'>): BakeFailure {
  const { service, step, code, message } = failure
  const lines = message.split('\n').map((line) => sanitizeText(line, MAX_MESSAGE).trimEnd())
  const words = lines.join('\n').trim()
  return {
    ...(service === undefined ? {} : { service }),
    step,
    code,
    message: words.length > MAX_MESSAGE ? words.slice(0, MAX_MESSAGE).toWellFormed() : words,
    fix: FIXES[code],
  }
}

/**
 * What a bake has come to, from what Kubernetes tells of its Job and pod, and from the pod's termination message. None of it is
 * trusted to be there or to be readable: whatever is found is progress, or an end in words.
 */

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
