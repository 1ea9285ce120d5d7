/** Credentials as they are now: whoever made a change a moment ago through another replica sees it here. */
import { CREDENTIAL_PREFIX } from '../apis/identifiers.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import {
  type RegistryCredential,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
} from '../apis/registry-credential.ts'
import { isApiError, type RawObject, type ResourceReader } from '../kube/client.ts'
import { UnreadableError } from '../kube/unreadable-error.ts'
import type { CredentialRef } from './context.ts'
import type { CredentialDirectory } from './credential-directory.ts'
import type { CredentialId } from './credential-resource.ts'
import { RefusedError } from './http/refused-error.ts'

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
