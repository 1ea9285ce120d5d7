import { setTimeout as sleep } from 'node:timers/promises'
import type { RoleProcess } from '../support/role-process.ts'

const REST_LIMIT_MS = 180_000
const POLL_MS = 250
/** The watch may still have to deliver a segment; and anything that is sent again is sent by then. */
export const QUIET_MS = 3000

/** Waits until nothing is pending for any of the controllers. @returns false if something is pending after the limit */
export async function untilAtRest(controllers: readonly RoleProcess[]): Promise<boolean> {
  const limit = performance.now() + REST_LIMIT_MS
  let quiet = 0
  while (performance.now() < limit) {
    const idle = await Promise.all(controllers.map(isIdle))
    quiet = idle.every(Boolean) ? quiet + 1 : 0
    if (quiet * POLL_MS > QUIET_MS) return true
    await sleep(POLL_MS)
  }
  return false
}

async function isIdle(controller: RoleProcess): Promise<boolean> {
  const pending = await controller.gauge('davit_deliveries_pending')
  const open = await controller.gauge('davit_log_open_segments')
  return pending === 0 && open === 0
}
