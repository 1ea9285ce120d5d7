import { specManagersOf } from '../apis/annotations.ts'
import { CREDENTIAL_PREFIX, createdAtOf } from '../apis/ids.ts'
import { API_VERSION } from '../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  type RegistryCredential,
  registryCredential,
  registryCredentials,
  type StoredParameter,
} from '../apis/registry-credential.ts'
import { isCloudError } from '../credentials/cloud.ts'
import { findObject, isApiError, type RawObject } from '../kube/client.ts'
import type { SecretText } from '../lib/redact.ts'
import { KeyedMutex } from '../lib/semaphore.ts'
import {
  CREDENTIAL,
  type CredentialChange,
  type CredentialDraft,
  type CredentialId,
  type CredentialResource,
  checkChange,
  credentialRef,
  readCredential,
  resourceOf,
  specOf,
  type TaggedCredential,
  taggedOf,
  withStoredSecret,
} from './credential-resource.ts'
import {
  type CredentialServiceOptions,
  type CredentialsContext,
  checkFields,
  type Fields,
  isBegun,
  recordParameter,
  type StoredSecret,
  storeSecret,
  writeFields,
} from './credential-writes.ts'
import { Problem, refuseWhileStale } from './http/problems.ts'
import { type PageQuery, pageOf } from './lists.ts'
import { ObjectQuota, type QuotaTicket } from './object-quota.ts'
import {
  type Conditional,
  checkDeletable,
  checkIfMatch,
  etagIfPresent,
  type Keyed,
  managedProblem,
  type NamespacedRef,
  notFoundOr,
  parseStored,
  readRaw,
  refOf,
  retryOnConflict,
  type Stored,
  tagOf,
} from './objects.ts'
import { type ReadyAccount, readyAccount, SecretStore } from './secret-store.ts'

/**
 * Registry credentials over REST: the same resources that kubectl and Git see. Creating one puts its secret into the
 * organization's account first, then creates the credential, and then records in its status where the secret is. If that ends
 * half way, it leaves nothing, or a parameter with our tags and without a credential, which the sweep removes.
 */

export type CreatedCredential = {
  /** As created, in a repeat too. */
  credential: CredentialResource
  /** Absent in a repeat if the credential is gone by then. */
  etag?: string
  replayed: boolean
}

type ChangedCredential = TaggedCredential & { replayed: boolean }
type Spec = ReturnType<typeof specOf>
type Wanted = { spec: Spec; secret?: SecretText | undefined; ticket: QuotaTicket }
/** @param request names the request if it has a key */
type How = Conditional & { request?: string }
/** A change that can be done. */
type Plan = Stored<RegistryCredential> & { fields: Fields; account?: ReadyAccount }

const RETRY_AFTER_SECONDS = 2

/** All methods @throws Problem, and errors that `problemOf` turns into one. */
export class CredentialService {
  readonly #ctx: CredentialsContext
  readonly #quota: ObjectQuota

  constructor(options: CredentialServiceOptions) {
    const { directory, maxCredentials: max } = options
    this.#ctx = { ...options, store: new SecretStore(options), mutex: new KeyedMutex() }
    this.#quota = new ObjectQuota({
      ...options,
      code: 'too_many_credentials',
      noun: 'registry credential',
      type: registryCredentials,
      max,
      known: (organization) => directory.inNamespace(organization).map(({ metadata }) => metadata.name),
      knowsAll: () => false,
    })
  }

  /**
   * The secret is then in the organization's account and nowhere else. Problems: invalid, too_many_credentials,
   * secrets_settings_required, cloud_account_not_ready, cloud_unavailable, idempotency_conflict
   */
  async create(
    organization: string,
    given: CredentialDraft,
    { idempotencyKey: key }: Keyed,
  ): Promise<CreatedCredential> {
    const draft = withStoredSecret(given)
    const spec = specOf(draft)
    const { type, label, registry, username = null } = spec
    // Without the secret.
    const asked = () => JSON.stringify([type, label, registry, username])
    const { id, result } = await this.#quota.during(organization, (ticket) => {
      const wanted: Wanted = { spec, secret: draft.secret, ticket }
      return this.#ctx.keys.around(
        { organization, operation: 'createCredential', key, asked },
        {
          check: async () => {
            ticket.take()
            if (type === 'token') await readyAccount(this.#ctx, organization)
          },
          act: (name) => {
            const ref = { namespace: organization, name }
            return key === undefined ? this.#create(ref, wanted) : this.#continue(ref, wanted)
          },
        },
      )
    })
    const credential = resourceOf({ metadata: { name: id, uid: '', resourceVersion: '' }, spec })
    // If an earlier call ended before it responded, this is the first response.
    if (result) return { credential, etag: tagOf(CREDENTIAL, result), replayed: false }
    const ref = { namespace: organization, name: id }
    return {
      credential,
      ...(await etagIfPresent(CREDENTIAL, () => readCredential(this.#ctx, ref))),
      replayed: true,
    }
  }

  /** By name, from the watch, which is milliseconds behind at most; own writes are in it at once. */
  async list(
    organization: string,
    query: PageQuery,
  ): Promise<{ registryCredentials: CredentialResource[]; next?: string }> {
    const { directory, behind } = this.#ctx
    refuseWhileStale(behind)
    const all = directory.inNamespace(organization)
    const present = all.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    const { page, ...next } = pageOf(present, ({ metadata }) => CREDENTIAL_PREFIX + metadata.name, query)
    return { registryCredentials: page.map(resourceOf), ...next }
  }

  async get(id: CredentialId): Promise<TaggedCredential> {
    return taggedOf((await readCredential(this.#ctx, credentialRef(id))).object)
  }

  /** A secret becomes a new version. Problems: those of `create`, managed_elsewhere, precondition_failed, not_acknowledged */
  async change(
    id: CredentialId,
    given: CredentialChange,
    { idempotencyKey: key, ifMatch }: Keyed & Conditional,
  ): Promise<ChangedCredential> {
    const change = withStoredSecret(given)
    const ref = credentialRef(id)
    if (key === undefined) return { ...(await this.#apply(ref, change, { ifMatch })), replayed: false }
    const { organization, credentialId } = id
    const { label = null, username = null, secret } = change
    // Without the secret itself: under the same key no other one is stored.
    const asked = () => JSON.stringify([credentialId, label, username, secret !== undefined])
    const { result, replayed } = await this.#ctx.keys.around(
      { organization, operation: 'changeCredential', key, asked },
      {
        check: async () => void (await this.#plan(ref, change, { ifMatch })),
        act: (request) => this.#apply(ref, change, { ifMatch, request }),
      },
    )
    // If an earlier call ended before it responded, this is the first response.
    if (result) return { ...result, replayed: false }
    return { ...taggedOf((await readCredential(this.#ctx, ref)).object), replayed }
  }

  /** Gone from REST at once; the secret is removed afterwards. Works for an invalid credential, too. Problems: managed_elsewhere, precondition_failed */
  async remove(id: CredentialId, how: Conditional): Promise<void> {
    const { resources, directory } = this.#ctx
    const ref = credentialRef(id)
    await retryOnConflict(async () => {
      const raw = await readRaw(resources, registryCredentials, ref)
      const { uid, resourceVersion } = checkDeletable(CREDENTIAL, raw, how)
      const version = how.ifMatch === undefined ? {} : { resourceVersion }
      try {
        await resources.delete(registryCredentials, ref, { uid, ...version })
      } catch (error) {
        throw notFoundOr(error)
      }
      const { data: credential } = registryCredential.safeParse(raw)
      if (credential) directory.remove(credential)
    })
  }

  /** Continues where an earlier call under this name ended. */
  async #continue(ref: NamespacedRef, wanted: Wanted): Promise<RegistryCredential> {
    const found = await this.#find(ref)
    if (!found) return await this.#create(ref, wanted)
    const { secret } = wanted
    if (secret === undefined || found.status?.parameter) return found
    // Its secret may be in an account that is no longer the organization's.
    const account = await readyAccount(this.#ctx, ref.namespace)
    return await this.#record(found, await this.#ctx.store.putNew(account, ref.name, secret))
  }

  async #create(ref: NamespacedRef, { spec, secret, ticket }: Wanted): Promise<RegistryCredential> {
    // A repeat was not checked, and may be the first to create it.
    ticket.take()
    await ticket.reserve(ref.name)
    if (secret === undefined) return await this.#write(ref, spec)
    const account = await readyAccount(this.#ctx, ref.namespace)
    const parameter = await this.#put(ref, account, secret)
    let credential: RegistryCredential
    try {
      // The account may have taken its time.
      await ticket.reserve(ref.name)
      credential = await this.#write(ref, spec)
    } catch (error) {
      const found = await this.#afterFailure(ref, account)
      if (!found) throw error
      credential = found
    }
    ticket.giveBack()
    return await this.#record(credential, parameter)
  }

  async #put(ref: NamespacedRef, account: ReadyAccount, secret: SecretText): Promise<StoredParameter> {
    try {
      return await this.#ctx.store.putNew(account, ref.name, secret)
    } catch (error) {
      const isRejected = error instanceof Problem || (isCloudError(error) && !error.unsure)
      // It may be there nevertheless.
      if (!isRejected) await this.#afterFailure(ref, account)
      throw error
    }
  }

  async #write(ref: NamespacedRef, spec: Spec): Promise<RegistryCredential> {
    const { resources } = this.#ctx
    const finalizers = spec.type === 'token' ? { finalizers: [PARAMETER_FINALIZER] } : {}
    const metadata = { ...ref, ...finalizers }
    try {
      const object = { apiVersion: API_VERSION, kind: CREDENTIAL.kind, metadata, spec }
      return this.#learn(await resources.create(registryCredentials, object))
    } catch (error) {
      // An earlier call under this name created it, or an attempt whose response was lost.
      if (isApiError(error, 'AlreadyExists'))
        return this.#learn(await resources.get(registryCredentials, ref))
      throw this.#quota.problemOf(error)
    }
  }

  #learn(raw: RawObject): RegistryCredential {
    const credential = parseStored(CREDENTIAL, raw)
    this.#ctx.directory.learn(credential)
    return credential
  }

  /**
   * Takes the parameter back unless the credential exists; if that fails, the sweep finds it.
   * @returns the credential if it exists after all, which a write without a response does not tell
   */
  async #afterFailure(ref: NamespacedRef, account: ReadyAccount): Promise<RegistryCredential | undefined> {
    const { store, log } = this.#ctx
    try {
      const found = await this.#find(ref)
      if (found) return found
      await store.takeBack(account, ref.name)
    } catch (error) {
      log.warn('parameter_cleanup_failed', 'failed to clean up unused parameter; the next sweep removes it', {
        error,
        ...ref,
      })
    }
    return undefined
  }

  async #find(ref: NamespacedRef): Promise<RegistryCredential | undefined> {
    try {
      return (await readCredential(this.#ctx, ref)).object
    } catch (error) {
      if (error instanceof Problem) return undefined
      throw error
    }
  }

  /** Credential and secret exist: if the status cannot be written now, the controller finds the parameter. */
  async #record(credential: RegistryCredential, parameter: StoredParameter): Promise<RegistryCredential> {
    const { metadata } = credential
    const recorded = { parameter, isNewVersion: false, updatedAt: createdAtOf(metadata) }
    try {
      return await recordParameter(this.#ctx, credential, recorded)
    } catch (error) {
      this.#ctx.log.warn('secret_location_record_failed', 'failed to record secret location in status', {
        error,
        ...refOf(metadata),
      })
      return credential
    }
  }

  /**
   * Stores the secret first, so that nothing has changed if the cloud rejects it. Then writes the fields, and at once the version,
   * so that a user name and the secret of another are together for two writes at most. If it ends between secret and fields,
   * neither takes effect: the version is in the account, and the controller does not use it before the fields are written.
   */
  #apply(ref: NamespacedRef, change: CredentialChange, how: How): Promise<TaggedCredential> {
    const ctx = this.#ctx
    return ctx.mutex.run(`${ref.namespace}/${ref.name}`, async () => {
      const plan = await this.#plan(ref, change, how)
      const { object: credential, fields, account } = plan
      const write = { credential, fields, ifMatch: how.ifMatch, withSecret: account !== undefined }
      if (account) await checkFields(ctx, write)
      const stored = await store(ctx, plan, change, how)
      try {
        const changed = await writeFields(ctx, write)
        if (!stored && Object.keys(fields).length === 0) return taggedOf(changed)
        return taggedOf(await recordChange(ctx, changed, stored))
      } catch (error) {
        if (error instanceof Problem && error.code === 'not_found') await takeBack(ctx, plan)
        throw stored && isApiError(error, 'Unavailable', 'Unauthorized') ? unsure(stored, error) : error
      }
    })
  }

  /** @throws Problem not_found, precondition_failed, invalid, managed_elsewhere, and those of the account */
  async #plan(ref: NamespacedRef, change: CredentialChange, how: How): Promise<Plan> {
    const live = await readCredential(this.#ctx, ref)
    const { object: credential, raw } = live
    const fields = fieldsOf(credential, change)
    const names = Object.keys(fields)
    // An earlier try of the request has changed them, and with them the ETag.
    const isDone = isBegun(credential, how.request) && names.length === 0
    if (!isDone) checkIfMatch(CREDENTIAL, credential, how)
    checkChange(credential.spec, change)
    const managers = specManagersOf(raw.metadata)
    if (managers.length > 0 && names.length > 0) throw managedProblem(managers, names, '`secret`')
    if (change.secret === undefined) return { ...live, fields }
    const { secretRef } = credential.spec
    if (secretRef) {
      // The controller stores what is in that Secret, and would overwrite this one.
      const detail = `The secret comes from the Secret ${secretRef.name} (spec.secretRef). Change or recreate that Secret, or remove spec.secretRef and repeat this request.`
      throw new Problem('managed_elsewhere', { detail })
    }
    return { ...live, fields, account: await readyAccount(this.#ctx, ref.namespace) }
  }
}

/** The fields that differ. */
function fieldsOf({ spec }: RegistryCredential, { label, username }: CredentialChange): Fields {
  return {
    ...(label === undefined || label === spec.label ? {} : { label }),
    ...(username === undefined || username === spec.username ? {} : { username }),
  }
}

async function store(
  ctx: CredentialsContext,
  plan: Plan,
  { secret }: CredentialChange,
  { request }: How,
): Promise<StoredSecret | undefined> {
  const { account, fields } = plan
  if (secret === undefined || account === undefined) return undefined
  return await storeSecret(ctx, plan, { account, secret, request, fields: Object.keys(fields) })
}

/** For the fields: `recordChange` itself reports what it knows. */
function unsure({ parameter }: StoredSecret, cause: unknown): Problem {
  const detail = `The new secret is stored in the AWS account as version ${parameter.version}, but Davit could not confirm that the other fields were updated. Until the fields are updated, boxes use the previous secret and user name. Repeat the request.`
  return new Problem('unavailable', { detail, retryAfter: RETRY_AFTER_SECONDS, cause })
}

async function recordChange(
  ctx: CredentialsContext,
  credential: RegistryCredential,
  stored: StoredSecret | undefined,
): Promise<RegistryCredential> {
  const updatedAt = new Date(ctx.clock.now()).toISOString()
  const { parameter, isNewVersion = false } = stored ?? {}
  try {
    return await recordParameter(ctx, credential, { parameter, isNewVersion, updatedAt })
  } catch (error) {
    if (error instanceof Problem) throw error
    // The fields are changed; only the time of that is missing.
    if (!parameter) return credential
    const detail = `The new secret is stored in the AWS account as version ${parameter.version} but is not active yet. Davit will activate this version automatically. Until then, boxes use the previous version.`
    throw new Problem('not_acknowledged', { detail, retryAfter: RETRY_AFTER_SECONDS, cause: error })
  }
}

/**
 * The credential was deleted meanwhile, and its parameter may have been removed before this one was stored. As long as a finalizer
 * holds the credential, the controller removes the parameter.
 */
async function takeBack(ctx: CredentialsContext, { object, account }: Plan): Promise<void> {
  const ref = refOf(object.metadata)
  if (!account) return
  try {
    if (await findObject(ctx.resources, registryCredentials, ref)) return
    await ctx.store.takeBack(account, ref.name)
  } catch (error) {
    ctx.log.warn(
      'parameter_cleanup_failed',
      'failed to clean up unused parameter; the next sweep removes it',
      {
        error,
        ...ref,
      },
    )
  }
}
