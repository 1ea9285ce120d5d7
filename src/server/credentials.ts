/**
 * Makes a credential over REST: its secret goes into the organization's account first, then comes the credential, and then its
 * status says where the secret is. Whatever ends half way leaves nothing, or a parameter with our tags and without a credential,
 * which the sweep removes. With a name that is given by its Idempotency-Key, a repeat goes on where the first ended.
 */

import { createdAtOf } from '../apis/created-at.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import { API_VERSION } from '../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  type RegistryCredential,
  registryCredentialKind,
  registryCredentials,
  type StoredParameter,
} from '../apis/registry-credential.ts'
import { isCloudError } from '../credentials/cloud-error.ts'
import { isApiError, type RawObject } from '../kube/client.ts'
import { etagOf } from '../lib/etag.ts'
import type { SecretText } from '../lib/secret-text.ts'
import type { CredentialRef, CredentialsContext } from './context.ts'
import { specOf } from './credential-fields.ts'
import type { CreatedCredential, CredentialDraft } from './credential-resource.ts'
import { resourceOf } from './credentials-credential-resource.ts'
import { clusterRefusal } from './http/cluster-refusal.ts'
import { RefusedError } from './http/refused-error.ts'
import { parseCredential, readCredential } from './live-credential.ts'
import { ObjectQuota, type QuotaTicket } from './object-writes.ts'
import { type ReadyAccount, readyAccount } from './ready-account.ts'
import { recordParameter } from './record-parameter.ts'

type Spec = ReturnType<typeof specOf>
type Wanted = { spec: Spec; secret?: SecretText | undefined; room: QuotaTicket }

export class CredentialCreation {
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
