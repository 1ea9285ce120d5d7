/** Registry credentials as REST shows and takes them (interface §2.1). */
import { z } from 'zod'
import { CREDENTIAL_PREFIX } from '../apis/identifiers.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import { credentialType, MAX_REGISTRY, registryCredentialSpec } from '../apis/registry-credential.ts'
import { SecretText } from '../lib/secret-text.ts'
import { SURROGATE_MESSAGE, time } from './schemas.ts'

const spec = registryCredentialSpec.shape

export const credentialId = z
  .string()
  .regex(new RegExp(`^${CREDENTIAL_PREFIX}${DNS_LABEL.source.slice(1)}`))
  .meta({ description: 'Id of a registry credential.', example: 'rc_ghcr' })

const type = credentialType.meta({
  description:
    '`token`: a user name and a secret, which is stored in the cloud account of the organization. `ecr`: nothing is stored; the role of the box asks AWS for a token at every pull.',
  example: 'ecr',
})
const label = z
  .string()
  .refine((value) => value.isWellFormed(), SURROGATE_MESSAGE)
  .pipe(spec.label)
  .meta({
    description: 'A name for people; it need not be the only one.',
    minLength: 1,
    maxLength: 100,
    example: 'Our images',
  })
const username = z
  .string()
  .refine((value) => value.isWellFormed(), SURROGATE_MESSAGE)
  .pipe(spec.username.unwrap())
  .meta({ description: 'Who logs in. Only for `token`, and required there.', minLength: 1, maxLength: 255 })
/** What a host is, and which are those of ECR, is said by whoever takes it: a pattern could not say why. */
const registry = z.string().meta({
  description:
    'Host of the registry, with its port where it needs one: no scheme, no path. For `ecr` the host of one account and one region.',
  minLength: 1,
  maxLength: MAX_REGISTRY,
  example: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
})
/** From here on it is none that could be printed. */
const secret = z
  .string()
  .meta({
    description:
      'An access token or password, at most 4 KB, without line ends, white space at its ends, `{{` and `}}`. Only for `token`, and required there. It is never shown again.',
    format: 'password',
    writeOnly: true,
    minLength: 1,
    maxLength: 4096,
  })
  .transform((value) => new SecretText(value))

export const credentialDraft = z.strictObject({
  type,
  label,
  registry,
  username: username.optional(),
  secret: secret.optional(),
})

export const credentialChange = z.strictObject({
  label: label.optional(),
  username: username.optional(),
  secret: secret.optional(),
})

export const credential = z
  .object({
    id: credentialId,
    label: z.string(),
    registry: z.string().meta({ description: 'In the form in which hosts are compared.' }),
    type,
    username: z.string().optional().meta({ description: 'Only of `token`.' }),
    createdAt: time('When it was created.'),
    updatedAt: time('When something of it last changed that its owner can see, or its secret.'),
  })
  .meta({ id: 'RegistryCredential', description: 'How an organization logs in to a private registry.' })
