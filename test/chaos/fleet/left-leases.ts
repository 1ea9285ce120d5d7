/** Finds Leases of replicas that are gone. */

import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { DRAINING_ANNOTATION, RESERVATION_LABEL, VIEW_ANNOTATION } from '../../../src/apis/core-kinds.ts'
import { objectMeta, type ResourceType } from '../../../src/apis/meta.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../../support/list-all.ts'
import type { Fleet } from './fleet.ts'

const LEASES: ResourceType = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  namespaced: true,
}
const POLL_MS = 500
/** For Leases that have to end by themselves, and for the replicas that remove them. */
const PATIENCE_MS = 120_000

/** A REST server looks once a minute for reservations that are older than three minutes. */
const RESERVED_MS = 300_000

/**
 * Leases without a living replica, and reservations that should have been removed. One Lease of the last controller that left may stay if it claims nothing: other controllers
 * would remove it.
 */
export async function leftLeases({ davit, members }: Fleet): Promise<RawObject[]> {
  const leases = await listAll(davit.api, LEASES, { namespace: OPERATOR_NAMESPACE })
  const living = members.filter(({ process }) => process.running).map(({ life }) => `-${life?.replica}`)
  const left = leases.filter(
    (lease) => !isFreshReservation(lease) && !living.some((ending) => lease.metadata.name.endsWith(ending)),
  )
  return living.length === 0 ? left.filter((lease) => !claimsNothing(lease)) : left
}

function isFreshReservation({ metadata }: RawObject): boolean {
  const { labels = {}, creationTimestamp = '' } = objectMeta.parse(metadata)
  return labels[RESERVATION_LABEL] !== undefined && Date.now() - Date.parse(creationTimestamp) < RESERVED_MS
}

function claimsNothing({ metadata }: RawObject): boolean {
  const { annotations } = z
    .object({ annotations: z.record(z.string(), z.string()).default({}) })
    .parse(metadata)
  return annotations[VIEW_ANNOTATION] === '' && annotations[DRAINING_ANNOTATION] === ''
}

/** @returns false if some remain after two minutes */
export async function untilLeasesEnd(fleet: Fleet): Promise<boolean> {
  const limit = performance.now() + PATIENCE_MS
  while (performance.now() < limit) {
    if ((await leftLeases(fleet)).length === 0) return true
    await sleep(POLL_MS)
  }
  return false
}
