import { z } from 'zod'
import {
  conditions,
  DNS_LABEL_NAME,
  DNS_SUBDOMAIN,
  GROUP,
  generation,
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
      'type is token or ecr. A token credential has a user name and a secret that is stored in the AWS account. An ecr credential stores no secret: the box uses its role to request a token from AWS for each pull. The type is immutable.',
    'x-kubernetes-validations': [
      { rule: 'self == oldSelf', message: 'is immutable; create a new RegistryCredential instead' },
    ],
  }),
  label: text({
    min: 1,
    max: MAX_LABEL,
    describe: 'label is a name for people. It does not have to be unique.',
  }),
  registry: text({
    min: 1,
    max: MAX_REGISTRY,
    pattern: REGISTRY,
    patternHidden: true,
    allowed:
      'the host of a registry such as ghcr.io or registry.example.com:5000, without scheme or path (internationalized names in their xn-- form)',
    describe:
      'registry is the host of the registry, with a port if required. For type ecr, it is the host of one AWS account and region, such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com.',
  }),
  username: text({
    min: 1,
    max: MAX_USERNAME,
    pattern: USERNAME,
    patternHidden: true,
    allowed: 'a user name without colons or control characters',
    describe:
      'username is the user name for the login. It is required for type token and not allowed for type ecr.',
  }).optional(),
  secretRef: z
    .object({
      name: text({
        min: 1,
        max: 253,
        pattern: DNS_SUBDOMAIN,
        patternHidden: true,
        allowed: 'the name of a Secret: lowercase letters, digits, dashes and dots',
        describe: 'name is the name of the Secret.',
      }),
    })
    .optional()
    .meta({
      description: `secretRef refers to the input Secret: a Secret in this namespace of type ${REGISTRY_SECRET_TYPE}, whose key \`${REGISTRY_SECRET_KEY}\` contains the secret to store. It is allowed only for type token. It is unset in a credential that was created through the REST API.`,
    }),
})

/** What each type allows, in the schema and in CEL. */
const TYPE_RULES = [
  {
    holds: (spec: z.infer<typeof specShape>) => spec.type !== 'token' || spec.username !== undefined,
    rule: "self.type != 'token' || has(self.username)",
    message: 'username must be set if type is token',
  },
  {
    holds: (spec: z.infer<typeof specShape>) => spec.type === 'token' || spec.username === undefined,
    rule: "self.type == 'token' || !has(self.username)",
    message: 'username must not be set unless type is token',
  },
  {
    holds: (spec: z.infer<typeof specShape>) => spec.type === 'token' || spec.secretRef === undefined,
    rule: "self.type == 'token' || !has(self.secretRef)",
    message: 'secretRef must not be set unless type is token',
  },
]

/** Otherwise, a user who may change a credential could have its secret sent to another host. */
const SAME_HOST = {
  rule: "self.type != 'token' || self.registry == oldSelf.registry",
  message:
    'registry is immutable if type is token, because the secret belongs to this host; create a new RegistryCredential instead',
}

export const registryCredentialSpec = TYPE_RULES.reduce(
  (spec, { holds, message }) => spec.refine(holds, message),
  specShape,
).meta({
  description: 'spec is the desired state of the credential.',
  'x-kubernetes-validations': [...TYPE_RULES.map(({ rule, message }) => ({ rule, message })), SAME_HOST],
})

export const storedParameter = z
  .object({
    name: text({ min: 1, max: 1011, describe: 'name is the name of the parameter.' }),
    version: z.int().min(1).meta({
      description: 'version is the current version of the parameter. A bake reads exactly this version.',
    }),
    region: text({ min: 1, max: 64, describe: 'region is the AWS region of the parameter store.' }),
    account: text({ min: 12, max: 12, describe: 'account is the ID of the AWS account.' }),
    roleArn: text({
      min: 1,
      max: 2048,
      describe: 'roleArn is the IAM role that wrote the parameter and that removes it.',
    }),
    kmsKeyId: text({
      max: 2048,
      describe:
        "kmsKeyId is the KMS key that encrypts the parameter. If unset, it is the account's default key for parameters.",
    }).optional(),
  })
  .meta({
    description: 'parameter is the location of the stored secret. The secret itself is never included.',
  })
export type StoredParameter = z.infer<typeof storedParameter>

export const credentialVerification = z
  .object({
    at: instant('at is when the registry was contacted.'),
    ok: z
      .boolean()
      .meta({ description: 'ok is true if the registry accepted the credential for this repository.' }),
    code: text({
      max: 64,
      describe:
        'code is the failure code of BoxTemplate that explains why ok is false. It is unset if ok is true.',
    }).optional(),
    repository: text({ max: 515, describe: 'repository is the repository that was requested.' }),
    template: text({ max: 63, describe: 'template is the BoxTemplate whose bake used the credential.' }),
    parameterVersion: z.int().min(1).optional().meta({
      description: 'parameterVersion is the version of the secret that was used. It is unset for type ecr.',
    }),
    generation: generation
      .optional()
      .meta({ description: 'generation is the generation of the credential that was used.' }),
  })
  .meta({ description: 'verified is the result of the last bake that used the credential.' })
export type CredentialVerification = z.infer<typeof credentialVerification>

export const registryCredentialStatus = z
  .object({
    parameter: storedParameter.optional(),
    handover: z
      .object({
        uid: text({ min: 1, max: 128, describe: 'uid is the UID of the Secret.' }),
        resourceVersion: text({
          min: 1,
          max: 128,
          describe: 'resourceVersion is the resourceVersion of the Secret.',
        }),
        mark: text({
          max: 64,
          describe:
            'mark identifies the value of the Secret, so that Davit stores a new version only if the value changes. It reveals nothing without the installation key.',
        }).optional(),
        recordedAt: instant(
          'recordedAt is when Davit recorded the Secret, just before deleting it.',
        ).optional(),
        returns: z.int32().min(0).optional().meta({
          description:
            'returns is the number of times that the Secret was created again after Davit had deleted it: with the same value, or with another value within ten minutes. After three times, Davit no longer deletes it.',
        }),
      })
      .optional()
      .meta({ description: 'handover identifies the input Secret whose value was last stored.' }),
    verified: credentialVerification.optional(),
    updatedAt: instant('updatedAt is when a field that the owner can see last changed.').optional(),
    observedGeneration,
    conditions: conditions.optional(),
  })
  .meta({ description: 'status is the observed state of the credential. Only Davit writes it.' })

export const registryCredential = objectOf(registryCredentialSpec, registryCredentialStatus)
export type RegistryCredentialSpec = z.infer<typeof registryCredentialSpec>
export type RegistryCredentialStatus = z.infer<typeof registryCredentialStatus>
export type RegistryCredential = z.infer<typeof registryCredential>

/**
 * Condition types of a credential. Ready: it can be used. Stored: the secret is in the cloud account (token only). Verified: the
 * registry accepts it. Drifted: another writer changed the parameter (token only). InputSecretKept: Davit keeps an input Secret that
 * its owner did not ask Davit to retain.
 */
export const CREDENTIAL_CONDITIONS = [
  'Ready',
  'Reconciling',
  'Stalled',
  'Stored',
  'Verified',
  'Drifted',
  'InputSecretKept',
] as const

/** Reasons of InputSecretKept. */
export const KEPT_INPUT_SECRETS = ['OwnedByController', 'Recreated'] as const
export type KeptInputSecret = (typeof KEPT_INPUT_SECRETS)[number]

/** Reasons that last until someone acts; of Stalled, and of Ready and Stored with it. */
export const CREDENTIAL_STALLS = [
  'NotAnOrganization',
  'InvalidRegistry',
  'InvalidUsername',
  'AccountNotReady',
  'AccountChanged',
  'SecretRequired',
  'SecretForbidden',
  'InvalidSecretType',
  'SecretKeyMissing',
  'InvalidSecret',
  'SecretShared',
  'ParameterNotOwned',
  'ParameterMissing',
  'ParameterReplaced',
  'AccessDenied',
  'CloudRefused',
] as const
export type CredentialStall = (typeof CREDENTIAL_STALLS)[number]

/** Reasons that pass by themselves, or when another object appears; of Reconciling, and of Ready and Stored with it. */
export const CREDENTIAL_WAITS = [
  'SettingsRequired',
  'ConnectingAccount',
  'SecretMissing',
  'Storing',
  'CloudUnavailable',
] as const
export type CredentialWait = (typeof CREDENTIAL_WAITS)[number]

/** Reasons of Drifted. */
export const CREDENTIAL_DRIFTS = [
  'ChangedOutsideDavit',
  'ParameterReplaced',
  'KeyChanged',
  'ParameterMissing',
] as const
export type CredentialDrift = (typeof CREDENTIAL_DRIFTS)[number]

export const registryCredentialKind: KindDefinition = {
  kind: 'RegistryCredential',
  plural: 'registrycredentials',
  singular: 'registrycredential',
  shortNames: ['rcr'],
  scope: 'Namespaced',
  description:
    'RegistryCredential is a credential for a private container registry. Its secret is stored only in the AWS account of its organization.',
  spec: registryCredentialSpec,
  status: registryCredentialStatus,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    { name: 'Registry', type: 'string', jsonPath: '.spec.registry' },
    { name: 'Label', type: 'string', jsonPath: '.spec.label' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Version', type: 'integer', jsonPath: '.status.parameter.version' },
    {
      name: 'Drifted',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Drifted")].status',
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
