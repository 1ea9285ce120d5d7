/** A ResourceQuota on the number of objects of a kind. No controller fills in its status here, so that is done too. */
import { inject } from 'vitest'
import type { ResourceType } from '../../src/api/meta.ts'
import { requestApi } from '../../src/playground/control-plane-request.ts'
import type { RawObject, ResourceWriter } from '../../src/ports/kubernetes.ts'
import { until } from './until.ts'

const quotas: ResourceType = { group: '', version: 'v1', plural: 'resourcequotas', namespaced: true }

export type ObjectQuota = {
  /** From here on as many as anybody likes. */
  lift(): Promise<void>
}

/**
 * Forbids more objects of the kind in a namespace; resolves when the API server has taken notice.
 * @param probe a good object of the kind; it is only shown to the API server, and never made
 */
export async function forbidMore(
  api: ResourceWriter,
  type: ResourceType,
  probe: RawObject,
): Promise<ObjectQuota> {
  const { namespace } = probe.metadata
  const name = `no-${type.plural}`
  const hard = { [`count/${type.plural}.${type.group}`]: '0' }
  const metadata = { name, namespace }
  await api.create(quotas, { apiVersion: 'v1', kind: 'ResourceQuota', metadata, spec: { hard } })
  await api.patch(quotas, { namespace, name }, { status: { hard, used: hard } }, { subresource: 'status' })
  await untilTaken(type, probe, false)
  return {
    lift: async () => {
      await api.delete(quotas, { namespace, name })
      await untilTaken(type, probe, true)
    },
  }
}

async function untilTaken(type: ResourceType, probe: RawObject, wanted: boolean): Promise<void> {
  let last: unknown
  await until(
    async () => {
      last = await tryToMake(type, probe)
      return last === (wanted ? 201 : 403) ? true : undefined
    },
    () => `making one of ${type.plural} was answered with ${last}`,
  )
}

/** @returns the HTTP status that making it would be answered with */
async function tryToMake({ group, version, plural }: ResourceType, probe: RawObject): Promise<number> {
  const path = `/apis/${group}/${version}/namespaces/${probe.metadata.namespace}/${plural}?dryRun=All`
  return (await requestApi(inject('adminAccess'), { method: 'POST', path, body: probe })).status
}
