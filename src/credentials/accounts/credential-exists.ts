import { registryCredential, registryCredentials } from '../../apis/registry-credential.ts'
import type { ResourceReader } from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import type { ParameterRef } from './disconnect.ts'

/**
 * Whether there is a resource of this name now that has a parameter, or may be given one; one that is being deleted takes care
 * of it itself. @throws ApiError
 */
export async function credentialMayStore(
  resources: ResourceReader,
  organization: string,
  name: string,
): Promise<boolean> {
  const found = await findObject(resources, registryCredentials, { namespace: organization, name })
  if (found === undefined) return false
  const { data } = registryCredential.safeParse(found)
  // One of a later version of Davit may say what this one cannot read.
  return data === undefined || data.spec.type === 'token'
}

/**
 * Whether a resource of this name has recorded the parameter. One that has not cannot take it along when the account is left: its
 * process ended before it could say where the secret is. @throws ApiError
 */
export async function credentialHasRecorded(
  resources: ResourceReader,
  { organization, credential }: { organization: string; credential: string },
  at: ParameterRef,
): Promise<boolean> {
  const found = await findObject(resources, registryCredentials, {
    namespace: organization,
    name: credential,
  })
  if (found === undefined) return false
  const { data } = registryCredential.safeParse(found)
  // One of a later version of Davit may say what this one cannot read.
  if (data === undefined) return true
  const stored = data.status?.parameter
  return stored?.name === at.name && stored.account === at.account && stored.region === at.region
}
