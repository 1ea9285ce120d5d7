import { timeOfName } from '../apis/ids.ts'
import { type Condition, GROUP } from '../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  PENDING_FIELDS_ANNOTATION,
  type RegistryCredential,
  registryCredentials,
  type StoredParameter,
} from '../apis/registry-credential.ts'
import { isCloudError } from '../credentials/cloud.ts'
import { credentialFindings, verifiedFinding } from '../credentials/controller/conditions.ts'
import { NOT_OURS } from '../credentials/controller/facts.ts'
import { hasPendingFields } from '../credentials/spec.ts'
import { isApiError, type RawObject } from '../kube/client.ts'
import { mergeConditions } from '../kube/status.ts'
import type { SecretText } from '../lib/redact.ts'
import { sleep } from '../lib/sleep.ts'
import { etagOf, ifMatchHolds } from '../lib/text.ts'
import {
  type CredentialRef,
  type CredentialsContext,
  parseCredential,
  readCredential,
  type StoredCredential,
} from './credential-resource.ts'
import { clusterRefusal, describeCloudError, RefusedError } from './http/problems.ts'
import { retryOnConflict } from './object-writes.ts'
import { isIn, parameterNameIn, type ReadyAccount } from './secret-store.ts'

/** Writes into the status of a credential where its secret is, which is what pins it. */

/** The controller writes the same status. */
const MAX_TRIES = 5
const PAUSE_MS = 100

export type Recorded = {
  /** Absent: only `updatedAt` moves. */
  parameter?: StoredParameter | undefined
  /** A new version of the parameter that is recorded; a later one of it stays. */
  isNewVersion: boolean
  /** ISO 8601. */
  updatedAt: string
}

/**
 * @returns the credential as it is then
 * @throws RefusedError not_found; ApiError when it could not be written in several tries
 */
export async function recordParameter(
  ctx: CredentialsContext,
  credential: RegistryCredential,
  recorded: Recorded,
): Promise<RegistryCredential> {
  const { namespace = '', name, uid } = credential.metadata
  const at = { namespace, name }
  let known = credential
  for (let tries = 1; ; tries += 1) {
    try {
      return await write(ctx, at, { known, recorded })
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new RefusedError('not_found', { cause: error })
      const mayPass = isApiError(error, 'Conflict', 'Unavailable', 'TooManyRequests')
      if (!mayPass || tries === MAX_TRIES) throw error
    }
    await sleep(ctx.clock, PAUSE_MS * tries)
    known = (await readCredential(ctx, at)).credential
    if (known.metadata.uid !== uid) throw new RefusedError('not_found')
  }
}

async function write(
  { resources, directory }: CredentialsContext,
  at: CredentialRef,
  { known, recorded }: { known: RegistryCredential; recorded: Recorded },
): Promise<RegistryCredential> {
  const { parameter, updatedAt } = recorded
  const { uid, resourceVersion } = known.metadata
  const status = {
    updatedAt,
    ...(parameter && !isOvertaken(known, recorded)
      ? { parameter: { ...parameter, kmsKeyId: parameter.kmsKeyId ?? null } }
      : {}),
  }
  const patch = { metadata: { uid, resourceVersion }, status }
  const written = parseCredential(
    await resources.patch(registryCredentials, at, patch, { subresource: 'status' }),
  )
  directory.learn(written)
  return written
}

/** By a version that somebody else has put behind ours: the last one is what holds. */
function isOvertaken({ status }: RegistryCredential, { parameter, isNewVersion }: Recorded): boolean {
  const held = status?.parameter
  if (!isNewVersion || !held || !parameter) return false
  const same = (['name', 'account', 'region'] as const).every((part) => held[part] === parameter[part])
  return same && held.version > parameter.version
}

/** The fields of a PATCH on their way into the spec. */

export type Fields = { label?: string; username?: string }

export type FieldsWrite = {
  credential: RegistryCredential
  /** Those that become others. */
  fields: Fields
  ifMatch: string | undefined
  /** A secret of the same request is in the account, and waits for them. */
  withSecret: boolean
}

/** What would become of the write, without writing: whatever the cluster has against it. @throws as `writeFields` */
export async function checkFields(ctx: CredentialsContext, write: FieldsWrite): Promise<void> {
  if (Object.keys(write.fields).length > 0) await patchFields(ctx, write, { dryRun: true })
}

/** @throws RefusedError not_found, precondition_failed, invalid; ApiError */
export async function writeFields(ctx: CredentialsContext, write: FieldsWrite): Promise<RegistryCredential> {
  const { credential, fields, withSecret } = write
  const isAwaited = withSecret && hasPendingFields(credential.metadata)
  if (Object.keys(fields).length === 0 && !isAwaited) return credential
  const changed = parseCredential(await patchFields(ctx, write, {}))
  ctx.directory.learn(changed)
  return changed
}

async function patchFields(
  ctx: CredentialsContext,
  { credential, fields, ifMatch, withSecret }: FieldsWrite,
  how: { dryRun?: true },
): Promise<RawObject> {
  const { namespace = '', name, uid } = credential.metadata
  const at: CredentialRef = { namespace, name }
  return await retryOnConflict(async () => {
    const guard = { uid, ...(ifMatch === undefined ? {} : await versionGuard(ctx, at, ifMatch)) }
    const awaited = withSecret ? { annotations: { [PENDING_FIELDS_ANNOTATION]: null } } : {}
    const patch = { metadata: { ...guard, ...awaited }, spec: fields }
    try {
      return await ctx.resources.patch(registryCredentials, at, patch, how)
    } catch (error) {
      throw isApiError(error, 'NotFound') ? new RefusedError('not_found') : clusterRefusal(error)
    }
  })
}

async function versionGuard(ctx: CredentialsContext, at: CredentialRef, ifMatch: string) {
  const { metadata } = (await readCredential(ctx, at)).credential
  if (!ifMatchHolds(ifMatch, etagOf(metadata))) throw new RefusedError('precondition_failed')
  return { resourceVersion: metadata.resourceVersion }
}

/**
 * A secret for a credential that is there: a new version of its parameter, or a new parameter where there is none. A request with
 * an Idempotency-Key leaves a mark on the credential before it writes, by which a repeat finds out what it has come to: it
 * writes no second version.
 */

/** The request that wrote last, and the version that it found: `<26 characters> <version>`. */
const REQUEST_ANNOTATION = `${GROUP}/secret-request`
const RETRY_AFTER_SECONDS = 2

export type NewSecret = {
  account: ReadyAccount
  secret: SecretText
  /** Names the request, where it has a key. */
  request?: string | undefined
  /** Fields that the request changes besides: the secret is not used before they are written. */
  fields: readonly string[]
}

export type StoredSecret = { parameter: StoredParameter; isNewVersion: boolean }

/** @throws RefusedError; CloudError; ApiError */
export async function storeSecret(
  ctx: CredentialsContext,
  live: StoredCredential,
  given: NewSecret,
): Promise<StoredSecret> {
  const { account, secret } = given
  const { name } = live.credential.metadata
  const before = live.credential.status?.parameter
  const written = await writtenBefore(ctx, live, given)
  if (written) return { parameter: written, isNewVersion: true }
  await prepare(ctx, live, given)
  if (isIn(account, parameterNameIn(account, name), before)) {
    const parameter = await ctx.store.putOver(account, name, secret)
    if (parameter) return { parameter, isNewVersion: true }
    await prepare(ctx, await forget(ctx, live), given)
  } else if (before) {
    await leave(ctx, account, before)
  }
  return { parameter: await ctx.store.putNew(account, name, secret), isNewVersion: false }
}

/** What this very request has written, recorded or not. */
async function writtenBefore(
  { store }: CredentialsContext,
  { credential }: StoredCredential,
  { account, request }: NewSecret,
): Promise<StoredParameter | undefined> {
  if (request === undefined || !isBegun(credential, request)) return undefined
  const found = Number(markOf(credential)[1])
  const held = credential.status?.parameter
  if (versionIn(account, credential) !== found && held) return held
  return await store.findWritten(account, credential.metadata.name, {
    version: found,
    began: timeOfName(request),
  })
}

/** Whether it is the request that wrote last, or was about to: an earlier try of it has been here. */
export function isBegun(credential: RegistryCredential, request: string | undefined): boolean {
  return request !== undefined && markOf(credential)[0] === request
}

function markOf({ metadata }: RegistryCredential): string[] {
  return metadata.annotations?.[REQUEST_ANNOTATION]?.split(' ') ?? []
}

function versionIn(account: ReadyAccount, { metadata, status }: RegistryCredential): number {
  const held = status?.parameter
  return isIn(account, parameterNameIn(account, metadata.name), held) ? held.version : 0
}

/**
 * What is gone is not recorded any more: the version of what is made anew would look like it. Nor is it said to be stored, in the same
 * write.
 */
async function forget(ctx: CredentialsContext, live: StoredCredential): Promise<StoredCredential> {
  const { namespace = '', name } = live.credential.metadata
  const at: CredentialRef = { namespace, name }
  let known: StoredCredential | undefined = live
  await retryOnConflict(async () => {
    const { credential } = known ?? (await readCredential(ctx, at))
    known = undefined
    const { uid, resourceVersion } = credential.metadata
    const status = { parameter: null, conditions: conditionsWithout(credential, ctx.clock.now()) }
    const patch = { metadata: { uid, resourceVersion }, status }
    try {
      await ctx.resources.patch(registryCredentials, at, patch, { subresource: 'status' })
    } catch (error) {
      throw isApiError(error, 'NotFound') ? new RefusedError('not_found', { cause: error }) : error
    }
  })
  return await readCredential(ctx, at)
}

function conditionsWithout(credential: RegistryCredential, now: number): Condition[] {
  const { metadata, spec, status } = credential
  const verified = verifiedFinding(credential)
  const step = { step: 'wait', reason: 'Storing', message: 'The secret is being stored.' } as const
  const findings = credentialFindings({ type: spec.type, step, listing: { state: 'unknown' }, verified })
  return mergeConditions(status?.conditions, findings, { now, generation: metadata.generation ?? 1 })
}

/** The finalizer and the marks are there before anything is stored. */
async function prepare(ctx: CredentialsContext, live: StoredCredential, given: NewSecret): Promise<void> {
  const { namespace = '', name } = live.credential.metadata
  const at: CredentialRef = { namespace, name }
  let known: StoredCredential | undefined = live
  await retryOnConflict(async () => {
    const { credential, raw } = known ?? (await readCredential(ctx, at))
    known = undefined
    const held = finalizersOf(raw.metadata.finalizers)
    const isHeld = held.includes(PARAMETER_FINALIZER)
    const annotations = marksOf(credential, given)
    if (isHeld && Object.keys(annotations).length === 0) return
    const { uid, resourceVersion } = credential.metadata
    const metadata = {
      uid,
      // A list is written as a whole.
      ...(isHeld ? {} : { resourceVersion, finalizers: [...held, PARAMETER_FINALIZER] }),
      annotations,
    }
    try {
      await ctx.resources.patch(registryCredentials, at, { metadata })
    } catch (error) {
      throw clusterRefusal(error)
    }
  })
}

/** Those that become others. What an earlier request has left does not speak of this one: a repeat of it would be taken for done. */
function marksOf(
  credential: RegistryCredential,
  { account, request, fields }: NewSecret,
): Record<string, string | null> {
  const { annotations = {} } = credential.metadata
  const wanted = {
    [REQUEST_ANNOTATION]: request === undefined ? null : `${request} ${versionIn(account, credential)}`,
    [PENDING_FIELDS_ANNOTATION]: fields.length === 0 ? null : fields.join(','),
  }
  const changes = Object.entries(wanted).filter(([name, value]) => (annotations[name] ?? null) !== value)
  return Object.fromEntries(changes)
}

function finalizersOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []
}

/**
 * The account or region was another one. The controller removes what is there, or records that it could not, before it forgets the
 * place; here it is forgotten only when it is removed.
 */
async function leave(
  { store, log }: CredentialsContext,
  account: ReadyAccount,
  before: StoredParameter,
): Promise<void> {
  try {
    await store.leave(account, before)
  } catch (error) {
    if (!isCloudError(error) && !(error instanceof RefusedError)) throw error
    const { name, region } = before
    log.warn('A parameter could not be removed', { name, account: before.account, region, error })
    const why = isCloudError(error) ? describeCloudError(error).replace(/\.$/, '') : NOT_OURS
    const detail = `The secret was in account ${before.account}, region ${region}, before, as ${name}, which could not be removed (${why}). Davit tries again, or puts it on the list of what stays; nothing new was stored. Come again.`
    throw new RefusedError('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS, cause: error })
  }
}
