/** The state of a bake, in the status of its template (interface §3.3). */
import { z } from 'zod'
import { bakeFailureCode, bakeStep, MAX_SERVICE_NAME, MAX_SERVICES, MAX_TOOL_WORDS } from './bake-result.ts'
import { instant, text } from './meta.ts'

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
