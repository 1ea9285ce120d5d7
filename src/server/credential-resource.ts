import { LRUCache } from 'lru-cache'
import { CREDENTIAL_PREFIX, createdAtOf } from '../apis/ids.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import {
  type CredentialType,
  type RegistryCredential,
  type RegistryCredentialSpec,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
} from '../apis/registry-credential.ts'
import { parseRegistryHost } from '../apis/registry-host.ts'
import type { AccountIdentity } from '../credentials/accounts/identity.ts'
import type { ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import { credentialSpecProblem, registrySecretProblem } from '../credentials/spec.ts'
import {
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
  UnreadableError,
} from '../kube/client.ts'
import type { Organization } from '../kube/organizations.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { CredentialMetrics } from '../lib/metrics.ts'
import type { SecretText } from '../lib/redact.ts'
import type { KeyedMutex } from '../lib/semaphore.ts'
import { etagOf } from '../lib/text.ts'
import type { Conditional, Keyed } from './endpoint-resource.ts'
import { RefusedError, type RefusedPlace } from './http/problems.ts'
import type { IdempotencyKeys } from './idempotency.ts'
import type { SecretStore } from './secret-store.ts'

/** What REST does to registry credentials (interface §2.1, §4.1). Ids are `rc_...`; one that fits none is `not_found`. */

/** A credential as its owner sees it, without its secret. Times are ISO 8601, UTC, with milliseconds. */
export type CredentialResource = {
  id: string
  label: string
  /** In the form in which hosts are compared. */
  registry: string
  type: CredentialType
  /** Only of the type token. */
  username?: string
  createdAt: string
  updatedAt: string
}

export type CredentialDraft = {
  type: CredentialType
  label: string
  registry: string
  username?: string | undefined
  secret?: SecretText | undefined
}

/** What is absent stays as it is. */
export type CredentialChange = {
  label?: string | undefined
  username?: string | undefined
  secret?: SecretText | undefined
}

/** The credential and the value of its ETag, quotes included. */
export type TaggedCredential = { credential: CredentialResource; etag: string }

export type CreatedCredential = {
  /** As it was made, in a repeat too. */
  credential: CredentialResource
  /** Absent in a repeat, if the credential is gone by then. */
  etag?: string
  /** The same request had been answered before. */
  replayed: boolean
}

export type ChangedCredential = TaggedCredential & { replayed: boolean }

/** Which credential: the organization, and the `rc_` id. */
export type CredentialId = { organization: string; credentialId: string }

/** All @throws RefusedError */
export interface RegistryCredentials {
  /**
   * The secret is in the organization's account when it is answered, and nowhere else. Refuses: invalid, too_many_credentials,
   * secrets_settings_required, cloud_account_not_ready, cloud_unavailable, idempotency_conflict
   */
  create(organization: string, draft: CredentialDraft, how: Keyed): Promise<CreatedCredential>
  /** By name. `after` is the last id that the reader has, also of one deleted since; `next` is the one for the page behind this. */
  list(
    organization: string,
    query: { limit: number; after?: string | undefined },
  ): Promise<{ registryCredentials: CredentialResource[]; next?: string }>
  get(id: CredentialId): Promise<TaggedCredential>
  /** A secret becomes a new version. Refuses as `create` does, and: managed_elsewhere, precondition_failed, not_acknowledged */
  change(id: CredentialId, change: CredentialChange, how: Keyed & Conditional): Promise<ChangedCredential>
  /** Gone from REST at once; its secret is removed afterwards. Refuses: precondition_failed */
  remove(id: CredentialId, how: Conditional): Promise<void>
}

/** A credential as its owner sees it over REST. */
export function resourceOf({ metadata, spec, status }: RegistryCredential): CredentialResource {
  const { label, registry, type, username } = spec
  const createdAt = createdAtOf(metadata)
  return {
    id: CREDENTIAL_PREFIX + metadata.name,
    label,
    // One that was made with kubectl may be written otherwise; a condition says so where it is no host.
    registry: parseRegistryHost(registry).host ?? registry,
    type,
    ...(username === undefined ? {} : { username }),
    createdAt,
    updatedAt: status?.updatedAt === undefined ? createdAt : new Date(status.updatedAt).toISOString(),
  }
}

export function taggedOf(credential: RegistryCredential): TaggedCredential {
  return { credential: resourceOf(credential), etag: etagOf(credential.metadata) }
}

/** What of a request's fields no schema says (interface §2.1). */

type Spec = Pick<RegistryCredentialSpec, 'type' | 'label' | 'registry' | 'username'>

/** The spec of a draft, its registry in the one form. @throws RefusedError invalid */
export function specOf({ type, label, registry, username, secret }: CredentialDraft): Spec {
  const problem = credentialSpecProblem({ type, registry, username })
  const isMissing = type === 'token' && username === undefined
  refuse([
    ...(problem && !(isMissing && problem.field === 'username')
      ? [{ pointer: `/${problem.field}`, message: problem.message }]
      : []),
    ...requiredForToken(type, { username, secret }),
    ...onlyForToken(type, { username, secret }),
    ...secretPlaces(secret),
  ])
  const { host = registry } = parseRegistryHost(registry)
  return { type, label, registry: host, ...(username === undefined ? {} : { username }) }
}

/** @throws RefusedError invalid */
export function checkChange({ type, registry }: RegistryCredentialSpec, change: CredentialChange): void {
  const { username, secret } = change
  const problem = username === undefined ? undefined : credentialSpecProblem({ type, registry, username })
  refuse([
    ...onlyForToken(type, change),
    ...(type === 'token' && problem?.field === 'username'
      ? [{ pointer: '/username', message: problem.message }]
      : []),
    ...secretPlaces(secret),
  ])
}

type OfToken = { username?: string | undefined; secret?: SecretText | undefined }
const OF_TOKEN = ['username', 'secret'] as const

function requiredForToken(type: Spec['type'], given: OfToken): RefusedPlace[] {
  const missing = type === 'token' ? OF_TOKEN.filter((field) => given[field] === undefined) : []
  return missing.map((field) => ({ pointer: `/${field}`, message: 'is required for the type token' }))
}

function onlyForToken(type: Spec['type'], given: OfToken): RefusedPlace[] {
  const surplus = type === 'token' ? [] : OF_TOKEN.filter((field) => given[field] !== undefined)
  return surplus.map((field) => ({ pointer: `/${field}`, message: 'is only for the type token' }))
}

/** In words that never have any of it. */
function secretPlaces(secret: SecretText | undefined): RefusedPlace[] {
  const problem = secret && registrySecretProblem(secret.reveal())
  return problem === undefined ? [] : [{ pointer: '/secret', message: problem }]
}

function refuse(places: readonly RefusedPlace[]): void {
  if (places.length > 0) throw new RefusedError('invalid', { places })
}

/** What the process knows of registry credentials: the newest version seen, from the watch or from its own writes. */

/** A read or a write may be under way for minutes; no more credentials than these go meanwhile. */
const MAX_REMOVED = 10_000

export class CredentialDirectory {
  readonly #namespaces = new Map<string, Map<string, RegistryCredential>>()
  /** UIDs of those that went of late. */
  readonly #removed = new LRUCache<string, true>({ max: MAX_REMOVED })

  inNamespace(namespace: string): RegistryCredential[] {
    return [...(this.#namespaces.get(namespace)?.values() ?? [])]
  }

  /** A version from the watch; an older one than what is known changes nothing. */
  apply(credential: RegistryCredential): void {
    // One that went is there again when the store was set back: the watch knows.
    this.#removed.delete(credential.metadata.uid)
    this.#take(credential)
  }

  /**
   * A version from a read or our own write. The watch may have told its end while that was under way, and will tell it no
   * second time: what is known to have gone stays gone.
   */
  learn(credential: RegistryCredential): void {
    if (!this.#removed.has(credential.metadata.uid)) this.#take(credential)
  }

  remove({ metadata: { namespace = '', name, uid } }: RegistryCredential): void {
    this.#removed.set(uid, true)
    const held = this.#namespaces.get(namespace)
    if (held?.get(name)?.metadata.uid !== uid) return
    held.delete(name)
    if (held.size === 0) this.#namespaces.delete(namespace)
  }

  #take(credential: RegistryCredential): void {
    const { namespace = '', name, uid, resourceVersion } = credential.metadata
    const held = this.#namespaces.get(namespace) ?? new Map<string, RegistryCredential>()
    const known = held.get(name)
    if (known && Number(known.metadata.resourceVersion) >= Number(resourceVersion)) return
    if (known && known.metadata.uid !== uid) this.#removed.set(known.metadata.uid, true)
    this.#namespaces.set(namespace, held.set(name, shown(credential)))
  }
}

/** Of the status no more than an owner is shown. */
function shown({ metadata, spec, status }: RegistryCredential): RegistryCredential {
  const { updatedAt, observedGeneration = -1 } = status ?? {}
  return {
    metadata,
    spec,
    ...(updatedAt === undefined ? {} : { status: { updatedAt, observedGeneration } }),
  }
}

/** What the operations on registry credentials share. */

export type CredentialsOptions = {
  resources: ResourceReader & ResourceWriter
  /** Credentials of all organizations, from the watch; what is written here is applied at once. */
  directory: CredentialDirectory
  /** Why the directory may not have all of them as they are, in words; undefined while it has. */
  behind: () => string | undefined
  organizations: { get(name: string): Organization | undefined }
  identity: AccountIdentity
  parameters: ParameterStore & ParameterListing
  keys: IdempotencyKeys
  /** Credentials that an organization may have. */
  maxCredentials: number
  clock: Clock
  random: Random
  log: Logger
  metrics: CredentialMetrics
}

export type CredentialsContext = CredentialsOptions & {
  store: SecretStore
  /** By credential: of the changes that come here at a time, one after the other writes. */
  mutex: KeyedMutex
}

/** The namespace, and the name of the credential there. */
export type CredentialRef = { namespace: string; name: string }

/** Credentials as they are now: whoever made a change a moment ago through another replica sees it here. */

export type CredentialSources = { resources: Pick<ResourceReader, 'get'>; directory: CredentialDirectory }

/** @param raw all of its metadata */
export type StoredCredential = { credential: RegistryCredential; raw: RawObject }

/** @throws RefusedError not_found, also of one that is being deleted; ApiError; UnreadableError */
export async function readCredential(from: CredentialSources, at: CredentialRef): Promise<StoredCredential> {
  const raw = await readRaw(from.resources, at)
  const credential = parseCredential(raw)
  from.directory.learn(credential)
  if (credential.metadata.deletionTimestamp !== undefined) throw new RefusedError('not_found')
  return { credential, raw }
}

/** As it is stored, whatever is in it, and though it is being deleted. @throws RefusedError not_found; ApiError */
export async function readRaw(resources: Pick<ResourceReader, 'get'>, at: CredentialRef): Promise<RawObject> {
  try {
    return await resources.get(registryCredentials, at)
  } catch (error) {
    throw isApiError(error, 'NotFound') ? new RefusedError('not_found', { cause: error }) : error
  }
}

/** @throws UnreadableError */
export function parseCredential(raw: RawObject): RegistryCredential {
  const { data } = registryCredential.safeParse(raw)
  if (data) return data
  throw new UnreadableError(registryCredentialKind.kind, `${raw.metadata.namespace}/${raw.metadata.name}`)
}

/** @throws RefusedError not_found for what is no id of a credential */
export function credentialRef({ organization, credentialId }: CredentialId): CredentialRef {
  const name = credentialId.startsWith(CREDENTIAL_PREFIX) ? credentialId.slice(CREDENTIAL_PREFIX.length) : ''
  if (!DNS_LABEL.test(name)) throw new RefusedError('not_found')
  return { namespace: organization, name }
}
