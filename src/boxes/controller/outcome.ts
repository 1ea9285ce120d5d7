/**
 * How far a bake is, or how it ended, from what Kubernetes says about its Job and pod and from the pod's termination message. All of
 * this was written by others: it may be missing, unreadable or wrong, and every text is bounded.
 */
import { z } from 'zod'
import { type BakeFailure, type BakeFailureCode, type BakeResult, bakeResult } from '../../apis/bake.ts'
import { objectMeta } from '../../apis/meta.ts'
import { tryParseJson } from '../../lib/json.ts'
import { sanitizeText } from '../../lib/text.ts'

const ownedMeta = objectMeta.extend({
  ownerReferences: z.array(z.object({ kind: z.string(), name: z.string(), uid: z.string() })).optional(),
})

const reportedCondition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: z.string().default(''),
  lastTransitionTime: z.string().nullish(),
})

const count = z.number().default(0)

export const bakeJob = z.object({
  metadata: ownedMeta,
  spec: z.object({ suspend: z.boolean().nullish() }).default({}),
  status: z
    .object({
      conditions: z.array(reportedCondition).default([]),
      active: count,
      succeeded: count,
      failed: count,
      startTime: z.string().nullish(),
    })
    .default({ conditions: [], active: 0, succeeded: 0, failed: 0 }),
})
export type BakeJob = z.infer<typeof bakeJob>

const reasonAndMessage = z.object({ reason: z.string().default(''), message: z.string().default('') })
const containerStatus = z.object({
  name: z.string(),
  state: z
    .object({
      waiting: reasonAndMessage.optional(),
      running: z.object({ startedAt: z.string().optional() }).optional(),
      terminated: reasonAndMessage.extend({ exitCode: z.number().default(0) }).optional(),
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

export const clusterEvent = z.object({
  metadata: objectMeta,
  lastTimestamp: z.string().nullish(),
  eventTime: z.string().nullish(),
  series: z.object({ lastObservedTime: z.string().nullish() }).nullish(),
  reason: z.string().default(''),
  message: z.string().default(''),
})
export type ClusterEvent = z.infer<typeof clusterEvent>

/** What failed, and what to do about it (interface §7). */
export const FIXES: Readonly<Record<BakeFailureCode, string>> = {
  wrong_credentials:
    'The user name is wrong, or the secret is wrong, expired or revoked. Provide a new secret for the credential, or correct its user name. Davit will then repeat the bake.',
  no_pull_permission:
    "The credential is valid, but it does not have permission to pull from this repository. Grant the permission, or use another credential. For ECR, the box's role needs permission to pull, and the repository policy must allow the pull.",
  not_found_or_private:
    'The repository or tag does not exist, or it is private and the credential does not have access. Registries return the same response in both cases. Correct the image reference, or use a credential that can pull the image.',
  platform_missing:
    "The image is not available for this box's platform. Set spec.platform to a platform that the image supports, or push an image for the box's platform. If spec.platform is not set, the platform is that of the node that runs the bake.",
  token_expired:
    'The token has expired. Provide a new secret for the credential. For ECR, use a credential of type ecr, which requests a token for each pull.',
  rate_limited:
    "The registry's rate limit has been reached. Davit will retry the bake up to two times. If it keeps failing, use a credential that has a higher limit.",
  tls_failed:
    "The registry's certificate is not trusted, or the server does not use TLS. Correct the registry host in the image reference, or fix the registry's certificate.",
  dns_failed: 'The host name cannot be resolved. Correct the registry host in the image reference.',
  unreachable:
    "The registry could not be reached, or it responded with a server error. Check that the cluster's nodes can reach the registry.",
  out_of_disk:
    'The bake ran out of disk space. Enlarge the PersistentVolumeClaim in spec.output, or delete data from it. If spec.output is not set, ask your cluster operator for more space (DAVIT_BAKE_SCRATCH).',
  secret_unreadable:
    "The box's role cannot read the secret or, for ECR, cannot get an authorization token (ecr:GetAuthorizationToken). Compare the role's policy with status.readerPolicy in the SecretsSettings, and check that the role's trust policy matches the ServiceAccount.",
  host_not_allowed:
    'The registry directs the bake to a host that bakes are not allowed to contact, such as the host of its token endpoint. If that host belongs to the registry, ask your cluster operator to allow it (DAVIT_BAKE_REALMS).',
  timed_out:
    'The bake exceeded its deadline (DAVIT_BAKE_DEADLINE). Make the images smaller, or ask your cluster operator for a longer deadline.',
  canceled:
    "The bake was stopped, or its Job was deleted. Request another bake. The output may already contain the new images. To find out, compare `bake` in the output's credentials.json with status.bake.job: if they are equal, the output contains the new images.",
  tool_failed: "The bake failed with an unrecognized error. See the Pod's log for the full output.",
  not_an_organization:
    'The namespace is not an organization. Ask your cluster operator to label it davit.dev/organization=true.',
  too_many_templates:
    'The organization has reached its template limit. Delete older templates, or ask your cluster operator to raise the limit (DAVIT_MAX_TEMPLATES_PER_ORGANIZATION). The bake will then start automatically.',
  invalid_image: 'The image reference is not valid. Correct it as described in the details.',
  catalog_credential:
    "A service of kind catalog must not have a credential. Remove registryCredentialId, or change the service's kind to custom.",
  credential_unknown:
    'The RegistryCredential does not exist. Create it, or correct registryCredentialId. The bake will then start automatically.',
  credential_not_ready:
    'The credential is not ready. Check its conditions. The bake will start automatically when the credential is ready.',
  host_mismatch:
    'The credential is for a different registry host. Use a credential for the registry host in the image reference, or correct the credential or the image reference.',
  ecr_region_mismatch:
    "The credential is for a different AWS region. Use a credential for the region of the image's ECR registry, or correct the credential or the image reference.",
  ecr_account_mismatch:
    "The credential is for a different AWS account. Use a credential for the account of the image's ECR registry, or correct the credential or the image reference.",
  service_account_missing:
    'The ServiceAccount does not exist. Create it, or correct spec.instanceRole. The bake will then start automatically.',
  output_missing:
    'The PersistentVolumeClaim does not exist. Create it, or correct spec.output. The bake will then start automatically.',
  ca_missing:
    'The ConfigMap with the certificate authorities is missing or cannot be used. Create or correct the ConfigMap. Your cluster operator requires this ConfigMap for all bakes; ask them for its contents. The bake will then start automatically.',
  bake_image_missing:
    'The bake image is not configured or cannot be pulled. Ask your cluster operator to set DAVIT_BAKE_IMAGE to an image that the nodes can pull.',
  quota:
    "The namespace's quota does not allow the bake's Job or Pod. Raise the quota, or delete objects that count against it.",
  pod_rejected:
    "Kubernetes rejected the bake's Job or Pod, or could not start its container. Fix the problem described in the details.",
  suspended:
    'The Job was suspended by a user or a queueing system such as Kueue and was not resumed in time. Fix the cause, then request another bake.',
  no_pod:
    'The Job did not create a Pod, and no Event shows the cause. Ask your cluster operator to check that the Job controller (kube-controller-manager) is running.',
  unschedulable:
    'The Pod could not be scheduled. Fix the problem that the scheduler reports, such as insufficient node capacity or an unavailable volume for spec.output.',
  not_started:
    'The Pod was assigned to a node but did not start there. Fix the problem described in the details, such as a volume that cannot be mounted.',
  evicted:
    'The Pod was evicted or deleted before it finished. If this happens repeatedly, ask your cluster operator for more memory or disk space for bakes.',
  out_of_memory:
    'The bake ran out of memory. Ask your cluster operator to give bakes more memory (DAVIT_BAKE_MEMORY).',
  no_result:
    "The bake did not report a usable result. Check the Pod's log while the Pod still exists, then request another bake. The output may already contain the new images. To find out, compare `bake` in the output's credentials.json with status.bake.job: if they are equal, the output contains the new images.",
}

/** Failures that a retry may cure. Not a wrong password: registries lock accounts. */
const RETRYABLE: ReadonlySet<BakeFailureCode> = new Set([
  'evicted',
  'quota',
  'bake_image_missing',
  'no_pod',
  'unschedulable',
  'not_started',
  // Deleted while the pod was being created. The retry names what is missing and waits for it.
  'service_account_missing',
  // AWS does not answer, or new permissions are not effective yet. No registry was asked, so no account is locked.
  'secret_unreadable',
  'unreachable',
  'dns_failed',
  'rate_limited',
])

export const MAX_ATTEMPTS = 3
const WAITS_MS = [30_000, 120_000]
/** Registries limit the rate per hour. */
const RATE_WAITS_MS = [900_000, 7_200_000]
export const LONGEST_WAIT_MS = Math.max(...WAITS_MS, ...RATE_WAITS_MS)

/**
 * When to retry a failed bake, or undefined if something has to change first.
 * @param attempts made so far @param isTransient absent: the code and the message decide
 */
export function nextAttemptAt(
  failed: { code: BakeFailureCode; attempts: number; message?: string; isTransient?: boolean | undefined },
  now: number,
): number | undefined {
  const { code, attempts, message = '' } = failed
  const waits = code === 'rate_limited' ? RATE_WAITS_MS : WAITS_MS
  const wait = attempts < MAX_ATTEMPTS ? waits[attempts - 1] : undefined
  const isByQuota = code === 'quota' ? quotaCase(message)?.isTransient : undefined
  const isTransient = failed.isTransient ?? isByQuota ?? RETRYABLE.has(code)
  return isTransient && wait !== undefined ? now + wait : undefined
}

type QuotaCase = { pattern: RegExp; fix: string; isTransient: boolean }

/** Reasons other than an exhausted quota, in the words of the API server. Raising the quota helps with none of them. */
const QUOTA_CASES: readonly QuotaCase[] = [
  {
    pattern: /must specify /,
    fix: "A quota in the namespace covers a resource that the bake's Pod does not specify. Ask your cluster operator to add a LimitRange that sets a default for this resource, or to remove the resource from the quota. Raising the quota will not help. Then request another bake.",
    isTransient: false,
  },
  {
    pattern: /insufficient quota to match these scopes/,
    fix: 'The cluster allows the priority class that bakes use only in namespaces that have a quota for it. Ask your cluster operator to create such a quota in this namespace, or to set another priority class (DAVIT_BAKE_PRIORITY_CLASS). Then request another bake.',
    isTransient: false,
  },
  {
    pattern: /status unknown for quota/,
    fix: 'Kubernetes has not yet calculated how much of a namespace quota is in use. Davit will retry the bake up to two times. If it keeps failing, ask your cluster operator to check that kube-controller-manager is running.',
    isTransient: true,
  },
]

function quotaCase(message: string): QuotaCase | undefined {
  return QUOTA_CASES.find(({ pattern }) => pattern.test(message))
}

/** The code as the CamelCase reason of a condition. */
export function failureReason(code: string): string {
  return code.replace(/(^|_)([a-z])/g, (_match, _start, letter: string) => letter.toUpperCase())
}

const MAX_MESSAGE = 2048

/** Adds the fix, and bounds the message. Of control characters only line ends stay, since tools write them. */
export function bakeFailure(failure: Omit<BakeFailure, 'fix'>): BakeFailure {
  const { service, step, code, message } = failure
  const lines = message.split('\n').map((line) => sanitizeText(line, MAX_MESSAGE).trimEnd())
  const text = lines.join('\n').trim()
  return {
    service,
    step,
    code,
    message: text.length > MAX_MESSAGE ? text.slice(0, MAX_MESSAGE).toWellFormed() : text,
    fix: (code === 'quota' ? quotaCase(text)?.fix : undefined) ?? FIXES[code],
  }
}

/** `services` are those that the pod reported. */
export type BakeOutcome = { services: BakeResult['services']; failure?: BakeFailure | undefined }

export type BakeProgress =
  /** `until`: when to look again even if nothing happens; milliseconds since 1970. */
  | { state: 'waiting'; until?: number | undefined }
  | { state: 'running' }
  /** It cannot succeed any more: the Job is to be removed. */
  | { state: 'stuck'; outcome: BakeOutcome }
  | { state: 'ended'; outcome: BakeOutcome }

type BakeRun = {
  /** When the bake started by our own clock, milliseconds since 1970; absent if the Job belongs to another bake. */
  startedAt?: number | undefined
  job: BakeJob
  pod?: BakePod | undefined
  /** Messages of Events: why the Job has no pod, or why the pod does not start. Newest last. */
  complaints: readonly string[]
  services: readonly string[]
  /** The Job's activeDeadlineSeconds, which the Job controller enforces. */
  activeMs: number
}

export const BAKE_CONTAINER = 'bake'

/** Time for a failed pod creation to succeed after all. */
const POD_MS = 60_000
/** Time a Job may be suspended, be it by a person or by a queueing controller. */
const SUSPENDED_MS = 3_600_000
/** Time for the Job controller to end an overdue Job. */
const END_MS = 600_000
/** Time for an image to be pulled after an error, and for a container to be created. */
const IMAGE_MS = 120_000
/** Time a Job may have neither a pod nor an Event that says why. */
const NO_POD_MS = 600_000
/** Time for a pod to get a node, and then its volumes. */
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
  // Suspending restarts the Job's own deadline. This one keeps a bake from holding its slot for ever.
  if (now >= createdAt(run) + SUSPENDED_MS + run.activeMs + END_MS)
    return {
      state: 'stuck',
      outcome: failure('timed_out', 'The Job is well past its deadline but has not finished.'),
    }
  const suspended = condition('Suspended')
  if ((suspended || job.spec.suspend) && (!pod || isWaiting(pod)))
    return waitUntil(activeSince(run) + SUSPENDED_MS, now, () =>
      failure('suspended', suspended?.message || 'The Job is suspended.'),
    )
  if (!pod) return withoutPod(run, now)
  return isWaiting(pod) ? waitingPod(run, pod, now) : { state: 'running' }
}

export function isWaiting(pod: BakePod): boolean {
  const { running, terminated } = stateOf(pod)
  return !running && !terminated && !isPodOver(pod)
}

function stateOf(pod: BakePod) {
  return pod.status.containerStatuses.find(({ name }) => name === BAKE_CONTAINER)?.state ?? {}
}

export function isPodOver({ status }: BakePod): boolean {
  return status.phase === 'Succeeded' || status.phase === 'Failed'
}

function failure(code: BakeFailureCode, message: string, step: BakeFailure['step'] = 'start'): BakeOutcome {
  return { services: [], failure: bakeFailure({ step, code, message }) }
}

function completed(run: BakeRun): BakeOutcome {
  const { pod } = run
  if (!pod) return failure('no_result', 'The Job completed, but its Pod and the result no longer exist.')
  const { result, problem } = readResult(pod, run.services)
  if (result === undefined) return failure('no_result', `The Job completed, but its Pod ${problem}`)
  if (result.failure === undefined) return { services: result.services }
  return failedResult(result, result.failure)
}

function failedJob(run: BakeRun, failed: { reason: string; message: string }): BakeOutcome {
  const { pod } = run
  const text = failed.message || failed.reason
  const { result, problem } = pod ? readResult(pod, run.services) : {}
  const own = result?.failure && failedResult(result, result.failure)
  // A canceled bake does not know who stopped it, but Kubernetes may.
  if (own && own.failure?.code !== 'canceled') return own
  // The bake reported success after publishing the box. What failed is something else, say a sidecar that did not end.
  if (result && !own) return { services: result.services }
  const ended =
    failed.reason === 'DeadlineExceeded' ? failure('timed_out', text) : terminationOutcome(pod, text)
  if (ended) return { ...ended, services: own?.services ?? [] }
  return own ?? failedPod(pod, text, problem)
}

/** Kubelet's only sign that the pod used too much disk. A retry would do the same, unlike after other evictions. */
const OUT_OF_SPACE = /exceeds the (total )?limit|exceeded its local ephemeral storage limit/
/** Reasons that kubelets give when they evict pods or shut down. */
const NODE_REASONS = new Set(['Evicted', 'Terminated', 'NodeShutdown', 'Shutdown', 'NodeLost'])

/** The outcome if Kubernetes ended the pod rather than the bake itself. @param jobMessage why the Job failed */
function terminationOutcome(pod: BakePod | undefined, jobMessage: string): BakeOutcome | undefined {
  if (!pod) return failure('evicted', `The Pod no longer exists. The Job reported: ${jobMessage}`)
  const { reason, message, conditions } = pod.status
  const disrupted = conditions.find(({ type, status }) => type === 'DisruptionTarget' && status === 'True')
  if (reason === 'Evicted' && OUT_OF_SPACE.test(message)) return failure('out_of_disk', message)
  if (disrupted || NODE_REASONS.has(reason))
    return failure('evicted', message || disrupted?.message || reason)
  return reason === 'DeadlineExceeded' ? failure('timed_out', message || jobMessage) : undefined
}

/** @param jobMessage why the Job failed @param problem what is wrong with the result, after "and" */
function failedPod(pod: BakePod | undefined, jobMessage: string, problem: string | undefined): BakeOutcome {
  const { reason = '', message = '' } = pod?.status ?? {}
  const terminated = pod && stateOf(pod).terminated
  if (terminated?.reason === 'OOMKilled')
    return failure('out_of_memory', 'The container exceeded its memory limit (OOMKilled).')
  if (terminated === undefined)
    return failure('pod_rejected', message || reason || `The Pod failed: ${jobMessage}`)
  return failure('no_result', `The Pod exited with code ${terminated.exitCode} and ${problem}`)
}

function failedResult({ services }: BakeResult, failed: NonNullable<BakeResult['failure']>): BakeOutcome {
  return { services, failure: bakeFailure(failed) }
}

/** The termination message, if it fits the order. An unreadable one is never quoted: it may contain anything. */
function readResult(
  pod: BakePod,
  services: readonly string[],
): { result: BakeResult; problem?: never } | { result?: never; problem: string } {
  const message = stateOf(pod).terminated?.message ?? ''
  if (message === '') return { problem: 'did not report a result.' }
  const result = bakeResult.safeParse(tryParseJson(message)).data
  if (result === undefined) return { problem: 'reported an unreadable result.' }
  const named = result.services.map(({ name }) => name)
  if (named.some((name) => !services.includes(name)) || new Set(named).size < named.length)
    return { problem: 'reported a result for the wrong services.' }
  if (result.state === 'failed')
    return result.failure ? { result } : { problem: 'reported a failure without giving a cause.' }
  const isComplete = result.services.filter(({ digest }) => digest !== undefined).length === services.length
  return isComplete && !result.failure
    ? { result }
    : { problem: 'reported a result that omits some services.' }
}

function withoutPod(run: BakeRun, now: number): BakeProgress {
  const { job, complaints } = run
  const until = activeSince(run) + POD_MS
  const complaint = complaints.at(-1)
  if (complaint !== undefined)
    return waitUntil(until, now, () => failure(creationFailureCode(complaint), complaint))
  const { active, succeeded, failed, startTime } = job.status
  // The pod existed and is gone: the Job is about to report that.
  if (active + succeeded + failed > 0) return { state: 'waiting', until: now + POD_MS }
  const last = Math.max(createdAt(run), Date.parse(startTime ?? '') || 0) + NO_POD_MS
  // Events are not watched, so they are polled.
  const next = now < until ? until : now + POD_MS
  if (now < last) return { state: 'waiting', until: Math.min(next, last) }
  const message = 'Davit waited ten minutes.'
  return { state: 'stuck', outcome: failure('no_pod', message) }
}

/** Events of the Job controller have no code, only a message. */
function creationFailureCode(message: string): BakeFailureCode {
  if (
    /exceeded quota|failed quota: |must specify (limits|requests)|status unknown for quota|insufficient quota/.test(
      message,
    )
  )
    return 'quota'
  if (/serviceaccount "[^"]*" not found|error looking up service account/.test(message))
    return 'service_account_missing'
  return 'pod_rejected'
}

function waitingPod(run: BakeRun, pod: BakePod, now: number): BakeProgress {
  const created = createdAt(run, pod)
  const scheduled = pod.status.conditions.find(({ type }) => type === 'PodScheduled')
  // A pod that was scheduled late gets the full time on its node.
  const onNode = Math.max(created, transitionTime(scheduled))
  const { reason = '', message = '' } = stateOf(pod).waiting ?? {}
  const text = message || reason
  if (reason === 'InvalidImageName') return { state: 'stuck', outcome: failure('bake_image_missing', text) }
  if (IMAGE_REASONS.has(reason))
    return waitUntil(onNode + IMAGE_MS, now, () => failure('bake_image_missing', text))
  if (CREATE_REASONS.has(reason))
    return waitUntil(onNode + IMAGE_MS, now, () => failure('pod_rejected', text))
  if (scheduled?.status === 'False')
    return waitUntil(created + SCHEDULE_MS, now, () =>
      failure('unschedulable', scheduled.message || scheduled.reason),
    )
  const complaint = run.complaints.at(-1)
  if (complaint !== undefined)
    return waitUntil(onNode + SCHEDULE_MS, now, () => failure('not_started', complaint))
  // Without any sign of trouble the deadline of the Job decides.
  return { state: 'waiting' }
}

function waitUntil(until: number, now: number, outcome: () => BakeOutcome): BakeProgress {
  return now < until ? { state: 'waiting', until } : { state: 'stuck', outcome: outcome() }
}

/** When the Job was created, suspended or resumed, whichever is the latest. */
function activeSince(run: BakeRun): number {
  const { conditions } = run.job.status
  return Math.max(createdAt(run), transitionTime(conditions.find(({ type }) => type === 'Suspended')))
}

/** Not before the bake started by our own clock: if that is ahead of the API server's, a new Job would look old. */
function createdAt({ job, startedAt = 0 }: BakeRun, object: BakeJob | BakePod = job): number {
  return Math.max(Date.parse(object.metadata.creationTimestamp ?? '') || 0, startedAt)
}

function transitionTime(condition: BakeJob['status']['conditions'][number] | undefined): number {
  return Date.parse(condition?.lastTransitionTime ?? '') || 0
}
