/** Settings of the controller for the Jobs of bakes, and what of its own environment it hands on to them. */
import { z } from 'zod'
import { BAKE_IMAGE, configMapKey, endpointUrl, hosts, integer, matching, quantity } from './config-values.ts'

const DAY_SECONDS = 24 * 3600

const isTrue = matching(/^(true|false)$/, 'must be true or false')
  .meta({ type: 'boolean' })
  .optional()
const endpoint = endpointUrl.optional()

/** Where AWS is, as its SDK reads it: no more than the services that a bake calls. */
const awsEndpoints = {
  AWS_ENDPOINT_URL: endpoint,
  AWS_ENDPOINT_URL_ECR: endpoint,
  AWS_ENDPOINT_URL_SSM: endpoint,
  AWS_ENDPOINT_URL_STS: endpoint,
  AWS_IGNORE_CONFIGURED_ENDPOINT_URLS: isTrue,
  AWS_USE_DUALSTACK_ENDPOINT: isTrue,
  AWS_USE_FIPS_ENDPOINT: isTrue,
}

export const AWS_ENDPOINTS: readonly string[] = Object.keys(awsEndpoints)

export const bakeJobVariables = {
  DAVIT_BAKE_IMAGE: matching(BAKE_IMAGE, 'must be a reference to an image').optional(),
  DAVIT_BAKE_DEADLINE_SECONDS: integer(60, 12 * 3600, 3600),
  DAVIT_BAKE_TTL_SECONDS: integer(3600, 7 * DAY_SECONDS, 3600),
  DAVIT_BAKE_CPU: quantity('CPU', '500m').default('500m'),
  DAVIT_BAKE_MEMORY: quantity('memory', '512Mi').default('512Mi'),
  DAVIT_BAKE_SCRATCH: quantity('a size', '20Gi').default('20Gi'),
  DAVIT_BAKE_REALMS: hosts,
  DAVIT_BAKE_CA_CONFIG_MAP: configMapKey.optional(),
  DAVIT_MAX_TEMPLATES_PER_ORGANIZATION: integer(1, 100_000, 500),
  DAVIT_MAX_BAKES: integer(1, 10_000, 50),
  DAVIT_MAX_BAKES_PER_ORGANIZATION: integer(1, 10_000, 5),
  ...awsEndpoints,
}

const variables = z.object(bakeJobVariables)

export function bakeJobConfig(env: z.infer<typeof variables>) {
  return {
    /** Absent: nothing is baked. */
    image: env.DAVIT_BAKE_IMAGE,
    deadlineSeconds: env.DAVIT_BAKE_DEADLINE_SECONDS,
    ttlSeconds: env.DAVIT_BAKE_TTL_SECONDS,
    cpu: env.DAVIT_BAKE_CPU,
    memory: env.DAVIT_BAKE_MEMORY,
    /** Room for images where they go into no claim. */
    scratch: env.DAVIT_BAKE_SCRATCH,
    /** Hosts that may ask for a login besides the registries themselves. */
    realms: env.DAVIT_BAKE_REALMS,
    /** Who is trusted besides the known ones: a ConfigMap in every organization. */
    ca: env.DAVIT_BAKE_CA_CONFIG_MAP,
    /** Variables of the pods, as this process has them itself. */
    awsEndpoints: z.object(awsEndpoints).parse(env),
    /** Of one organization; those beyond are not baked. */
    maxTemplates: env.DAVIT_MAX_TEMPLATES_PER_ORGANIZATION,
    /** Under way at a time. */
    limits: { organization: env.DAVIT_MAX_BAKES_PER_ORGANIZATION, all: env.DAVIT_MAX_BAKES },
  }
}
