/** Leases of replicas that are no more. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ResourceType } from '../../../src/api/meta.ts'
import type { RawObject } from '../../../src/ports/kubernetes.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../stored.ts'
import type { Fleet } from './fleet.ts'

const LEASES: ResourceType = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  namespaced: true,
}
const POLL_MS = 500
/** For those that have to end by themselves, and for whoever clears them away. */
const PATIENCE_MS = 120_000

/** Those of no replica that lives. */
export async function leftLeases({ davit, members }: Fleet): Promise<RawObject[]> {
  const leases = await listAll(davit.api, LEASES, OPERATOR_NAMESPACE)
  const living = members.filter(({ process }) => process.running).map(({ life }) => `-${life?.replica}`)
  return leases.filter(({ metadata }) => !living.some((ending) => metadata.name.endsWith(ending)))
}

/** @returns false when some still are after two minutes */
export async function untilLeasesEnd(fleet: Fleet): Promise<boolean> {
  const limit = performance.now() + PATIENCE_MS
  while (performance.now() < limit) {
    if ((await leftLeases(fleet)).length === 0) return true
    await sleep(POLL_MS)
  }
  return false
}
