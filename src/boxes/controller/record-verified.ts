/**
 * Tells credentials what a bake has seen of them. It writes a fact, `status.verified`; the condition follows from it in the loop of
 * credentials, so that no two loops write the same.
 */
import { CREDENTIAL_PREFIX } from '../../apis/identifiers.ts'
import {
  type CredentialVerification,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import { isNewer } from '../../credentials/controller/credential-verified.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { statusPatch } from '../../kube/status.ts'

const CONFLICTS = 5

export type VerificationContext = {
  resources: ResourceReader & ResourceWriter
  namespace: string
  /** Of the bake: a credential that was made later is another one. */
  startedAt: number
}

/** @param found by the ids of credentials @throws ApiError */
export async function recordVerifications(
  of: VerificationContext,
  found: ReadonlyMap<string, CredentialVerification>,
): Promise<void> {
  for (const [id, verified] of found) {
    const ref = { namespace: of.namespace, name: id.slice(CREDENTIAL_PREFIX.length) }
    for (let conflicts = 0; ; conflicts += 1) {
      try {
        await record(of, ref, verified)
        break
      } catch (error) {
        // It is gone, or nothing can be written to it as it is: the bake has ended all the same.
        if (isApiError(error, 'NotFound', 'Invalid')) break
        if (!isApiError(error, 'Conflict') || conflicts === CONFLICTS) throw error
      }
    }
  }
}

async function record(
  { resources, startedAt }: VerificationContext,
  ref: { namespace: string; name: string },
  verified: CredentialVerification,
): Promise<void> {
  const { metadata, status = { observedGeneration: -1 } } = registryCredential.parse(
    await resources.get(registryCredentials, ref),
  )
  if (Date.parse(metadata.creationTimestamp ?? '') > startedAt) return
  if (!isNewer(verified, status.verified)) return
  const change = statusPatch({ verified: status.verified }, { verified })
  if (!change) return
  const patch = { metadata: { resourceVersion: metadata.resourceVersion }, status: change }
  await resources.patch(registryCredentials, ref, patch, { subresource: 'status' })
}
