/** A ResourceQuota on the number of objects of a kind. No controller updates its status here, so this does it. */

import { inject } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import type { AdminAccess } from '../../playground/control-plane/protocol.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import type { RawObject, ResourceWriter } from '../../src/kube/client.ts'
import { until } from './until.ts'

const quotas: ResourceType = { group: '', version: 'v1', plural: 'resourcequotas', namespaced: true }

export type ObjectQuota = {
  /** Removes the quota. */
  lift(): Promise<void>
}

/**
 * Forbids more objects of the kind in a namespace; resolves when the API server enforces it.
 * @param probe a valid object of the kind; only sent as a dry run
 * @param access of another control plane than that of the run
 */
export async function forbidMore(
  api: ResourceWriter,
  type: ResourceType,
  probe: RawObject,
  access: AdminAccess = inject('adminAccess'),
): Promise<ObjectQuota> {
  const { namespace } = probe.metadata
  const name = `no-${type.plural}`
  const hard = { [`count/${type.plural}.${type.group}`]: '0' }
  const metadata = { name, namespace }
  await api.create(quotas, { apiVersion: 'v1', kind: 'ResourceQuota', metadata, spec: { hard } })
  await api.patch(quotas, { namespace, name }, { status: { hard, used: hard } }, { subresource: 'status' })
  const tryIt = () => tryToMake(access, type, probe)
  await untilTaken(type, tryIt, false)
  return {
    lift: async () => {
      await api.delete(quotas, { namespace, name })
      await untilTaken(type, tryIt, true)
    },
  }
}

async function untilTaken(type: ResourceType, tryIt: () => Promise<number>, wanted: boolean): Promise<void> {
  let last: unknown
  await until(
    async () => {
      last = await tryIt()
      return last === (wanted ? 201 : 403) ? true : undefined
    },
    () => `making one of ${type.plural} was answered with ${last}`,
  )
}

/** @returns the HTTP status of a create */
async function tryToMake(
  access: AdminAccess,
  { group, version, plural }: ResourceType,
  probe: RawObject,
): Promise<number> {
  const path = `/apis/${group}/${version}/namespaces/${probe.metadata.namespace}/${plural}?dryRun=All`
  return (await requestApi(access, { method: 'POST', path, body: probe })).status
}
