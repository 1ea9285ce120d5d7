/** What a fault is, and what several of them do. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { MonitoringBed } from '../bed/bed.ts'

export type Fault = {
  what: string
  alerts: readonly string[]
  cause(bed: MonitoringBed): Promise<unknown>
  /** Done over and over until all have fired. */
  goOn?(bed: MonitoringBed): Promise<unknown>
  mend?(bed: MonitoringBed): Promise<unknown>
}

export const OTHER_TYPE = 'environment.stopped'

/** Until watches have delivered it to every process. */
export async function untilKnown(): Promise<void> {
  await sleep(500)
}
