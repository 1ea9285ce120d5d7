/** Takes away the Leases of replicas that are gone. Other replicas would: here none is left. */
import { leases, REPLICA_LABEL } from '../apis/leases.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import { listObjects } from '../kube/every-object.ts'

/** @returns how many there were @throws ApiError */
export async function removeLeases(
  resources: ResourceReader & ResourceWriter,
  namespace: string,
): Promise<number> {
  let removed = 0
  for await (const { metadata } of listObjects(resources, leases, {
    namespace,
    labelSelector: REPLICA_LABEL,
  })) {
    await remove(resources, { namespace, name: metadata.name })
    removed += 1
  }
  return removed
}

async function remove(resources: ResourceWriter, ref: { namespace: string; name: string }): Promise<void> {
  try {
    await resources.delete(leases, ref)
  } catch (error) {
    if (!isApiError(error, 'NotFound')) throw error
  }
}
