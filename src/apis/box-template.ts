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
    allowed: `a name of at most ${MAX_SERVICE_NAME} lowercase letters, digits and dashes`,
    describe: 'name is the name of the service. It must be unique in the box.',
  }),
  kind: serviceKind.meta({
    description:
      "kind is custom (the organization's own image; a private image needs a credential) or catalog (an image from a public registry, pulled without a credential).",
  }),
  image: text({
    min: 1,
    max: MAX_IMAGE,
    pattern: IMAGE,
    allowed:
      'an image reference such as ghcr.io/acme/api:1.4: a host (optional for Docker Hub), a lowercase repository, and optionally a tag, a digest or both',
    describe:
      'image is the image reference. If it has neither a tag nor a digest, the tag latest is pulled. If it has a digest, exactly that digest is pulled.',
  }),
  registryCredentialId: text({
    min: 1,
    max: CREDENTIAL_PREFIX.length + 63,
    pattern: new RegExp(`^${CREDENTIAL_PREFIX}${DNS_LABEL.source.slice(1)}`),
    allowed: 'the ID of a credential: rc_ followed by the name of a RegistryCredential',
    describe:
      'registryCredentialId is the ID of the credential for pulling the image: rc_ followed by the name of a RegistryCredential. It is allowed only for kind custom. If unset, the image is pulled anonymously.',
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
      'registryCredentialId must not be set unless kind is custom: catalog images come from public registries and need no credential',
  },
  {
    holds: ({ image }: Service) => !/^[0-9a-f]{64}$/.test(image),
    rule: "!self.image.matches('^[0-9a-f]{64}$')",
    message: 'image must be an image reference, not a 64-digit image ID',
  },
]

const boxService = SERVICE_RULES.reduce(
  (service, { holds, message }) => service.refine(holds, message),
  serviceShape,
).meta({
  description: 'A service of the box.',
  'x-kubernetes-validations': SERVICE_RULES.map(({ rule, message }) => ({ rule, message })),
})

const nameOf = (what: string, describe: string) =>
  text({
    min: 1,
    max: 253,
    pattern: DNS_SUBDOMAIN,
    allowed: `the name of a ${what}: lowercase letters, digits, dashes and dots`,
    describe,
  })

const specShape = z.object({
  services: z
    .array(boxService)
    .min(1)
    .max(MAX_SERVICES)
    .refine((services) => new Set(services.map(({ name }) => name)).size === services.length, {
      error: 'must not contain duplicate names',
    })
    .meta({
      description: 'services lists the services of the box.',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    }),
  instanceRole: z
    .object({
      serviceAccountName: nameOf(
        'ServiceAccount',
        'serviceAccountName is the name of a ServiceAccount in this namespace.',
      ),
    })
    .optional()
    .meta({
      description:
        'instanceRole is the identity of the box (IRSA or EKS Pod Identity). The box uses it to read secrets and to request tokens from ECR. It is required if a service has a credential.',
    }),
  output: z
    .object({
      persistentVolumeClaim: nameOf(
        'PersistentVolumeClaim',
        'persistentVolumeClaim is the name of a PersistentVolumeClaim in this namespace.',
      ),
    })
    .optional()
    .meta({
      description:
        'output is the storage for the images, which are written as one OCI layout. If unset, the images are pulled, verified and discarded.',
    }),
  platform: text({
    min: 1,
    max: MAX_PLATFORM,
    pattern: PLATFORM,
    allowed: 'a platform such as linux/amd64 or linux/arm64/v8',
    describe:
      'platform is the platform of the box, which every image must support. If unset, it is the platform of the node that runs the bake.',
  }).optional(),
})
type Spec = z.infer<typeof specShape>

const ROLE_RULE = {
  holds: ({ services, instanceRole }: Spec) =>
    instanceRole !== undefined ||
    services.every(({ registryCredentialId }) => registryCredentialId === undefined),
  rule: 'has(self.instanceRole) || self.services.all(service, !has(service.registryCredentialId))',
  message:
    'instanceRole must be set if a service has a credential, because the box needs this role to read the secret',
}

export const boxTemplateSpec = specShape.refine(ROLE_RULE.holds, ROLE_RULE.message).meta({
  description: 'spec is the desired state of the template.',
  'x-kubernetes-validations': [{ rule: ROLE_RULE.rule, message: ROLE_RULE.message }],
})

export const boxTemplateStatus = z
  .object({
    bake: bakeStatus.optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'status is the observed state of the template. Only Davit writes it.' })

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
  shortNames: ['btp'],
  scope: 'Namespaced',
  description:
    'BoxTemplate defines the services of a box. Davit pulls all of their images in one bake, which succeeds or fails as a whole.',
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
