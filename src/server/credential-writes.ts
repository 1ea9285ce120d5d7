/**
 * A secret for a credential that is there: a new version of its parameter, or a new parameter where there is none. A request with
 * an Idempotency-Key leaves a mark on the credential before it writes, by which a repeat finds out what it has come to: it
 * writes no second version.
 */

import { timeOfName } from '../apis/ids.ts'
import { type Condition, GROUP } from '../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  PENDING_FIELDS_ANNOTATION,
  type RegistryCredential,
  registryCredentials,
  type StoredParameter,
} from '../apis/registry-credential.ts'
import { isCloudError } from '../credentials/cloud-error.ts'
import { credentialFindings } from '../credentials/controller/conditions.ts'
import { verifiedFinding } from '../credentials/controller/credential-verified.ts'
import { NOT_OURS } from '../credentials/controller/deletion-outcome.ts'
import { isApiError } from '../kube/client.ts'
import { mergeConditions } from '../kube/conditions.ts'
import type { SecretText } from '../lib/secret-text.ts'
import type { CredentialRef, CredentialsContext } from './context.ts'
import { describeCloudError } from './http/cloud-refusal.ts'
import { clusterRefusal } from './http/cluster-refusal.ts'
import { RefusedError } from './http/refused-error.ts'
import { readCredential, type StoredCredential } from './live-credential.ts'
import { isIn, parameterNameIn, type ReadyAccount } from './ready-account.ts'
import { retryOnConflict } from './until-undisturbed.ts'

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
