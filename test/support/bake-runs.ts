/** Jobs and pods of a bake in the form of Kubernetes, for tests of the code that reads them. */
import {
  type BakeJob,
  type BakePod,
  type BakeProgress,
  bakeJob,
  bakePod,
  bakeProgress,
} from '../../src/boxes/controller/outcome.ts'

export const JOB_UID = 'job-uid'
export const CREATED = Date.UTC(2026, 0, 31, 12)
const AT = new Date(CREATED).toISOString()
export const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`

/** Time limit of an active Job. */
export const ACTIVE_MS = 3_600_000

export function jobOf(conditions: readonly object[], { spec = {}, status = {} }: GivenJob = {}): BakeJob {
  const metadata = { name: 'shop-1', namespace: 'acme', uid: JOB_UID, creationTimestamp: AT }
  return bakeJob.parse({ metadata, spec, status: { ...status, conditions } })
}

export const COMPLETE = {
  type: 'Complete',
  status: 'True',
  reason: 'CompletionsReached',
  message: 'Reached.',
}
export const FAILED = {
  type: 'Failed',
  status: 'True',
  reason: 'BackoffLimitExceeded',
  message: 'Job has reached the specified backoff limit',
}
export const DEADLINE = {
  type: 'Failed',
  status: 'True',
  reason: 'DeadlineExceeded',
  message: 'Job was active longer than specified deadline',
}

export function podOf(status: object): BakePod {
  const ownerReferences = [{ kind: 'Job', name: 'shop-1', uid: JOB_UID }]
  const metadata = {
    name: 'shop-1-x',
    namespace: 'acme',
    uid: 'pod-uid',
    creationTimestamp: AT,
    ownerReferences,
  }
  return bakePod.parse({ metadata, status })
}

export function withState(state: object, more: object = {}): BakePod {
  return podOf({ containerStatuses: [{ name: 'bake', state }], ...more })
}

export function terminated(
  message: string,
  { exitCode = 0, reason }: { exitCode?: number; reason?: string } = {},
): BakePod {
  const phase = exitCode === 0 ? 'Succeeded' : 'Failed'
  return withState(
    { terminated: { exitCode, reason: reason ?? (exitCode === 0 ? 'Completed' : 'Error'), message } },
    { phase },
  )
}

export const SUCCESS = {
  version: 1,
  state: 'succeeded',
  services: [
    { name: 'api', digest: DIGEST, verified: { at: AT, ok: true } },
    { name: 'db', digest: DIGEST },
  ],
} as const

export const FAILURE = {
  version: 1,
  state: 'failed',
  services: [{ name: 'api', verified: { at: AT, ok: false, code: 'wrong_credentials' } }],
  failure: {
    service: 'api',
    step: 'pull',
    code: 'wrong_credentials',
    message: 'reading manifest 1.4 in ghcr.io/acme/api: unauthorized: authentication required',
  },
} as const

/** The state of a bake of the services `api` and `db` in Kubernetes. @param after milliseconds since its Job was created */
export type GivenRun = {
  /** Start of the bake by Davit's clock, in milliseconds after the creation of the Job. */
  begun?: number
  conditions?: object[]
  job?: GivenJob
  pod?: BakePod
  complaints?: string[]
  after?: number
}
type GivenJob = { spec?: object; status?: object }

export function progressOf(given: GivenRun): BakeProgress {
  const { conditions = [], job, pod, complaints = [], after = 1000, begun } = given
  const services = ['api', 'db']
  const startedAt = begun === undefined ? undefined : CREATED + begun
  const run = { job: jobOf(conditions, job), pod, complaints, services, activeMs: ACTIVE_MS, startedAt }
  return bakeProgress(run, CREATED + after)
}

export function failureOf(given: GivenRun) {
  const found = progressOf(given)
  return found.state === 'ended' || found.state === 'stuck' ? found.outcome.failure : undefined
}
