/**
 * What the controller and the pod of a bake exchange: the order in the pod's environment, the result as its termination message, and
 * the state of the bake in the status of its template (interface §3.3).
 */
import { z } from 'zod'
import { DNS_LABEL, generation, instant, text } from './meta.ts'
import { credentialType } from './registry-credential.ts'

/**
 * Kubelet truncates a termination message after this; `encodeBakeResult` keeps the result shorter. With it, the pod needs no rights on
 * the API server.
 */
export const MAX_RESULT_BYTES = 4096
/** This many services fit into a result, with the longest names, digests and times. */
export const MAX_SERVICES = 20
export const MAX_SERVICE_NAME = 40
export const SERVICE_NAME = /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/
/** Characters of tool output in a status. */
export const MAX_TOOL_WORDS = 2048
export const DIGEST = /^sha256:[0-9a-f]{64}$/

export const POD_FAILURE_CODES = [
  'wrong_credentials',
  'no_pull_permission',
  'not_found_or_private',
  'platform_missing',
  'token_expired',
  'rate_limited',
  'tls_failed',
  'dns_failed',
  'unreachable',
  'out_of_disk',
  'secret_unreadable',
  'host_not_allowed',
  'timed_out',
  'canceled',
  'tool_failed',
] as const

/** Problems before there is a Job: in the template, its credentials, or what its pod needs. */
export const PROBLEM_CODES = [
  'not_an_organization',
  'too_many_templates',
  'invalid_image',
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

/** Why a pod did not run, or ended; also `service_account_missing`. */
export const RUN_FAILURE_CODES = [
  'bake_image_missing',
  'quota',
  'pod_rejected',
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

const bakeStep = z.enum(['read-secret', 'login', 'pull', 'store'])
export type BakeStep = z.infer<typeof bakeStep>

const podFailureCode = z.enum(POD_FAILURE_CODES)
const serviceName = text({
  min: 1,
  max: MAX_SERVICE_NAME,
  pattern: SERVICE_NAME,
  describe: 'name is the name of the service.',
})

export const serviceResult = z.object({
  name: serviceName,
  /** Of the pulled manifest; absent if the service was not pulled. */
  digest: z.string().regex(DIGEST).optional(),
  /** The registry's decision on the service's credential, at the first request that needed the right to pull. */
  verified: z
    .object({
      at: instant('at is when the registry was contacted.'),
      ok: z.boolean(),
      code: podFailureCode.optional(),
    })
    .optional(),
})

export const bakeResult = z.object({
  version: z.literal(1),
  state: z.enum(['succeeded', 'failed']),
  services: z.array(serviceResult).max(MAX_SERVICES),
  failure: z
    .object({
      /** Absent: it concerns no single service. */
      service: serviceName.optional(),
      step: bakeStep,
      code: podFailureCode,
      /** Tool output, without control characters and secrets. */
      message: text({ max: MAX_TOOL_WORDS, describe: 'message is the tool output.' }),
    })
    .optional(),
})
export type BakeResult = z.infer<typeof bakeResult>

/** Host and port, 255 characters of a repository, 128 of a tag, and a digest. */
export const MAX_IMAGE = 716

export const bakeState = z.enum(['pending', 'running', 'succeeded', 'failed'])

const bakedService = z
  .object({
    name: text({ max: MAX_SERVICE_NAME, describe: 'name is the name of the service.' }),
    image: text({
      max: MAX_IMAGE,
      describe: 'image is the full reference that is pulled: host, repository, and digest or tag.',
    }),
    digest: text({
      max: 71,
      describe:
        'digest is the digest of the manifest that was pulled. It is unset until the image is pulled.',
    }).optional(),
    credential: z
      .object({
        id: text({ max: 66, describe: 'id is the ID of the credential.' }),
        parameterVersion: z.int().min(1).optional().meta({
          description:
            'parameterVersion is the version of the stored secret. It is unset for type ecr, which stores no secret.',
        }),
        generation: generation
          .optional()
          .meta({ description: 'generation is the generation of the credential that is used.' }),
        why: text({
          max: 1024,
          describe:
            'why explains why this credential is used, and which credentials other services of the box use for the same host.',
        }),
      })
      .optional()
      .meta({
        description:
          'credential is the credential for pulling the image. If unset, the image is pulled anonymously.',
      }),
  })
  .meta({ description: 'A service in this bake.' })
export type BakedService = z.infer<typeof bakedService>

export const failedStep = z.enum(['check', 'start', ...bakeStep.options])

export const bakeFailure = z
  .object({
    service: text({
      max: MAX_SERVICE_NAME,
      describe:
        'service is the service that failed. It is unset if the failure is not specific to one service.',
    }).optional(),
    step: failedStep.meta({
      description:
        'step is where the bake failed: check (before a Job was created), start (the pod did not run to completion), or a step of the bake.',
    }),
    code: bakeFailureCode.meta({ description: 'code is the failure code, for programs.' }),
    message: text({
      max: MAX_TOOL_WORDS,
      describe:
        'message is the output of the tool or the message of the service that rejected the request, without secrets.',
    }),
    fix: text({ max: 512, describe: 'fix explains what to do.' }),
  })
  .meta({ description: 'failure explains why the bake failed.' })
export type BakeFailure = z.infer<typeof bakeFailure>

const bakedServices = z
  .array(bakedService)
  .max(MAX_SERVICES)
  .optional()
  .meta({
    description: 'services lists the services in this bake.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
  })

const lastSucceeded = z
  .object({
    job: text({
      max: 63,
      describe: 'job is the name of its Job. The box uses it as the name of its bake.',
    }).optional(),
    completedAt: instant('completedAt is when the bake finished.').optional(),
    services: bakedServices,
  })
  .meta({ description: 'lastSucceeded is the bake that produced the stored box, if later bakes failed.' })

export const bakeStatus = z
  .object({
    state: bakeState.meta({
      description:
        'state is pending (the pod is not running yet), running, succeeded (every service was pulled) or failed (no image was stored).',
    }),
    number: z.int32().min(0).meta({
      description: 'number is the number of bakes of this template that were started, including this one.',
    }),
    job: text({
      max: 63,
      describe: 'job is the name of its Job. It is unset if the bake failed before a Job was created.',
    }).optional(),
    attempts: z.int32().min(0).meta({
      description:
        'attempts is the number of Jobs that were created for this bake. Davit retries temporary failures.',
    }),
    generation: generation
      .optional()
      .meta({ description: 'generation is the generation of the template that is baked.' }),
    observedRebake: text({
      max: 256,
      describe: 'observedRebake is the value of the last bake request that Davit processed.',
    }).optional(),
    credentialState: text({
      max: 64,
      describe:
        'credentialState identifies the credentials that were used. A failed bake is retried when it changes.',
    }).optional(),
    startedAt: instant('startedAt is when the bake started.').optional(),
    completedAt: instant('completedAt is when the bake finished.').optional(),
    nextAttemptAt: instant(
      'nextAttemptAt is when Davit retries a failed bake. If unset, Davit retries only after a change.',
    ).optional(),
    services: bakedServices,
    failure: bakeFailure.optional(),
    lastSucceeded: lastSucceeded.optional(),
  })
  .meta({ description: 'bake is the bake in progress or the last bake.' })
export type BakeStatus = z.infer<typeof bakeStatus>

/** The environment variable with the order, as JSON. It holds no secret. */
export const ORDER_VARIABLE = 'DAVIT_BAKE_ORDER'
export const MAX_ORDER_BYTES = 64 * 1024
export const MAX_DEADLINE_SECONDS = 12 * 3600
export const OUTPUT_PATH = '/output'
/** Mount path of memory, for data that must touch no disk. */
export const TMPFS_PATH = '/run/davit'

const some = (max: number) => z.string().min(1).max(max)

const label = z.string().max(63).regex(DNS_LABEL, 'must be a DNS label')

export const orderedCredential = z.object({
  id: some(66),
  /** UID of the resource, for the credentials file. */
  uid: some(128).optional(),
  generation: z.int().min(1).optional(),
  type: credentialType,
  registry: some(259),
  username: some(255 * 2).optional(),
  /** token only; exactly this version is read. */
  parameter: z.object({ name: some(1011), version: z.int().min(1), region: some(64) }).optional(),
})
export type OrderedCredential = z.infer<typeof orderedCredential>

export const bakeOrder = z.object({
  /** Its name is part of the path of its box. */
  template: z.object({ namespace: label, name: label, uid: some(128) }),
  /** Name of this bake, unique in the template; one segment of a path. */
  bake: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
  services: z
    .array(
      z.object({
        name: z.string().max(MAX_SERVICE_NAME).regex(SERVICE_NAME),
        /** Canonical: with host, and with a digest or a tag, not both. */
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
  orderedAt: z.iso.datetime().optional(),
  /** For multi-platform images; absent: the platform of the node. */
  platform: z.string().max(64).optional(),
  /** Hosts that may ask for a login in addition to the registries. */
  realms: z.array(some(259)).max(64),
  /** Seconds after which the bake ends itself with a message; its Job is ended a little later. */
  deadlineSeconds: z.int().min(1).max(MAX_DEADLINE_SECONDS),
})
export type BakeOrder = z.infer<typeof bakeOrder>
