/** Removes records of replicas that are gone for good. Each replica does; one that may not goes on without. */

import { isApiError } from '../kube/client.ts'
import type { Clock } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import type { ReplicaRecords, StoredRecord } from './ports-replica-records.ts'

export type StaleLeaseCollectorOptions = {
  records: Pick<ReplicaRecords, 'remove'>
  clock: Clock
  log: Logger
  /** What could not be removed is tried again after so long. */
  againMs: number
}

/** A round is not to take long, however many are gone. */
const AT_A_TIME = 8

export class StaleLeaseCollector {
  readonly #options: StaleLeaseCollectorOptions
  /** By name: when it was tried last. */
  #tried = new Map<string, number>()

  constructor(options: StaleLeaseCollectorOptions) {
    this.#options = options
  }

  /** Never rejects. @param left all that are to go */
  async collect(left: readonly StoredRecord[]): Promise<void> {
    const now = this.#options.clock.monotonic()
    const isDue = (name: string) => now - (this.#tried.get(name) ?? -Infinity) >= this.#options.againMs
    this.#tried = new Map([...this.#tried].filter(([name]) => left.some((record) => record.name === name)))
    for (const record of left.filter(({ name }) => isDue(name)).slice(0, AT_A_TIME)) {
      this.#tried.set(record.name, now)
      await this.#remove(record)
    }
  }

  async #remove({ name, version }: StoredRecord): Promise<void> {
    try {
      await this.#options.records.remove(name, version)
    } catch (error) {
      if (isApiError(error, 'Conflict', 'NotFound')) return
      this.#options.log.warn('the record of a replica that is gone could not be removed', { error, name })
    }
  }
}
