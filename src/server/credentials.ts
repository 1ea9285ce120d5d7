import { managedBy } from '../apis/annotations.ts'
import { CREDENTIAL_PREFIX, createdAtOf, NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import { API_VERSION, objectMeta } from '../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  type RegistryCredential,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
  type StoredParameter,
} from '../apis/registry-credential.ts'
import { isCloudError } from '../credentials/cloud.ts'
import { isApiError, type RawObject } from '../kube/client.ts'
import type { SecretText } from '../lib/redact.ts'
import { KeyedMutex } from '../lib/semaphore.ts'
import { etagOf, ifMatchHolds } from '../lib/text.ts'
import {
  type ChangedCredential,
  type CreatedCredential,
  type CredentialChange,
  type CredentialDraft,
  type CredentialId,
  type CredentialRef,
  type CredentialResource,
  type CredentialsContext,
  type CredentialsOptions,
  checkChange,
  credentialRef,
  parseCredential,
  type RegistryCredentials,
  readCredential,
  readRaw,
  resourceOf,
  type StoredCredential,
  specOf,
  type TaggedCredential,
  taggedOf,
} from './credential-resource.ts'
import {
  checkFields,
  type Fields,
  isBegun,
  recordParameter,
  type StoredSecret,
  storeSecret,
  writeFields,
} from './credential-writes.ts'
import type { Conditional, Keyed } from './endpoint-resource.ts'
import {
  cloudRefusal,
  clusterRefusal,
  RefusedError,
  refuseWhileStale,
  withRefusals,
} from './http/problems.ts'
import { ObjectQuota, type QuotaTicket, retryOnConflict } from './object-writes.ts'
import { type ReadyAccount, readyAccount, SecretStore } from './secret-store.ts'

/**
 * Makes a credential over REST: its secret goes into the organization's account first, then comes the credential, and then its
 * status says where the secret is. Whatever ends half way leaves nothing, or a parameter with our tags and without a credential,
 * which the sweep removes. With a name that is given by its Idempotency-Key, a repeat goes on where the first ended.
 */

type Spec = ReturnType<typeof specOf>
type Wanted = { spec: Spec; secret?: SecretText | undefined; room: QuotaTicket }

class CredentialCreation {
  readonly #ctx: CredentialsContext
  readonly #room: ObjectQuota

  constructor(ctx: CredentialsContext) {
    this.#ctx = ctx
    const { directory, maxCredentials } = ctx
    this.#room = new ObjectQuota({
      held: (organization) => directory.inNamespace(organization).length,
      most: maxCredentials,
      refusal: (held) => {
        const detail = `The organization has ${held} registry credentials, and may have ${maxCredentials}.`
        return new RefusedError('too_many_credentials', { detail })
      },
    })
  }

  async create(
    organization: string,
    draft: CredentialDraft,
    key: string | undefined,
  ): Promise<CreatedCredential> {
    const spec = specOf(draft)
    const room = this.#room.ticketFor(organization)
    const wanted: Wanted = { spec, secret: draft.secret, room }
    try {
      return await this.#created(organization, wanted, key)
    } finally {
      room.giveBack()
    }
  }

  async #created(organization: string, wanted: Wanted, key: string | undefined): Promise<CreatedCredential> {
    const { keys, clock, random } = this.#ctx
    const check = async () => {
      wanted.room.take()
      if (wanted.spec.type === 'token') await readyAccount(this.#ctx, organization)
    }
    if (key === undefined) {
      await check()
      const name = sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
      const made = await this.#make({ namespace: organization, name }, wanted)
      return { ...answerOf(wanted.spec, name), etag: etagOf(made.metadata), replayed: false }
    }
    const request = { organization, operation: 'createCredential', key, asked: askedFor(wanted.spec) }
    const act = (name: string) => this.#goOn({ namespace: organization, name }, wanted)
    const { id, result } = await keys.around(request, { check, act })
    // Where an earlier call ended before it answered, this is the first answer.
    if (result) return { ...answerOf(wanted.spec, id), etag: etagOf(result.metadata), replayed: false }
    const etag = await this.#etagOf({ namespace: organization, name: id })
    return { ...answerOf(wanted.spec, id), ...(etag === undefined ? {} : { etag }), replayed: true }
  }

  /** From where an earlier call under this name has come. */
  async #goOn(at: CredentialRef, wanted: Wanted): Promise<RegistryCredential> {
    const found = await this.#find(at)
    if (!found) return await this.#make(at, wanted)
    const { secret } = wanted
    if (secret === undefined || found.status?.parameter) return found
    // Its secret may have been put into an account that is not the organization's any more.
    const account = await readyAccount(this.#ctx, at.namespace)
    return await this.#record(found, await this.#ctx.store.putNew(account, at.name, secret))
  }

  async #make(at: CredentialRef, wanted: Wanted): Promise<RegistryCredential> {
    // A repeat was not checked, and may be the first that makes it.
    wanted.room.take()
    const { spec, secret } = wanted
    if (secret === undefined) return await this.#write(at, spec)
    const account = await readyAccount(this.#ctx, at.namespace)
    const parameter = await this.#put(at, account, secret)
    let credential: RegistryCredential
    try {
      credential = await this.#write(at, spec)
    } catch (error) {
      const found = await this.#afterFailure(at, account)
      if (!found) throw error
      credential = found
    }
    wanted.room.giveBack()
    return await this.#record(credential, parameter)
  }

  async #put(at: CredentialRef, account: ReadyAccount, secret: SecretText): Promise<StoredParameter> {
    try {
      return await this.#ctx.store.putNew(account, at.name, secret)
    } catch (error) {
      const isRefused = error instanceof RefusedError || (isCloudError(error) && !error.unsure)
      // It may be there all the same.
      if (!isRefused) await this.#afterFailure(at, account)
      throw error
    }
  }

  async #write(at: CredentialRef, spec: Spec): Promise<RegistryCredential> {
    const { resources } = this.#ctx
    const finalizers = spec.type === 'token' ? { finalizers: [PARAMETER_FINALIZER] } : {}
    const metadata = { ...at, ...finalizers }
    const object = { apiVersion: API_VERSION, kind: registryCredentialKind.kind, metadata, spec }
    try {
      return this.#applied(await resources.create(registryCredentials, object))
    } catch (error) {
      // An earlier call under this name has come as far, or an attempt whose answer was lost.
      if (isApiError(error, 'AlreadyExists'))
        return this.#applied(await resources.get(registryCredentials, at))
      throw refusalOfCreate(error)
    }
  }

  #applied(raw: RawObject): RegistryCredential {
    const credential = parseCredential(raw)
    this.#ctx.directory.learn(credential)
    return credential
  }

  /**
   * The parameter of no credential is taken back; what cannot be, the sweep finds.
   * @returns the credential, where it is there after all: without an answer it may be
   */
  async #afterFailure(at: CredentialRef, account: ReadyAccount): Promise<RegistryCredential | undefined> {
    const { store, log } = this.#ctx
    try {
      const found = await this.#find(at)
      if (found) return found
      await store.takeBack(account, at.name)
    } catch (error) {
      log.warn('A parameter may stay without a credential until the next sweep', { error, ...at })
    }
    return undefined
  }

  async #find(at: CredentialRef): Promise<RegistryCredential | undefined> {
    try {
      return (await readCredential(this.#ctx, at)).credential
    } catch (error) {
      if (error instanceof RefusedError) return undefined
      throw error
    }
  }

  /** Credential and secret are there: what the status cannot be told now, the controller finds out. */
  async #record(credential: RegistryCredential, parameter: StoredParameter): Promise<RegistryCredential> {
    const { metadata } = credential
    const recorded = { parameter, isNewVersion: false, updatedAt: createdAtOf(metadata) }
    try {
      return await recordParameter(this.#ctx, credential, recorded)
    } catch (error) {
      const { namespace, name } = metadata
      this.#ctx.log.warn('Where a secret is stored could not be recorded yet', { error, namespace, name })
      return credential
    }
  }

  async #etagOf(at: CredentialRef): Promise<string | undefined> {
    const found = await this.#find(at)
    return found && etagOf(found.metadata)
  }
}

function refusalOfCreate(error: unknown): unknown {
  if (isApiError(error, 'Quota')) {
    const detail =
      "A ResourceQuota of the organization's namespace does not allow another registry credential."
    return new RefusedError('too_many_credentials', { detail, cause: error })
  }
  // The namespace went meanwhile.
  if (isApiError(error, 'NotFound')) return new RefusedError('not_found', { cause: error })
  return clusterRefusal(error)
}

/** The same text for the same request; its secret is no part of it. */
function askedFor({ type, label, registry, username }: Spec): string {
  return JSON.stringify([type, label, registry, username ?? null])
}

/** The credential as it is when it is made: what the first answer says, and every repeat. */
function answerOf(spec: Spec, name: string): Pick<CreatedCredential, 'credential'> {
  return { credential: resourceOf({ metadata: { name, uid: '', resourceVersion: '' }, spec }) }
}

/** PATCH and DELETE of a registry credential. */

const RETRY_AFTER_SECONDS = 2

/** @param request names the request, where it has a key */
type How = Conditional & { request?: string }
/** What can be done. */
type Plan = StoredCredential & { fields: Fields; account?: ReadyAccount }

async function changeCredential(
  ctx: CredentialsContext,
  id: CredentialId,
  change: CredentialChange,
  how: Keyed & Conditional,
): Promise<ChangedCredential> {
  const { idempotencyKey: key, ifMatch } = how
  const at = credentialRef(id)
  if (key === undefined) return { ...(await apply(ctx, at, change, { ifMatch })), replayed: false }
  const { organization, credentialId } = id
  const { label = null, username = null, secret } = change
  // The secret itself is no part of it: under the same key no other one is stored.
  const asked = JSON.stringify([credentialId, label, username, secret !== undefined])
  const { result, replayed } = await ctx.keys.around(
    { organization, operation: 'changeCredential', key, asked },
    {
      check: async () => void (await plan(ctx, at, change, { ifMatch })),
      act: (request) => apply(ctx, at, change, { ifMatch, request }),
    },
  )
  // Where an earlier call ended before it answered, this is the first answer.
  if (result) return { ...result, replayed: false }
  return { ...taggedOf((await readCredential(ctx, at)).credential), replayed }
}

/** Also of one that this version cannot use: nothing but its metadata is needed. */
async function removeCredential(
  { resources, directory }: Pick<CredentialsContext, 'resources' | 'directory'>,
  id: CredentialId,
  how: Conditional,
): Promise<void> {
  const at = credentialRef(id)
  await retryOnConflict(async () => {
    const raw = await readRaw(resources, at)
    const metadata = objectMeta.parse(raw.metadata)
    if (metadata.deletionTimestamp !== undefined) throw new RefusedError('not_found')
    if (!ifMatchHolds(how.ifMatch, etagOf(metadata))) throw new RefusedError('precondition_failed')
    const { uid, resourceVersion } = metadata
    const version = how.ifMatch === undefined ? {} : { resourceVersion }
    try {
      await resources.delete(registryCredentials, at, { uid, ...version })
    } catch (error) {
      throw isApiError(error, 'NotFound') ? new RefusedError('not_found') : error
    }
    const { data: credential } = registryCredential.safeParse(raw)
    if (credential) directory.remove(credential)
  })
}

/**
 * The secret first: where the cloud refuses it, nothing has changed. Then the fields, and the version at once after them, so
 * that a user name and the secret of another are together for no longer than two writes. Where it ends between secret and fields,
 * neither is in force: the version is in the account, and the controller does not take it (awaited-fields.ts).
 */
function apply(
  ctx: CredentialsContext,
  at: CredentialRef,
  change: CredentialChange,
  how: How,
): Promise<TaggedCredential> {
  return ctx.mutex.run(`${at.namespace}/${at.name}`, async () => {
    const planned = await plan(ctx, at, change, how)
    const { credential, fields, account } = planned
    const write = { credential, fields, ifMatch: how.ifMatch, withSecret: account !== undefined }
    if (account) await checkFields(ctx, write)
    const stored = await store(ctx, planned, change, how)
    try {
      const changed = await writeFields(ctx, write)
      if (!stored && Object.keys(planned.fields).length === 0) return taggedOf(changed)
      return taggedOf(await record(ctx, changed, stored))
    } catch (error) {
      if (error instanceof RefusedError && error.code === 'not_found') await takeBack(ctx, planned)
      throw stored && isApiError(error, 'Unavailable', 'Unauthorized') ? unsure(stored, error) : error
    }
  })
}

/** @throws RefusedError not_found, precondition_failed, invalid, managed_elsewhere, and those of the account */
async function plan(
  ctx: CredentialsContext,
  at: CredentialRef,
  change: CredentialChange,
  how: How,
): Promise<Plan> {
  const live = await readCredential(ctx, at)
  const { credential, raw } = live
  const fields = fieldsOf(credential, change)
  // An earlier try of it has changed them, and with them the ETag.
  const isDone = isBegun(credential, how.request) && Object.keys(fields).length === 0
  if (!isDone && !ifMatchHolds(how.ifMatch, etagOf(credential.metadata)))
    throw new RefusedError('precondition_failed')
  checkChange(credential.spec, change)
  refuseManaged(managedBy(raw.metadata), fields)
  if (change.secret === undefined) return { ...live, fields }
  refuseInputSecret(credential)
  return { ...live, fields, account: await readyAccount(ctx, at.namespace) }
}

/** Those that become others. */
function fieldsOf({ spec }: RegistryCredential, { label, username }: CredentialChange): Fields {
  return {
    ...(label === undefined || label === spec.label ? {} : { label }),
    ...(username === undefined || username === spec.username ? {} : { username }),
  }
}

function refuseManaged(manager: string | undefined, fields: Fields): void {
  const names = Object.keys(fields)
  if (manager === undefined || names.length === 0) return
  const detail = `The spec is managed by ${manager}: change ${names.join(', ')} there. Only the secret can be changed here.`
  throw new RefusedError('managed_elsewhere', { detail })
}

/** The controller stores what is in that Secret, and would put it over what comes from here. */
function refuseInputSecret({ spec }: RegistryCredential): void {
  if (!spec.secretRef) return
  const detail = `The secret comes from the Secret ${spec.secretRef.name} (spec.secretRef): change it there, or make it again, or take spec.secretRef away and give the secret here.`
  throw new RefusedError('managed_elsewhere', { detail })
}

async function store(
  ctx: CredentialsContext,
  { credential, raw, account, fields }: Plan,
  { secret }: CredentialChange,
  { request }: How,
): Promise<StoredSecret | undefined> {
  if (secret === undefined || account === undefined) return undefined
  const given = { account, secret, request, fields: Object.keys(fields) }
  return await storeSecret(ctx, { credential, raw }, given)
}

/** Of the fields, since `record` says for itself what is known. */
function unsure({ parameter }: StoredSecret, cause: unknown): RefusedError {
  const detail = `The new secret is in the account as version ${parameter.version}. Whether the other fields are changed is not known; until they are, boxes use the secret and the user name of before.`
  return new RefusedError('unavailable', { detail, retryAfter: RETRY_AFTER_SECONDS, cause })
}

async function record(
  ctx: CredentialsContext,
  credential: RegistryCredential,
  stored: StoredSecret | undefined,
): Promise<RegistryCredential> {
  const updatedAt = new Date(ctx.clock.now()).toISOString()
  const { parameter, isNewVersion = false } = stored ?? {}
  try {
    return await recordParameter(ctx, credential, { parameter, isNewVersion, updatedAt })
  } catch (error) {
    if (error instanceof RefusedError) throw error
    // The fields are changed; when that was is all that is missing.
    if (!parameter) return credential
    const detail = `The new secret is stored as version ${parameter.version}, and boxes read the one before until the controller has found it.`
    throw new RefusedError('not_acknowledged', { detail, retryAfter: RETRY_AFTER_SECONDS, cause: error })
  }
}

/** It was deleted meanwhile, and its parameter may have been removed before this one was put. */
async function takeBack(ctx: CredentialsContext, { credential, account }: Plan): Promise<void> {
  const { namespace = '', name } = credential.metadata
  if (!account) return
  try {
    if (await isGone(ctx, { namespace, name })) await ctx.store.takeBack(account, name)
  } catch (error) {
    ctx.log.warn('A parameter may stay without a credential until the next sweep', { error, namespace, name })
  }
}

/** While a finalizer holds it, the controller removes the parameter. */
async function isGone({ resources }: CredentialsContext, at: CredentialRef): Promise<boolean> {
  try {
    await resources.get(registryCredentials, at)
    return false
  } catch (error) {
    if (isApiError(error, 'NotFound')) return true
    throw error
  }
}

/** Registry credentials over REST: the resources that kubectl and Git see as well. */

export class CredentialService implements RegistryCredentials {
  readonly #ctx: CredentialsContext
  readonly #creation: CredentialCreation

  constructor(options: CredentialsOptions) {
    this.#ctx = { ...options, store: new SecretStore(options), mutex: new KeyedMutex() }
    this.#creation = new CredentialCreation(this.#ctx)
  }

  create(organization: string, draft: CredentialDraft, how: Keyed): Promise<CreatedCredential> {
    return refusingAll(() => this.#creation.create(organization, draft, how.idempotencyKey))
  }

  /** From what the watch has shown, which is within milliseconds what there is; own writes are in it at once. */
  list(
    organization: string,
    { limit, after }: { limit: number; after?: string | undefined },
  ): Promise<{ registryCredentials: CredentialResource[]; next?: string }> {
    return refusingAll(async () => {
      const { directory, behind } = this.#ctx
      refuseWhileStale('Which registry credentials there are', behind)
      const found = directory
        .inNamespace(organization)
        .filter(({ metadata }) => isNext(metadata, after))
        .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
      const registryCredentials = found.slice(0, limit).map(resourceOf)
      const last = registryCredentials.at(-1)
      return found.length > limit && last ? { registryCredentials, next: last.id } : { registryCredentials }
    })
  }

  get(id: CredentialId): Promise<TaggedCredential> {
    return refusingAll(async () => taggedOf((await readCredential(this.#ctx, credentialRef(id))).credential))
  }

  change(id: CredentialId, change: CredentialChange, how: Keyed & Conditional): Promise<ChangedCredential> {
    return refusingAll(() => changeCredential(this.#ctx, id, change, how))
  }

  remove(id: CredentialId, how: Conditional): Promise<void> {
    return refusingAll(() => removeCredential(this.#ctx, id, how))
  }
}

/** What the cloud says comes out as a refusal, too. */
function refusingAll<T>(work: () => Promise<T>): Promise<T> {
  return withRefusals(async () => {
    try {
      return await work()
    } catch (error) {
      throw cloudRefusal(error)
    }
  })
}

/** Not one that is being deleted. @param after the last id that the reader has */
function isNext(
  { name, deletionTimestamp }: RegistryCredential['metadata'],
  after: string | undefined,
): boolean {
  return deletionTimestamp === undefined && (after === undefined || CREDENTIAL_PREFIX + name > after)
}
