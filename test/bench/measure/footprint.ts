/** What the store and the processes hold, over time. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { residentBytes } from './process-usage.ts'

/** Bytes, `at` so many seconds from the start. */
export type Footprint = {
  at: number
  /** etcd's file, and the part of it that is in use. */
  store: number
  storeInUse: number
  etcd: number
  apiServer: number
  controller: number
  /** By the controller's own count: bytes of the log, and finished deliveries that have an object. Flat where retention keeps up. */
  log: number
  finished: number
}

const EVERY_MS = 10_000

export function sampleFootprints(bed: Bed, controller: Controller): { stop(): Promise<Footprint[]> } {
  const stopping = new AbortController()
  const started = performance.now()
  const samples: Footprint[] = []
  const sampling = (async () => {
    while (!stopping.signal.aborted) {
      samples.push(await footprintOf(bed, controller, (performance.now() - started) / 1000))
      await sleep(EVERY_MS, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  })()
  return {
    async stop() {
      stopping.abort()
      await sampling
      return samples
    },
  }
}

async function footprintOf(bed: Bed, controller: Controller, at: number): Promise<Footprint> {
  const { etcdUrl, pids } = bed.controlPlane
  const metrics = await (await fetch(`${etcdUrl}/metrics`)).text()
  const gauge = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1] ?? 0)
  return {
    at,
    store: gauge('etcd_mvcc_db_total_size_in_bytes'),
    storeInUse: gauge('etcd_mvcc_db_total_size_in_use_in_bytes'),
    etcd: residentBytes(pids.etcd),
    apiServer: residentBytes(pids.apiServer),
    controller: residentBytes(controller.pid),
    log: await controller.gauge('davit_log_bytes'),
    finished: await controller.gauge('davit_deliveries_finished'),
  }
}
