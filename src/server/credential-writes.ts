import { timeOfName } from '../apis/ids.ts'
import { type Condition, GROUP } from '../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  PENDING_FIELDS_ANNOTATION,
  type RegistryCredential,
  registryCredentials,
  type StoredParameter,
} from '../apis/registry-credential.ts'
import { isCloudError, type ParameterListing, type ParameterStore } from '../credentials/cloud.ts'
import { credentialFindings, verifiedFinding } from '../credentials/controller/conditions.ts'
import { NOT_OURS } from '../credentials/controller/plan.ts'
import { hasPendingFields } from '../credentials/spec.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import { mergeConditions } from '../kube/status.ts'
import type { Logger } from '../lib/log.ts'
import type { CredentialMetrics } from '../lib/metrics.ts'
import type { SecretText } from '../lib/redact.ts'
import type { KeyedMutex } from '../lib/semaphore.ts'
import { type Clock, type Random, sleep } from '../lib/time.ts'
import { CREDENTIAL, type CredentialDirectory, readCredential } from './credential-resource.ts'
import { describeCloudError, Problem, rejectedByCluster } from './http/problems.ts'
import type { Idempotency } from './idempotent-requests.ts'
import {
  checkIfMatch,
  type NamespacedRef,
  notFoundOr,
  parseStored,
  refOf,
  retryOnConflict,
  type Stored,
} from './objects.ts'
import {
  type AccountSources,
  isIn,
  parameterNameIn,
  type ReadyAccount,
  type SecretStore,
} from './secret-store.ts'

/**
 * Writes of registry credentials over REST: where the secret is stored (status), the fields of a PATCH (spec), and a new
 * secret for an existing credential. The controller writes the same objects.
 */

export type CredentialServiceOptions = AccountSources & {
  resources: ResourceReader & ResourceWriter
  /** Davit's own namespace. */
  namespace: string
  /** Credentials of all organizations, from the watch and from our own writes. */
  directory: CredentialDirectory
  /** Why the directory may be out of date, in words; undefined while it is not. */
  behind: () => string | undefined
  parameters: ParameterStore & ParameterListing
  keys: Idempotency
  /** Credentials that an organization may have. */
  maxCredentials: number
  clock: Clock
  random: Random
  log: Logger
  metrics: CredentialMetrics
}

export type CredentialsContext = CredentialServiceOptions & {
  store: SecretStore
  /** By credential: concurrent changes in this process write one after the other. */
  mutex: KeyedMutex
}

type StoredCredential = Stored<RegistryCredential>

const MAX_TRIES = 5
const PAUSE_MS = 100

export type Recorded = {
  /** Absent: only `updatedAt` moves. */
  parameter?: StoredParameter | undefined
  /** A new version of the recorded parameter; a later one of it stays. */
  isNewVersion: boolean
  /** ISO 8601. */
  updatedAt: string
}

/**
 * Writes into the status where the secret is, which pins it.
 * @returns the credential after that @throws Problem not_found; ApiError if several tries failed
 */
export async function recordParameter(
  ctx: CredentialsContext,
  credential: RegistryCredential,
  recorded: Recorded,
): Promise<RegistryCredential> {
  const { uid } = credential.metadata
  const ref = refOf(credential.metadata)
  let known = credential
  for (let tries = 1; ; tries += 1) {
    try {
      return await write(ctx, ref, { known, recorded })
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new Problem('not_found', { cause: error })
      const mayPass = isApiError(error, 'Conflict', 'Unavailable', 'TooManyRequests')
      if (!mayPass || tries === MAX_TRIES) throw error
    }
    await sleep(ctx.clock, PAUSE_MS * tries)
    known = (await readCredential(ctx, ref)).object
    if (known.metadata.uid !== uid) throw new Problem('not_found')
  }
}

async function write(
  { resources, directory }: CredentialsContext,
  ref: NamespacedRef,
  { known, recorded }: { known: RegistryCredential; recorded: Recorded },
): Promise<RegistryCredential> {
  const { parameter, updatedAt } = recorded
  const { uid, resourceVersion } = known.metadata
  const status = {
    updatedAt,
    ...(parameter && !isOvertaken(known, recorded)
      ? // The value is no longer that of an input Secret, even if the credential names one again later.
        { parameter: { ...parameter, kmsKeyId: parameter.kmsKeyId ?? null }, handover: null }
      : {}),
  }
  const patch = { metadata: { uid, resourceVersion }, status }
  const written = parseStored(
    CREDENTIAL,
    await resources.patch(registryCredentials, ref, patch, { subresource: 'status' }),
  )
  directory.learn(written)
  return written
}

/** Another writer has stored a later version, which is the one that holds. */
function isOvertaken({ status }: RegistryCredential, { parameter, isNewVersion }: Recorded): boolean {
  const held = status?.parameter
  if (!isNewVersion || !held || !parameter) return false
  const same = (['name', 'account', 'region'] as const).every((part) => held[part] === parameter[part])
  return same && held.version > parameter.version
}

/** Fields of a PATCH that differ from the spec. */
export type Fields = { label?: string; username?: string }

export type FieldsWrite = {
  credential: RegistryCredential
  fields: Fields
  ifMatch: string | undefined
  /** A secret of the same request is in the account, and is not used before the fields are written. */
  withSecret: boolean
}

/** Asks the cluster whether it would take the fields, without writing them. @throws as `writeFields` */
export async function checkFields(ctx: CredentialsContext, write: FieldsWrite): Promise<void> {
  if (Object.keys(write.fields).length > 0) await patchFields(ctx, write, { dryRun: true })
}

/** @throws Problem not_found, precondition_failed, invalid; ApiError */
export async function writeFields(ctx: CredentialsContext, write: FieldsWrite): Promise<RegistryCredential> {
  const { credential, fields, withSecret } = write
  const isAwaited = withSecret && hasPendingFields(credential.metadata)
  if (Object.keys(fields).length === 0 && !isAwaited) return credential
  const changed = parseStored(CREDENTIAL, await patchFields(ctx, write, {}))
  ctx.directory.learn(changed)
  return changed
}

async function patchFields(
  ctx: CredentialsContext,
  { credential, fields, ifMatch, withSecret }: FieldsWrite,
  how: { dryRun?: true },
): Promise<RawObject> {
  const { uid } = credential.metadata
  const ref = refOf(credential.metadata)
  return await retryOnConflict(async () => {
    const guard = { uid, ...(ifMatch === undefined ? {} : await versionGuard(ctx, ref, ifMatch)) }
    const awaited = withSecret ? { annotations: { [PENDING_FIELDS_ANNOTATION]: null } } : {}
    const patch = { metadata: { ...guard, ...awaited }, spec: fields }
    try {
      return await ctx.resources.patch(registryCredentials, ref, patch, how)
    } catch (error) {
      throw rejectedByCluster(notFoundOr(error))
    }
  })
}

async function versionGuard(ctx: CredentialsContext, ref: NamespacedRef, ifMatch: string) {
  const { object } = await readCredential(ctx, ref)
  checkIfMatch(CREDENTIAL, object, { ifMatch })
  return { resourceVersion: object.metadata.resourceVersion }
}

/** The request that wrote last, and the version that it found: `<26 characters> <version>`. A repeat of it writes no second one. */
const REQUEST_ANNOTATION = `${GROUP}/secret-request`
const RETRY_AFTER_SECONDS = 2

export type NewSecret = {
  account: ReadyAccount
  secret: SecretText
  /** Names the request if it has an Idempotency-Key. */
  request?: string | undefined
  /** Fields that the request also changes: the secret is not used before they are written. */
  fields: readonly string[]
}

export type StoredSecret = { parameter: StoredParameter; isNewVersion: boolean }

/** Stores a new version of the parameter, or a new parameter if there is none. @throws Problem; CloudError; ApiError */
export async function storeSecret(
  ctx: CredentialsContext,
  live: StoredCredential,
  given: NewSecret,
): Promise<StoredSecret> {
  const { account, secret } = given
  const { name } = live.object.metadata
  const before = live.object.status?.parameter
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

/** What an earlier try of this request has written, recorded or not. */
async function writtenBefore(
  { store }: CredentialsContext,
  { object: credential }: StoredCredential,
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

/** Whether an earlier try of the request was the last to write, or was about to. */
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

/** Writes to the credential as it was read and, after a conflict, as it is read again. */
async function updateCredential(
  ctx: CredentialsContext,
  live: StoredCredential,
  write: (current: StoredCredential, ref: NamespacedRef) => Promise<void>,
): Promise<void> {
  const ref = refOf(live.object.metadata)
  let known: StoredCredential | undefined = live
  await retryOnConflict(async () => {
    const current = known ?? (await readCredential(ctx, ref))
    known = undefined
    await write(current, ref)
  })
}

/** Removes the record and the condition of a parameter that is gone: a new one would start with the same version. */
async function forget(ctx: CredentialsContext, live: StoredCredential): Promise<StoredCredential> {
  await updateCredential(ctx, live, async ({ object: credential }, ref) => {
    const { uid, resourceVersion } = credential.metadata
    const status = { parameter: null, conditions: conditionsWithout(credential, ctx.clock.now()) }
    const patch = { metadata: { uid, resourceVersion }, status }
    try {
      await ctx.resources.patch(registryCredentials, ref, patch, { subresource: 'status' })
    } catch (error) {
      throw notFoundOr(error)
    }
  })
  return await readCredential(ctx, refOf(live.object.metadata))
}

function conditionsWithout(credential: RegistryCredential, now: number): Condition[] {
  const { metadata, spec, status } = credential
  const verified = verifiedFinding(credential)
  const step = { step: 'wait', reason: 'Storing', message: 'The secret is being stored.' } as const
  const findings = credentialFindings({ type: spec.type, step, listing: { state: 'unknown' }, verified })
  return mergeConditions(status?.conditions, findings, { now, generation: metadata.generation ?? 1 })
}

/** Writes the finalizer and the marks before anything is stored. */
async function prepare(ctx: CredentialsContext, live: StoredCredential, given: NewSecret): Promise<void> {
  await updateCredential(ctx, live, async ({ object: credential, raw }, ref) => {
    const held = finalizersOf(raw.metadata.finalizers)
    const isHeld = held.includes(PARAMETER_FINALIZER)
    const annotations = marksOf(credential, given)
    if (isHeld && Object.keys(annotations).length === 0) return
    const { uid, resourceVersion } = credential.metadata
    const metadata = {
      uid,
      // A merge patch replaces the whole list.
      ...(isHeld ? {} : { resourceVersion, finalizers: [...held, PARAMETER_FINALIZER] }),
      annotations,
    }
    try {
      await ctx.resources.patch(registryCredentials, ref, { metadata })
    } catch (error) {
      throw rejectedByCluster(error)
    }
  })
}

/** The annotations to change. Marks of an earlier request must go, or a repeat of that one would look done. */
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
 * Removes the parameter from the earlier account or region. The controller removes it or records that it could not; here it has
 * to be removed before the record may be replaced.
 */
async function leave(
  { store, log }: CredentialsContext,
  account: ReadyAccount,
  before: StoredParameter,
): Promise<void> {
  try {
    await store.leave(account, before)
  } catch (error) {
    if (!isCloudError(error) && !(error instanceof Problem)) throw error
    const { name, region } = before
    log.warn(
      'old_parameter_removal_failed',
      'failed to remove parameter from previous AWS account or region',
      {
        name,
        account: before.account,
        region,
        error,
      },
    )
    const why = isCloudError(error) ? describeCloudError(error).replace(/\.$/, '') : NOT_OURS
    const detail = `The previous parameter ${name} in AWS account ${before.account}, region ${region}, could not be removed (${why}). The new secret was not stored. Davit will retry the removal and, if it still fails, will record the parameter as orphaned. Retry your request later.`
    throw new Problem('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS, cause: error })
  }
}
