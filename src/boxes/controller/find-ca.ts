/** What there is, in an organization, of the authorities that the operator has named to all bakes. */
import { configMap, configMaps } from '../../apis/core-kinds.ts'
import { isApiError, type ResourceReader } from '../../kube/client.ts'
import type { BakeCa } from './bake-job.ts'
import type { FoundCa } from './bake-problem.ts'

const CERTIFICATE = '-----BEGIN CERTIFICATE-----'

/** @throws ApiError */
export async function findCa(resources: ResourceReader, namespace: string, ca: BakeCa): Promise<FoundCa> {
  try {
    const found = configMap.parse(await resources.get(configMaps, { namespace, name: ca.configMap }))
    const isThere = found.data?.[ca.key]?.includes(CERTIFICATE)
    return { ...ca, found: isThere ? 'certificates' : 'no certificates' }
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { ...ca, found: 'nothing' }
    // The right to read it is for one name, which need not be this one.
    if (isApiError(error, 'Forbidden')) return { ...ca, found: 'refused' }
    throw error
  }
}
