import { z } from 'zod'
import {
  conditions,
  DNS_LABEL_NAME,
  DNS_SUBDOMAIN,
  GROUP,
  instant,
  type KindDefinition,
  objectOf,
  observedGeneration,
  resourceType,
  text,
} from './meta.ts'

/** RegistryCredential: how an organization logs in to a private container registry (interface §2.1). */

/** On a credential of type `token` until its parameter is removed, or recorded as a failed deletion. */
export const PARAMETER_FINALIZER = `${GROUP}/parameter`
/** "true" on an input Secret: it is kept, and a change of its value is stored as a new version. */
export const RETAIN_ANNOTATION = `${GROUP}/retain`
/** Type of an input Secret. It is the owner's consent: Davit uses no Secret of another type. */
export const REGISTRY_SECRET_TYPE = `${GROUP}/registry-secret`
/** Key of the secret in an input Secret. */
export const REGISTRY_SECRET_KEY = 'secret'

/**
 * On a credential whose new secret is stored while other fields of the same request are not written yet: their names. The secret is
 * not used before the write of the fields, which removes the annotation.
 */
export const PENDING_FIELDS_ANNOTATION = `${GROUP}/secret-awaits`

/** One label of a host name. */
const LABEL = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
const PORT = ':([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])'
/** As in image references: a name with a dot or a port, `localhost`, or an IPv6 address in brackets. */
export const REGISTRY_PATTERN = `(${LABEL}(\\.${LABEL})+\\.?(${PORT})?|${LABEL}${PORT}|localhost|\\[[0-9A-Fa-f:]{2,39}\\](${PORT})?)`
const REGISTRY = new RegExp(`^${REGISTRY_PATTERN}$`)
/** 253 characters of a name, a colon and a port. */
export const MAX_REGISTRY = 259
export const MAX_LABEL = 100
export const MAX_USERNAME = 255

const USERNAME = /^[^:\p{Cc}]+$/u

export const credentialType = z.enum(['token', 'ecr'])
export type CredentialType = z.infer<typeof credentialType>

const specShape = z.object({
  type: credentialType.meta({
    description:
      'token: a user name, and a secret that is stored in the cloud account. ecr: nothing is stored; the role of the box asks AWS for a token at every pull. Immutable.',
    'x-kubernetes-validations': [
      { rule: 'self == oldSelf', message: 'is immutable; make a new RegistryCredential' },
    ],
  }),
  label: text({ min: 1, max: MAX_LABEL, describe: 'A name for people; it need not be the only one.' }),
  registry: text({
    min: 1,
    max: MAX_REGISTRY,
    pattern: REGISTRY,
    patternHidden: true,
    allowed:
      'the host of a registry such as ghcr.io or registry.example.com:5000, without scheme and path (an international name in its xn-- form)',
    describe:
      'Host of the registry, and its port where it needs one. For ecr the host of one account and one region, such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com.',
  }),
  username: text({
    min: 1,
    max: MAX_USERNAME,
    pattern: USERNAME,
    patternHidden: true,
    allowed: 'a user name without colons and control characters',
    describe: 'Who logs in; only for token, and required there.',
  }).optional(),
  secretRef: z
    .object({
      name: text({
        min: 1,
        max: 253,
        pattern: DNS_SUBDOMAIN,
        patternHidden: true,
        allowed: 'the name of a Secret: lower-case letters, digits, dashes and dots',
        describe: 'Name of the Secret.',
      }),
    })
    .optional()
    .meta({
      description: `A Secret of this namespace of the type ${REGISTRY_SECRET_TYPE}, whose key \`${REGISTRY_SECRET_KEY}\` is stored; only for token. A credential made by REST has none.`,
    }),
})

/** What each type allows, in the schema and in CEL. */
const TYPE_RULES = [
  {
    holds: (spec: z.infer<typeof specShape>) => spec.type !== 'token' || spec.username !== undefined,
    rule: "self.type != 'token' || has(self.username)",
    message: 'username is required for the type token',
  },
  {
    holds: (spec: z.infer<typeof specShape>) => spec.type === 'token' || spec.username === undefined,
    rule: "self.type == 'token' || !has(self.username)",
    message: 'username is only for the type token',
  },
  {
    holds: (spec: z.infer<typeof specShape>) => spec.type === 'token' || spec.secretRef === undefined,
    rule: "self.type == 'token' || !has(self.secretRef)",
    message: 'secretRef is only for the type token',
  },
]

/** Otherwise, a user who may change a credential could have its secret sent to another host. */
const SAME_HOST = {
  rule: "self.type != 'token' || self.registry == oldSelf.registry",
  message:
    'registry is immutable for the type token, whose secret was given for this host; make a new RegistryCredential',
}

export const registryCredentialSpec = TYPE_RULES.reduce(
  (spec, { holds, message }) => spec.refine(holds, message),
  specShape,
).meta({
  description: 'What the owner wants.',
  'x-kubernetes-validations': [...TYPE_RULES.map(({ rule, message }) => ({ rule, message })), SAME_HOST],
})

export const storedParameter = z
  .object({
    name: text({ min: 1, max: 1011, describe: 'Name of the parameter.' }),
    version: z.int().min(1).meta({ description: 'The version that holds; a bake reads exactly this one.' }),
    region: text({ min: 1, max: 64, describe: 'Region of the parameter store.' }),
    account: text({ min: 12, max: 12, describe: 'AWS account.' }),
    roleArn: text({ min: 1, max: 2048, describe: 'Role that it was written with, and is removed with.' }),
    kmsKeyId: text({
      max: 2048,
      describe: "KMS key; absent: the account's own key for parameters.",
    }).optional(),
  })
  .meta({ description: 'Where the secret is; never the secret itself.' })
export type StoredParameter = z.infer<typeof storedParameter>

export const credentialVerification = z
  .object({
    at: instant('When the registry was asked.'),
    ok: z.boolean().meta({ description: 'Whether it took the credential for this repository.' }),
    code: text({ max: 64, describe: 'Why not, as a code of BoxTemplate.' }).optional(),
    repository: text({ max: 515, describe: 'What was asked for.' }),
    template: text({ max: 63, describe: 'The BoxTemplate whose bake asked.' }),
    parameterVersion: z
      .int()
      .min(1)
      .optional()
      .meta({ description: 'Version of the secret that was used; absent for ecr.' }),
    generation: z.int32().optional().meta({ description: 'Generation of the credential that was used.' }),
  })
  .meta({ description: 'What a bake has seen of the credential last, where it was used.' })
export type CredentialVerification = z.infer<typeof credentialVerification>

export const registryCredentialStatus = z
  .object({
    parameter: storedParameter.optional(),
    handover: z
      .object({
        uid: text({ min: 1, max: 128, describe: 'UID of the Secret.' }),
        resourceVersion: text({ min: 1, max: 128, describe: 'resourceVersion of the Secret.' }),
        mark: text({
          max: 64,
          describe:
            'Of a Secret that is retained: stands for its value, so that only another value is a new version. It tells nothing without the key of the installation.',
        }).optional(),
      })
      .optional()
      .meta({ description: 'The hand-over Secret whose value was stored last.' }),
    verified: credentialVerification.optional(),
    updatedAt: instant('When something that the owner can see changed last.').optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'What Davit observed; written by Davit only.' })

export const registryCredential = objectOf(registryCredentialSpec, registryCredentialStatus)
export type RegistryCredentialSpec = z.infer<typeof registryCredentialSpec>
export type RegistryCredentialStatus = z.infer<typeof registryCredentialStatus>
export type RegistryCredential = z.infer<typeof registryCredential>

/**
 * Condition types of a credential. Ready: it can be used. Stored: the secret is in the cloud account (token only). Verified: the
 * registry accepts it. Drifted: another writer changed the parameter (token only).
 */
export const CREDENTIAL_CONDITIONS = [
  'Ready',
  'Reconciling',
  'Stalled',
  'Stored',
  'Verified',
  'Drifted',
] as const

/** Reasons that last until someone acts; of Stalled, and of Ready and Stored with it. */
export const CREDENTIAL_STALLS = [
  'NotAnOrganization',
  'RegistryRefused',
  'UsernameRefused',
  'AccountNotReady',
  'AccountChanged',
  'SecretRequired',
  'SecretForbidden',
  'SecretTypeRefused',
  'SecretKeyMissing',
  'SecretRefused',
  'SecretShared',
  'ParameterNotOurs',
  'ParameterMissing',
  'ParameterReplaced',
  'AccessDenied',
  'CloudRefused',
] as const
export type CredentialStall = (typeof CREDENTIAL_STALLS)[number]

/** Reasons that pass by themselves, or when another object appears; of Reconciling, and of Ready and Stored with it. */
export const CREDENTIAL_WAITS = [
  'SettingsRequired',
  'AccountConnecting',
  'SecretMissing',
  'Storing',
  'CloudUnavailable',
] as const
export type CredentialWait = (typeof CREDENTIAL_WAITS)[number]

/** Reasons of Drifted. */
export const CREDENTIAL_DRIFTS = [
  'ChangedByOther',
  'ParameterReplaced',
  'KeyChanged',
  'ParameterMissing',
] as const
export type CredentialDrift = (typeof CREDENTIAL_DRIFTS)[number]

export const registryCredentialKind: KindDefinition = {
  kind: 'RegistryCredential',
  plural: 'registrycredentials',
  singular: 'registrycredential',
  shortNames: ['regcred'],
  scope: 'Namespaced',
  description:
    'A credential for a private container registry, whose secret is only in the cloud account of its organization.',
  spec: registryCredentialSpec,
  status: registryCredentialStatus,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    { name: 'Registry', type: 'string', jsonPath: '.spec.registry' },
    { name: 'Label', type: 'string', jsonPath: '.spec.label' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Version', type: 'integer', jsonPath: '.status.parameter.version' },
    {
      name: 'Drifted',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Drifted")].status',
      priority: 1,
    },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
      priority: 1,
    },
    { name: 'Parameter', type: 'string', jsonPath: '.status.parameter.name', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: ['.spec.type', '.spec.registry'],
}
export const registryCredentials = resourceType(registryCredentialKind)

/** An entry in the list of failed deletions: the parameter, how Davit would get there, and why it could not be removed. */
export const failedDeletionRecord = z.object({
  name: z.string(),
  account: z.string(),
  region: z.string(),
  roleArn: z.string(),
  reason: z.string(),
  organization: z.string(),
  organizationUid: z.string(),
  recordedAt: z.string(),
})
export type FailedDeletionRecord = z.infer<typeof failedDeletionRecord>
