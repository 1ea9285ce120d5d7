import { z } from 'zod'
import { DNS_LABEL, instant, text } from './meta.ts'
import { credentialType } from './registry-credential.ts'

/**
 * What a bake tells when it ends: the termination message of its container, so that its pod needs no right on the API server.
 * A kubelet cuts a message off after 4,096 bytes; `encodeBakeResult` in src/domain keeps it below. The order names the
 * credential and the image of each service, so the result need not.
 */

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
const bakeStep = z.enum(['read-secret', 'login', 'pull', 'store'])
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

/** The state of a bake, in the status of its template (interface §3.3). */

/** A host with its port, 255 characters of a repository, 128 of a tag, and a digest. */
export const MAX_IMAGE = 716

const bakeState = z.enum(['pending', 'running', 'succeeded', 'failed'])

const bakedService = z
  .object({
    name: text({ max: MAX_SERVICE_NAME, describe: 'Name of the service.' }),
    image: text({
      max: MAX_IMAGE,
      describe: 'What is pulled, in full: with its host, and with its digest or its tag.',
    }),
    digest: text({
      max: 71,
      describe: 'Digest of the manifest that was pulled; absent while nothing was.',
    }).optional(),
    credential: z
      .object({
        id: text({ max: 66, describe: 'Id of the credential.' }),
        parameterVersion: z
          .int()
          .min(1)
          .optional()
          .meta({ description: 'Version of its secret; absent for ecr, where none is stored.' }),
        generation: z
          .int32()
          .optional()
          .meta({ description: 'Generation of the credential that it is pulled with.' }),
        why: text({ max: 1024, describe: 'Why this one, and what others of the box use for the same host.' }),
      })
      .optional()
      .meta({ description: 'What it is pulled with; absent: with no login.' }),
  })
  .meta({ description: 'A service in this bake.' })
export type BakedService = z.infer<typeof bakedService>

export const failedStep = z.enum(['check', 'start', ...bakeStep.options])

export const bakeFailure = z
  .object({
    service: text({
      max: MAX_SERVICE_NAME,
      describe: 'The service that failed; absent: no one of them.',
    }).optional(),
    step: failedStep.meta({
      description:
        'check: before there was a Job. start: its pod did not run to its end. The others are steps of the bake.',
    }),
    code: bakeFailureCode.meta({ description: 'What happened, for programs.' }),
    message: text({
      max: MAX_TOOL_WORDS,
      describe: 'The words of the tool, or of who refused it; secrets are left out.',
    }),
    fix: text({ max: 512, describe: 'What to do.' }),
  })
  .meta({ description: 'Why the bake failed.' })
export type BakeFailure = z.infer<typeof bakeFailure>

const bakedServices = z
  .array(bakedService)
  .max(MAX_SERVICES)
  .optional()
  .meta({
    description: 'The services, one by one.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
  })

const lastSucceeded = z
  .object({
    job: text({ max: 63, describe: 'Name of its Job, which the box names as its bake.' }).optional(),
    completedAt: instant('When it ended.').optional(),
    services: bakedServices,
  })
  .meta({ description: 'The bake whose box is there, after others that failed.' })

export const bakeStatus = z
  .object({
    state: bakeState.meta({
      description:
        'pending: its pod does not run yet. running. succeeded: every service is there. failed: nothing of it is.',
    }),
    number: z
      .int32()
      .min(0)
      .meta({ description: 'Which one it is: bakes of this template that were begun, this one included.' }),
    job: text({
      max: 63,
      describe: 'Name of its Job; absent where it failed before there was one.',
    }).optional(),
    attempts: z
      .int32()
      .min(0)
      .meta({ description: 'Jobs that were made for it; what passes by itself is tried again.' }),
    generation: z.int32().optional().meta({ description: 'The generation of the template that is baked.' }),
    observedRebake: text({
      max: 256,
      describe: 'The last value of the request for a bake that was acted on.',
    }).optional(),
    credentialState: text({
      max: 64,
      describe: 'Stands for the credentials as they were; another one makes a failed bake be repeated.',
    }).optional(),
    startedAt: instant('When it was begun.').optional(),
    completedAt: instant('When it ended.').optional(),
    nextAttemptAt: instant(
      'When a failed bake is tried again by itself; absent: not before something changes.',
    ).optional(),
    services: bakedServices,
    failure: bakeFailure.optional(),
    lastSucceeded: lastSucceeded.optional(),
  })
  .meta({ description: 'The last bake, or the one that is under way.' })
export type BakeStatus = z.infer<typeof bakeStatus>

/** What the pod of a bake is told, as JSON in its environment. There is no secret in it. */

/** The variable that has it. */
export const ORDER_VARIABLE = 'DAVIT_BAKE_ORDER'
export const MAX_ORDER_BYTES = 64 * 1024
/** The longest that a bake may ever take. */
export const MAX_DEADLINE_SECONDS = 12 * 3600
/** Where the volume of the output is in a pod. */
export const OUTPUT_PATH = '/output'
/** Where a pod has memory for what must touch no disk. */
export const TMPFS_PATH = '/run/davit'

const some = (max: number) => z.string().min(1).max(max)

const label = some(63).regex(DNS_LABEL, 'must be a DNS label')

export const orderedCredential = z.object({
  /** `rc_` and the name of the credential. */
  id: some(66),
  /** Of the resource: for the map of the box. */
  uid: some(128).optional(),
  generation: z.int().min(1).optional(),
  type: credentialType,
  /** The canonical host, which is that of the image. */
  registry: some(259),
  /** token only. */
  username: some(255 * 2).optional(),
  /** token only: exactly this version is read. */
  parameter: z.object({ name: some(1011), version: z.int().min(1), region: some(64) }).optional(),
})
export type OrderedCredential = z.infer<typeof orderedCredential>

export const bakeOrder = z.object({
  /** Its name is a part of the path of its box. */
  template: z.object({ namespace: label, name: label, uid: some(128) }),
  /** Name of this bake, which no other bake of the template ever has; a single part of a path. */
  bake: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
  services: z
    .array(
      z.object({
        name: z.string().max(MAX_SERVICE_NAME).regex(SERVICE_NAME),
        /** Canonical: with its host, and with a digest or a tag, not both. */
        image: some(MAX_IMAGE),
        credential: orderedCredential.optional(),
      }),
    )
    .min(1)
    .max(MAX_SERVICES),
  output: z.discriminatedUnion('kind', [
    z.object({
      kind: z.literal('layout'),
      path: z
        .string()
        .regex(/^\/[^:]*$/)
        .max(1024),
    }),
    z.object({ kind: z.literal('none') }),
  ]),
  /** When the controller decided what is in it. */
  orderedAt: z.iso.datetime().optional(),
  /** Of images for several; absent: that of the node. */
  platform: z.string().max(64).optional(),
  /** Hosts that may ask for a login besides the registries themselves. */
  realms: z.array(some(259)).max(64),
  /** After so long the bake ends itself, with words; a little later its Job is ended. */
  deadlineSeconds: z.int().min(1).max(MAX_DEADLINE_SECONDS),
})
export type BakeOrder = z.infer<typeof bakeOrder>
