/** BoxTemplate: the services of a box, and the state of its bake (interface §2.2, §3.3). */

import { z } from 'zod'
import { bakeStatus, MAX_IMAGE, MAX_SERVICE_NAME, MAX_SERVICES, SERVICE_NAME } from './bake.ts'
import { CREDENTIAL_PREFIX } from './ids.ts'
import {
  conditions,
  DNS_LABEL,
  DNS_LABEL_NAME,
  DNS_SUBDOMAIN,
  GROUP,
  type KindDefinition,
  objectOf,
  observedGeneration,
  resourceType,
  text,
} from './meta.ts'
import { REGISTRY_PATTERN } from './registry-credential.ts'

/** Requests another bake: an RFC 3339 time, acted on once per value, answered in `status.bake.observedRebake`. */
export const REBAKE_ANNOTATION = `${GROUP}/rebake-requested-at`
/** Name of the template, on every Job and pod of a bake. */
export const TEMPLATE_LABEL = `${GROUP}/box-template`

const PATH_PART = '[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*'
const TAG = ':[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}'
/** The grammar of image references, with the digest that every registry has. boxes/image-reference.ts parses them. */
const IMAGE = new RegExp(
  `^(${REGISTRY_PATTERN}/)?${PATH_PART}(/${PATH_PART})*(${TAG})?(@sha256:[0-9a-f]{64})?$`,
)
const PLATFORM = /^[a-z0-9]{1,20}\/[a-z0-9_]{1,20}(\/v[0-9]{1,2})?$/
const MAX_PLATFORM = 46

const serviceKind = z.enum(['custom', 'catalog'])

const serviceShape = z.object({
  name: text({
    min: 1,
    max: MAX_SERVICE_NAME,
    pattern: SERVICE_NAME,
    allowed: `a name of at most ${MAX_SERVICE_NAME} lower-case letters, digits and dashes`,
    describe: 'Name of the service, the only one of its name in the box.',
  }),
  kind: serviceKind.meta({
    description:
      'custom: an image of the organization, with a credential where it is private. catalog: an image of a public registry, which takes no credential.',
  }),
  image: text({
    min: 1,
    max: MAX_IMAGE,
    pattern: IMAGE,
    allowed:
      'a reference to an image such as ghcr.io/acme/api:1.4: a host where it is not Docker Hub, a repository in lower case, and a tag, a digest or both',
    describe:
      'Reference to the image. Without tag and digest it means the tag latest; with a digest, exactly that.',
  }),
  registryCredentialId: text({
    min: 1,
    max: CREDENTIAL_PREFIX.length + 63,
    pattern: new RegExp(`^${CREDENTIAL_PREFIX}${DNS_LABEL.source.slice(1)}`),
    allowed: 'the id of a credential: rc_ and the name of a RegistryCredential',
    describe:
      'Credential that the image is pulled with: rc_ and the name of a RegistryCredential. Only for custom.',
  }).optional(),
})
type Service = z.infer<typeof serviceShape>

/** Rules for one service, in the schema and in CEL. */
const SERVICE_RULES = [
  {
    holds: ({ kind, registryCredentialId }: Service) =>
      kind === 'custom' || registryCredentialId === undefined,
    rule: "self.kind == 'custom' || !has(self.registryCredentialId)",
    message:
      'registryCredentialId is only for services of the kind custom: catalog images come from public registries, which take no credential',
  },
  {
    holds: ({ image }: Service) => !/^[0-9a-f]{64}$/.test(image),
    rule: "!self.image.matches('^[0-9a-f]{64}$')",
    message: 'image must be a reference, not the 64 digits of an id',
  },
]

const boxService = SERVICE_RULES.reduce(
  (service, { holds, message }) => service.refine(holds, message),
  serviceShape,
).meta({
  description: 'One service of the box.',
  'x-kubernetes-validations': SERVICE_RULES.map(({ rule, message }) => ({ rule, message })),
})

const nameOf = (what: string, describe: string) =>
  text({
    min: 1,
    max: 253,
    pattern: DNS_SUBDOMAIN,
    allowed: `the name of a ${what}: lower-case letters, digits, dashes and dots`,
    describe,
  })

const specShape = z.object({
  services: z
    .array(boxService)
    .min(1)
    .max(MAX_SERVICES)
    .refine((services) => new Set(services.map(({ name }) => name)).size === services.length, {
      error: 'must have every name once',
    })
    .meta({
      description: 'What the box is made of.',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    }),
  instanceRole: z
    .object({
      serviceAccountName: nameOf('ServiceAccount', 'Name of a ServiceAccount of this namespace.'),
    })
    .optional()
    .meta({
      description:
        'The identity of the box, which reads secrets and asks ECR for tokens (IRSA or pod identity). Required where a service has a credential.',
    }),
  output: z
    .object({
      persistentVolumeClaim: nameOf(
        'PersistentVolumeClaim',
        'Name of a PersistentVolumeClaim of this namespace.',
      ),
    })
    .optional()
    .meta({
      description:
        'Where the images go, as one OCI layout. Without it they are pulled, verified and dropped.',
    }),
  platform: text({
    min: 1,
    max: MAX_PLATFORM,
    pattern: PLATFORM,
    allowed: 'a platform such as linux/amd64 or linux/arm64/v8',
    describe: 'Platform of the box, for images of several. Without it that of the node that bakes.',
  }).optional(),
})
type Spec = z.infer<typeof specShape>

const ROLE_RULE = {
  holds: ({ services, instanceRole }: Spec) =>
    instanceRole !== undefined ||
    services.every(({ registryCredentialId }) => registryCredentialId === undefined),
  rule: 'has(self.instanceRole) || self.services.all(service, !has(service.registryCredentialId))',
  message: 'instanceRole is required where a service has a credential: it is who reads the secret',
}

export const boxTemplateSpec = specShape.refine(ROLE_RULE.holds, ROLE_RULE.message).meta({
  description: 'What the owner wants.',
  'x-kubernetes-validations': [{ rule: ROLE_RULE.rule, message: ROLE_RULE.message }],
})

export const boxTemplateStatus = z
  .object({
    bake: bakeStatus.optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'What Davit observed; written by Davit only.' })

export const boxTemplate = objectOf(boxTemplateSpec, boxTemplateStatus)
export type BoxTemplateSpec = z.infer<typeof boxTemplateSpec>
export type BoxTemplateStatus = z.infer<typeof boxTemplateStatus>
export type BoxTemplate = z.infer<typeof boxTemplate>

/**
 * Condition types of a template. Ready: the current spec is baked. Succeeded: the result of the last bake. Current: baked with the
 * credentials as they are.
 */
export const TEMPLATE_CONDITIONS = ['Ready', 'Reconciling', 'Stalled', 'Succeeded', 'Current'] as const

export const boxTemplateKind: KindDefinition = {
  kind: 'BoxTemplate',
  plural: 'boxtemplates',
  singular: 'boxtemplate',
  shortNames: ['bt'],
  scope: 'Namespaced',
  description: 'The services of a box, whose images are pulled together: all of them, or nothing.',
  spec: boxTemplateSpec,
  status: boxTemplateStatus,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'State', type: 'string', jsonPath: '.status.bake.state' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Current', type: 'string', jsonPath: '.status.conditions[?(@.type=="Current")].status' },
    { name: 'Service', type: 'string', jsonPath: '.status.bake.failure.service', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.bake.failure.message', priority: 1 },
    { name: 'Job', type: 'string', jsonPath: '.status.bake.job', priority: 1 },
    { name: 'Ended', type: 'date', jsonPath: '.status.bake.completedAt' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const boxTemplates = resourceType(boxTemplateKind)
