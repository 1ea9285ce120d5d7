import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { CREDENTIAL_PREFIX, createdAtOf } from '../apis/ids.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import {
  type CredentialType,
  credentialType,
  MAX_REGISTRY,
  type RegistryCredential,
  type RegistryCredentialSpec,
  registryCredential,
  registryCredentialKind,
  registryCredentialSpec,
  registryCredentials,
} from '../apis/registry-credential.ts'
import { parseRegistryHost } from '../apis/registry-host.ts'
import { MAX_GIVEN_BYTES, parseRegistrySecret } from '../credentials/registry-secret.ts'
import { credentialSpecProblem } from '../credentials/spec.ts'
import type { ResourceReader } from '../kube/client.ts'
import { SecretText } from '../lib/redact.ts'
import { Problem, type ProblemPlace } from './http/problems.ts'
import { time, wellFormed } from './lists.ts'
import { type NamespacedRef, type ResourceKind, readStored, refOfId, type Stored, tagOf } from './objects.ts'

/** Registry credentials as REST shows and takes them (interface §2.1, §4.1), and how they are read. */

const spec = registryCredentialSpec.shape

export const credentialId = z
  .string()
  .regex(new RegExp(`^${CREDENTIAL_PREFIX}${DNS_LABEL.source.slice(1)}`))
  .meta({ description: 'ID of the registry credential.', example: 'rc_ghcr' })

const type = credentialType.meta({
  description:
    'type is `token` or `ecr`. `token` is a user name and a secret, which is stored in the AWS account of the organization. `ecr` stores nothing: the box uses its role to request a token from AWS for each pull.',
  example: 'ecr',
})
const label = wellFormed(z.string()).pipe(spec.label).meta({
  description: 'label is a human-readable name. It does not have to be unique.',
  minLength: 1,
  maxLength: 100,
  example: 'Our images',
})
const username = wellFormed(z.string()).pipe(spec.username.unwrap()).meta({
  description:
    'username is the user name for the registry. It is required for `token` and must not be set for `ecr`.',
  minLength: 1,
  maxLength: 255,
})
/** Without a pattern: `specOf` explains why a host is invalid. */
const registry = z.string().meta({
  description:
    'registry is the host of the registry, with a port if needed, but without a scheme or a path. For `ecr`, it is the ECR registry host of an AWS account in a region.',
  minLength: 1,
  maxLength: MAX_REGISTRY,
  example: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
})
/** Becomes a value that cannot be printed. */
const secret = z
  .string()
  .meta({
    description:
      'secret is an access token, a password, or a JSON document such as a service account key. Davit removes line breaks and indentation from JSON, and line breaks from JSON in base64; then it must be at most 4096 bytes. Any other secret must not contain line breaks, and must not start or end with white space. No secret may contain `{{` followed by `}}`. It is required for `token` and must not be set for `ecr`. It is never returned.',
    format: 'password',
    writeOnly: true,
    minLength: 1,
    maxLength: MAX_GIVEN_BYTES,
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
    registry: z.string().meta({ description: 'registry is the host of the registry, in normalized form.' }),
    type,
    username: z
      .string()
      .optional()
      .meta({ description: 'username is the user name for the registry. It is present only for `token`.' }),
    createdAt: time('createdAt is the time at which the credential was created.'),
    updatedAt: time(
      'updatedAt is the time at which the secret, or anything else that the owner can see, last changed.',
    ),
  })
  .meta({
    id: 'RegistryCredential',
    description: 'A credential that an organization uses to log in to a private registry.',
  })

export type CredentialDraft = z.output<typeof credentialDraft>

/** Absent fields stay as they are. */
export type CredentialChange = z.output<typeof credentialChange>

/** A credential as its owner sees it, without its secret. Times are ISO 8601, UTC, with milliseconds. */
export type CredentialResource = z.output<typeof credential>

/** A credential and its ETag, quotes included. */
export type TaggedCredential = { credential: CredentialResource; etag: string }

/** `credentialId` is an `rc_` id; one that fits no credential is `not_found`. */
export type CredentialId = { organization: string; credentialId: string }

export function resourceOf({ metadata, spec, status }: RegistryCredential): CredentialResource {
  const { label, registry, type, username } = spec
  const createdAt = createdAtOf(metadata)
  return {
    id: CREDENTIAL_PREFIX + metadata.name,
    label,
    // One created with kubectl may have another form; a condition reports one that is no host.
    registry: parseRegistryHost(registry).host ?? registry,
    type,
    ...(username === undefined ? {} : { username }),
    createdAt,
    updatedAt: status?.updatedAt === undefined ? createdAt : new Date(status.updatedAt).toISOString(),
  }
}

export function taggedOf(credential: RegistryCredential): TaggedCredential {
  return { credential: resourceOf(credential), etag: tagOf(CREDENTIAL, credential) }
}

/** With the secret in the form in which it is stored. One that cannot be stored stays as it is, so that its problem is found. */
export function withStoredSecret<T extends { secret?: SecretText | undefined }>(given: T): T {
  const stored = given.secret && parseRegistrySecret(given.secret.reveal()).secret
  return stored === undefined ? given : { ...given, secret: new SecretText(stored) }
}

type Spec = Pick<RegistryCredentialSpec, 'type' | 'label' | 'registry' | 'username'>

/** The spec of a draft, its registry in normal form. Checks the rules that a schema cannot express. @throws Problem invalid */
export function specOf({ type, label, registry, username, secret }: CredentialDraft): Spec {
  const problem = credentialSpecProblem({ type, registry, username })
  const isMissing = type === 'token' && username === undefined
  refuse([
    ...(problem && !(isMissing && problem.field === 'username')
      ? [{ pointer: `/${problem.field}`, message: problem.message }]
      : []),
    ...tokenFields(type, { username, secret }),
    ...secretProblems(secret),
  ])
  const { host = registry } = parseRegistryHost(registry)
  return { type, label, registry: host, ...(username === undefined ? {} : { username }) }
}

/** @throws Problem invalid */
export function checkChange({ type, registry }: RegistryCredentialSpec, change: CredentialChange): void {
  const { username, secret } = change
  const problem = username === undefined ? undefined : credentialSpecProblem({ type, registry, username })
  refuse([
    ...(type === 'token' ? [] : tokenFields(type, change)),
    ...(type === 'token' && problem?.field === 'username'
      ? [{ pointer: '/username', message: problem.message }]
      : []),
    ...secretProblems(secret),
  ])
}

/** `username` and `secret` are required for the type token and not allowed for any other. */
function tokenFields(
  type: CredentialType,
  given: { username?: string | undefined; secret?: SecretText | undefined },
): ProblemPlace[] {
  const isToken = type === 'token'
  const message = isToken ? 'must be set if type is token' : 'must not be set unless type is token'
  const wrong = (['username', 'secret'] as const).filter((field) => (given[field] === undefined) === isToken)
  return wrong.map((field) => ({ pointer: `/${field}`, message }))
}

/** The messages never contain any part of the secret. */
function secretProblems(secret: SecretText | undefined): ProblemPlace[] {
  const problem = secret && parseRegistrySecret(secret.reveal()).problem
  return problem === undefined ? [] : [{ pointer: '/secret', message: problem }]
}

function refuse(errors: readonly ProblemPlace[]): void {
  if (errors.length > 0) throw new Problem('invalid', { errors })
}

/** A read or a write may take minutes; no more credentials than these are deleted in that time. */
const MAX_REMOVED = 10_000

/** The newest version of each registry credential that the watch, a read or our own write has shown. */
export class CredentialDirectory {
  readonly #namespaces = new Map<string, Map<string, RegistryCredential>>()
  /** UIDs of the latest deleted ones. */
  readonly #removed = new LRUCache<string, true>({ max: MAX_REMOVED })

  inNamespace(namespace: string): RegistryCredential[] {
    return [...(this.#namespaces.get(namespace)?.values() ?? [])]
  }

  /** A version from the watch; one older than the known version changes nothing. */
  apply(credential: RegistryCredential): void {
    // After a restore of the store a deleted one may exist again: the watch knows.
    this.#removed.delete(credential.metadata.uid)
    this.#store(credential)
  }

  /** A version from a read or our own write, during which the watch may have shown the deletion: it does so only once. */
  learn(credential: RegistryCredential): void {
    if (!this.#removed.has(credential.metadata.uid)) this.#store(credential)
  }

  remove({ metadata: { namespace = '', name, uid } }: RegistryCredential): void {
    this.#removed.set(uid, true)
    const held = this.#namespaces.get(namespace)
    if (held?.get(name)?.metadata.uid !== uid) return
    held.delete(name)
    if (held.size === 0) this.#namespaces.delete(namespace)
  }

  #store(credential: RegistryCredential): void {
    const { namespace = '', name, uid, resourceVersion } = credential.metadata
    const held = this.#namespaces.get(namespace) ?? new Map<string, RegistryCredential>()
    const known = held.get(name)
    if (known && Number(known.metadata.resourceVersion) >= Number(resourceVersion)) return
    if (known && known.metadata.uid !== uid) this.#removed.set(known.metadata.uid, true)
    this.#namespaces.set(namespace, held.set(name, trimmed(credential)))
  }
}

/** Keeps only that part of the status which REST shows. */
function trimmed({ metadata, spec, status }: RegistryCredential): RegistryCredential {
  const { updatedAt, observedGeneration = -1 } = status ?? {}
  return {
    metadata,
    spec,
    ...(updatedAt === undefined ? {} : { status: { updatedAt, observedGeneration } }),
  }
}

export const CREDENTIAL: ResourceKind<RegistryCredential> = {
  type: registryCredentials,
  kind: registryCredentialKind.kind,
  schema: registryCredential,
  versionOf: resourceOf,
}

export type CredentialSources = { resources: Pick<ResourceReader, 'get'>; directory: CredentialDirectory }

/** @throws Problem not_found, also if it is being deleted; ApiError; UnreadableError */
export async function readCredential(
  { resources, directory }: CredentialSources,
  ref: NamespacedRef,
): Promise<Stored<RegistryCredential>> {
  return await readStored(resources, CREDENTIAL, ref, (credential) => directory.learn(credential))
}

/** @throws Problem not_found for a text that is no id of a credential */
export function credentialRef({ organization, credentialId }: CredentialId): NamespacedRef {
  return refOfId(organization, credentialId, CREDENTIAL_PREFIX)
}
