/** Writes into the status of a credential where its secret is, which is what pins it. */
import {
  type RegistryCredential,
  registryCredentials,
  type StoredParameter,
} from '../apis/registry-credential.ts'
import { isApiError } from '../kube/client.ts'
import { sleep } from '../lib/sleep.ts'
import type { CredentialRef, CredentialsContext } from './context.ts'
import { RefusedError } from './http/refused-error.ts'
import { parseCredential, readCredential } from './live-credential.ts'

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
