/**
 * What a bake tells when it ends: the termination message of its container, so that its pod needs no right on the API server.
 * A kubelet cuts a message off after 4,096 bytes; `encodeBakeResult` in src/domain keeps it below. The order names the
 * credential and the image of each service, so the result need not.
 */
import { z } from 'zod'
import { instant, text } from './meta.ts'

/** What a kubelet takes of a termination message. */
export const MAX_RESULT_BYTES = 4096
/** So many services fit into a result, with the longest names, digests and times. */
export const MAX_SERVICES = 20
export const MAX_SERVICE_NAME = 40
export const SERVICE_NAME = /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/
/** Of the tool's own words in a status. */
export const MAX_TOOL_WORDS = 2048
export const DIGEST = /^sha256:[0-9a-f]{64}$/

/** What the registry or the tool refused, as the pod of a bake sees it. */
export const POD_FAILURE_CODES = [
  'wrong_credentials',
  'no_pull_right',
  'not_found_or_private',
  'platform_missing',
  'token_expired',
  'rate_limited',
  'tls_failed',
  'dns_failed',
  'unreachable',
  'no_room',
  'secret_unreadable',
  'realm_refused',
  'timed_out',
  'canceled',
  'tool_failed',
] as const

/** What is wrong before there is a Job: the template, its credentials, or what its pod needs. */
export const PROBLEM_CODES = [
  'not_an_organization',
  'too_many_templates',
  'image_refused',
  'catalog_credential',
  'credential_unknown',
  'credential_not_ready',
  'host_mismatch',
  'ecr_region_mismatch',
  'ecr_account_mismatch',
  'service_account_missing',
  'output_missing',
  'ca_missing',
] as const

/** What kept a pod from running, or ended it; `service_account_missing` may as well. */
export const RUN_FAILURE_CODES = [
  'bake_image_missing',
  'quota',
  'pod_refused',
  'suspended',
  'no_pod',
  'unschedulable',
  'not_started',
  'evicted',
  'out_of_memory',
  'no_result',
] as const

export const bakeFailureCode = z.enum([...POD_FAILURE_CODES, ...PROBLEM_CODES, ...RUN_FAILURE_CODES])
export type BakeFailureCode = z.infer<typeof bakeFailureCode>

/** Where in its pod a bake failed. */
export const bakeStep = z.enum(['read-secret', 'login', 'pull', 'store'])
export type BakeStep = z.infer<typeof bakeStep>

const podFailureCode = z.enum(POD_FAILURE_CODES)
const serviceName = text({
  min: 1,
  max: MAX_SERVICE_NAME,
  pattern: SERVICE_NAME,
  describe: 'Name of the service.',
})

export const serviceResult = z.object({
  name: serviceName,
  /** Of the manifest that was pulled; absent where the service was not pulled. */
  digest: z.string().regex(DIGEST).optional(),
  /** What the registry said of the service's credential, at the first request that needed the right to pull. */
  verified: z.object({ at: instant('When.'), ok: z.boolean(), code: podFailureCode.optional() }).optional(),
})

export const bakeResult = z.object({
  version: z.literal(1),
  state: z.enum(['succeeded', 'failed']),
  services: z.array(serviceResult).max(MAX_SERVICES),
  failure: z
    .object({
      /** Absent: it concerns no one of them. */
      service: serviceName.optional(),
      step: bakeStep,
      code: podFailureCode,
      /** The tool's own words, without control characters and secrets. */
      message: text({ max: MAX_TOOL_WORDS, describe: 'The words of the tool.' }),
    })
    .optional(),
})
export type BakeResult = z.infer<typeof bakeResult>
