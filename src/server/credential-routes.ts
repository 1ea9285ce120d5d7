import { z } from 'zod'
import { CREDENTIAL_PREFIX } from '../apis/ids.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import { credentialType, MAX_REGISTRY, registryCredentialSpec } from '../apis/registry-credential.ts'
import { SecretText } from '../lib/redact.ts'
import type { RegistryCredentials } from './credential-resource.ts'
import type { ProblemCode } from './http/problems.ts'
import { MANAGE_CREDENTIALS, type Route, replayed, route } from './http/route.ts'
import { type Cursors, cursor, limit, nextCursor, SURROGATE_MESSAGE, time } from './schemas.ts'

/** Registry credentials as REST shows and takes them (interface §2.1). */

const spec = registryCredentialSpec.shape

const credentialId = z
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

const credentialDraft = z.strictObject({
  type,
  label,
  registry,
  username: username.optional(),
  secret: secret.optional(),
})

const credentialChange = z.strictObject({
  label: label.optional(),
  username: username.optional(),
  secret: secret.optional(),
})

const credential = z
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

/** Registry credentials (interface §4.1). */

const TAG = 'Registry credentials'
const PATH = '/registry-credentials'
const ETAG = { ETag: 'Of the credential as it is now, for If-Match.' }
/** What the cloud account may be in the way of. */
const STORING: readonly ProblemCode[] = [
  'secrets_settings_required',
  'cloud_account_not_ready',
  'cloud_unavailable',
  'idempotency_conflict',
  'unreadable',
]

const params = z.object({ credentialId })

export function credentialRoutes(credentials: RegistryCredentials, cursors: Cursors): Route[] {
  return [
    createRoute(credentials),
    listRoute(credentials, cursors),
    getRoute(credentials),
    changeRoute(credentials),
    removeRoute(credentials),
  ]
}

function createRoute(credentials: RegistryCredentials): Route {
  return route({
    id: 'createCredential',
    method: 'post',
    path: PATH,
    tag: TAG,
    summary: 'Create a registry credential',
    description:
      'The secret of a `token` is stored in the cloud account of the organization, and nowhere else; `ecr` has none and needs no account.',
    permission: MANAGE_CREDENTIALS,
    body: credentialDraft,
    success: {
      status: 201,
      description: 'The credential, without its secret.',
      body: credential,
      headers: { ...ETAG, Location: 'Path of the credential.' },
    },
    problems: ['too_many_credentials', ...STORING],
    idempotent: true,
    async handle({ organization, body, idempotencyKey }) {
      const created = await credentials.create(organization, body, { idempotencyKey })
      const { etag } = created
      return {
        body: created.credential,
        headers: {
          ...(etag === undefined ? {} : { etag }),
          location: `/organizations/${organization}${PATH}/${created.credential.id}`,
          ...replayed(created.replayed).headers,
        },
      }
    },
  })
}

function listRoute(credentials: RegistryCredentials, cursors: Cursors): Route {
  return route({
    id: 'listCredentials',
    method: 'get',
    path: PATH,
    tag: TAG,
    summary: 'List the registry credentials',
    description: 'By name.',
    permission: MANAGE_CREDENTIALS,
    query: z.strictObject({ limit, cursor }),
    success: {
      status: 200,
      description: 'A page of credentials, without their secrets.',
      body: z.object({ registryCredentials: z.array(credential), cursor: nextCursor }),
    },
    problems: ['cursor_expired'],
    async handle({ organization, query }) {
      const list = ['registryCredentials', organization]
      const after = query.cursor === undefined ? undefined : cursors.read(list, query.cursor)
      const page = await credentials.list(organization, { limit: query.limit, after })
      const next = page.next === undefined ? null : cursors.make(list, page.next)
      return { body: { registryCredentials: page.registryCredentials, cursor: next } }
    },
  })
}

function getRoute(credentials: RegistryCredentials): Route {
  return route({
    id: 'getCredential',
    method: 'get',
    path: `${PATH}/{credentialId}`,
    tag: TAG,
    summary: 'Read a registry credential',
    permission: MANAGE_CREDENTIALS,
    params,
    success: {
      status: 200,
      description: 'The credential, without its secret.',
      body: credential,
      headers: ETAG,
    },
    problems: ['unreadable'],
    async handle({ organization, params: { credentialId } }) {
      const found = await credentials.get({ organization, credentialId })
      return { body: found.credential, headers: { etag: found.etag } }
    },
  })
}

function changeRoute(credentials: RegistryCredentials): Route {
  return route({
    id: 'changeCredential',
    method: 'patch',
    path: `${PATH}/{credentialId}`,
    tag: TAG,
    summary: 'Change a registry credential',
    description:
      'Only the fields that are sent. A secret becomes a new version of its parameter, which bakes read from now on; it is in force together with the other fields, or neither is.',
    permission: MANAGE_CREDENTIALS,
    params,
    body: credentialChange,
    success: {
      status: 200,
      description: 'The credential as it is now, without its secret.',
      body: credential,
      headers: ETAG,
    },
    problems: ['managed_elsewhere', 'precondition_failed', 'not_acknowledged', ...STORING],
    idempotent: true,
    conditional: true,
    async handle({ organization, params: { credentialId }, body, idempotencyKey, ifMatch }) {
      const how = { idempotencyKey, ifMatch }
      const changed = await credentials.change({ organization, credentialId }, body, how)
      return {
        body: changed.credential,
        headers: { etag: changed.etag, ...replayed(changed.replayed).headers },
      }
    },
  })
}

function removeRoute(credentials: RegistryCredentials): Route {
  return route({
    id: 'deleteCredential',
    method: 'delete',
    path: `${PATH}/{credentialId}`,
    tag: TAG,
    summary: 'Delete a registry credential',
    description:
      'It is gone at once. Its parameter in the cloud account is removed afterwards; where that fails for good, an Event says where it stays.',
    permission: MANAGE_CREDENTIALS,
    params,
    success: { status: 204, description: 'It is gone.' },
    problems: ['precondition_failed'],
    conditional: true,
    async handle({ organization, params: { credentialId }, ifMatch }) {
      await credentials.remove({ organization, credentialId }, { ifMatch })
      return {}
    },
  })
}
