/** Waits until a fleet has completed everything, as long as it makes progress; otherwise reports its state. */

import { setTimeout as sleep } from 'node:timers/promises'
import { leases } from '../../../src/apis/core-kinds.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../../support/list-all.ts'
import type { RoleProcess } from '../../support/role-process.ts'
import { QUIET_MS } from '../at-rest.ts'
import type { Archive } from './archive.ts'
import type { Fleet } from './fleet.ts'
import { LOG_STAYS_MS, overdueOf } from './retained.ts'

export const STILL_PENDING = 'something was still pending at the end'

const POLL_MS = 250
/** It is stuck after this time without the end of a delivery. */
const STUCK_MS = 60_000
const LONGEST_MS = 600_000
/** Retention checks deletions of others in rounds, one minute apart, and deletes at a limited rate. */
const FORGOTTEN_MS = 150_000
/** The archive learns nothing new in between. */
const LOOKED_EVERY_MS = 3000
const GAUGES = [
  'davit_shards_owned',
  'davit_deliveries_pending',
  'davit_deliveries_oldest_pending_seconds',
  'davit_attempts_in_flight',
  'davit_endpoints_with_backlog',
  'davit_log_open_segments',
  'davit_outcomes_waiting',
]

/** @returns the state if there is no more progress; undefined if nothing is pending */
export async function untilAllHasEnded(fleet: Fleet): Promise<string | undefined> {
  const began = performance.now()
  let least = Number.POSITIVE_INFINITY
  let lastAt = began
  let quietSince: number | undefined
  for (;;) {
    const now = performance.now()
    const left = await Promise.all(fleet.controllers.map(({ process }) => leftIn(process)))
    const most = Math.max(...left)
    quietSince = most === 0 ? (quietSince ?? now) : undefined
    if (quietSince !== undefined && now - quietSince > QUIET_MS) return undefined
    if (most < least) {
      least = most
      lastAt = now
    }
    if (most > 0 && (now - lastAt > STUCK_MS || now - began > LONGEST_MS)) return await standOf(fleet)
    await sleep(POLL_MS)
  }
}

/**
 * Waits until retention has deleted everything that has ended, after the retention time.
 * @returns descriptions of what is still there
 */
export async function untilAllIsForgotten(archive: Archive, retentionMs: number): Promise<string[]> {
  const deadline = performance.now() + Math.max(retentionMs, LOG_STAYS_MS) + FORGOTTEN_MS
  for (;;) {
    const overdue = overdueOf(archive)
    if (overdue.length === 0 || performance.now() > deadline) return overdue
    await sleep(LOOKED_EVERY_MS)
  }
}

/** Deliveries and open segments; infinity if it does not report. */
async function leftIn(controller: RoleProcess): Promise<number> {
  const pending = await controller.gauge('davit_deliveries_pending')
  const open = await controller.gauge('davit_log_open_segments')
  return (pending ?? Number.POSITIVE_INFINITY) + (open ?? Number.POSITIVE_INFINITY)
}

async function standOf({ controllers, davit }: Fleet): Promise<string> {
  const lines = await Promise.all(
    controllers.map(async ({ name, life, process }) => {
      const values = await Promise.all(GAUGES.map(async (gauge) => `${gauge} ${await process.gauge(gauge)}`))
      return `${name} as ${life?.replica}: ${values.join(', ')}`
    }),
  )
  const held = await listAll(davit.api, leases, { namespace: OPERATOR_NAMESPACE })
  const words = held.map(({ metadata, spec }) => JSON.stringify({ metadata, spec }))
  return [...lines, ...words].join('\n')
}
