/** The fields of a PATCH on their way into the spec. */
import {
  PENDING_FIELDS_ANNOTATION,
  type RegistryCredential,
  registryCredentials,
} from '../apis/registry-credential.ts'
import { hasPendingFields } from '../credentials/awaited-fields.ts'
import { isApiError, type RawObject } from '../kube/client.ts'
import { etagOf, ifMatchHolds } from '../lib/etag.ts'
import type { CredentialRef, CredentialsContext } from './context.ts'
import { clusterRefusal } from './http/cluster-refusal.ts'
import { RefusedError } from './http/refused-error.ts'
import { parseCredential, readCredential } from './live-credential.ts'
import { retryOnConflict } from './until-undisturbed.ts'

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
