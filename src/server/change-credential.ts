/** PATCH and DELETE of a registry credential. */

import { managedBy } from '../apis/managed-elsewhere.ts'
import { objectMeta } from '../apis/meta.ts'
import {
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../apis/registry-credential.ts'
import { isApiError } from '../kube/client.ts'
import { etagOf, ifMatchHolds } from '../lib/etag.ts'
import type { CredentialRef, CredentialsContext } from './context.ts'
import { checkChange } from './credential-fields.ts'
import type {
  ChangedCredential,
  CredentialChange,
  CredentialId,
  TaggedCredential,
} from './credential-resource.ts'
import { isBegun, type StoredSecret, storeSecret } from './credential-writes.ts'
import { taggedOf } from './credentials-credential-resource.ts'
import type { Conditional, Keyed } from './endpoint-resource.ts'
import { RefusedError } from './http/refused-error.ts'
import { credentialRef, readCredential, readRaw, type StoredCredential } from './live-credential.ts'
import { type ReadyAccount, readyAccount } from './ready-account.ts'
import { recordParameter } from './record-parameter.ts'
import { retryOnConflict } from './until-undisturbed.ts'
import { checkFields, type Fields, writeFields } from './write-fields.ts'

const RETRY_AFTER_SECONDS = 2

/** @param request names the request, where it has a key */
type How = Conditional & { request?: string }
/** What can be done. */
type Plan = StoredCredential & { fields: Fields; account?: ReadyAccount }

export async function changeCredential(
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
export async function removeCredential(
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
