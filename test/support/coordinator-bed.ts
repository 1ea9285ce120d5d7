/**
 * Shard coordinators on records in memory, with a shared clock that a test moves; calls are answered immediately unless the test
 * delays them.
 */

import { ShardCoordinator, type ShardWork } from '../../src/ha/coordinator.ts'
import { OwnershipEpochs } from '../../src/ha/ownership.ts'
import {
  deriveShardTimes,
  type ReplicaRecord,
  type ReplicaRecords,
  type StoredRecord,
} from '../../src/ha/replica-leases.ts'
import { ApiError } from '../../src/kube/client.ts'
import { FakeClock } from './fake-clock.ts'

export const COORDINATOR_TIMES = deriveShardTimes(9000, 21_000)
export const BED_SHARDS = 8

export class MemoryRecords implements ReplicaRecords {
  readonly byName = new Map<string, StoredRecord>()
  /** Errors that calls throw, by the name of the call. */
  readonly failing = new Map<'list' | 'write' | 'remove', ApiError>()
  readonly calls: string[] = []
  /** Called with each written record, like a watch; with undefined for one that was removed. */
  onChange: (record: StoredRecord | undefined) => void = () => undefined
  #version = 0

  async list(): Promise<StoredRecord[]> {
    this.#call('list')
    return structuredClone([...this.byName.values()])
  }

  async write(record: ReplicaRecord, over: string | undefined): Promise<string> {
    this.#call('write', record.name)
    if (this.byName.get(record.name)?.version !== over) throw new ApiError('Conflict', 'not as said')
    return this.put(record)
  }

  async remove(name: string, version: string): Promise<void> {
    this.#call('remove', name)
    if (this.byName.get(name)?.version !== version) throw new ApiError('Conflict', 'changed')
    this.byName.delete(name)
    this.onChange(undefined)
  }

  /** Writes a record like another replica does. */
  put(record: ReplicaRecord): string {
    this.#version += 1
    const version = String(this.#version)
    const stored = structuredClone({ ...record, version })
    this.byName.set(record.name, stored)
    this.onChange(stored)
    return version
  }

  #call(kind: 'list' | 'write' | 'remove', name = ''): void {
    this.calls.push(`${kind} ${name}`.trim())
    const error = this.failing.get(kind)
    if (error) throw error
  }
}

export type BedCoordinator = {
  coordinator: ShardCoordinator
  epochs: OwnershipEpochs
  lines: string[]
  replaced: () => boolean
  end: () => void
}

export class CoordinatorBed {
  readonly clock = new FakeClock()
  readonly records = new MemoryRecords()
  readonly #aborts: AbortController[] = []
  readonly #coordinators: ShardCoordinator[] = []
  #sessions = 0

  constructor() {
    this.records.onChange = (record) => {
      for (const one of this.#coordinators) record ? one.hear(record) : one.hearRemoval()
    }
  }

  /** Ends all coordinators. */
  end(): void {
    for (const abort of this.#aborts) abort.abort()
  }

  /** Starts a replica that runs until `end`, which works like a kill. */
  join(
    name: string,
    options: { isNameOwn?: boolean; maxMembers?: number; work?: Partial<ShardWork> } = {},
  ): BedCoordinator {
    const lines: string[] = []
    const log = (_event: string, message: string) => void lines.push(message)
    const abort = new AbortController()
    this.#aborts.push(abort)
    let isReplaced = false
    const epochs = new OwnershipEpochs()
    this.#sessions += 1
    const coordinator = new ShardCoordinator({
      name,
      isNameExclusive: options.isNameOwn ?? true,
      session: `s${this.#sessions}`,
      shards: BED_SHARDS,
      maxMembers: options.maxMembers ?? 64,
      times: COORDINATOR_TIMES,
      records: this.records,
      epochs,
      work: {
        start: async () => undefined,
        confirm: async () => undefined,
        owned: () => undefined,
        ownedAlone: () => undefined,
        stop: async () => undefined,
        ...options.work,
      },
      clock: this.clock,
      log: { info: log, warn: log, error: log },
      onReplaced: () => {
        isReplaced = true
      },
    })
    this.#coordinators.push(coordinator)
    void coordinator.run(abort.signal)
    return { coordinator, epochs, lines, replaced: () => isReplaced, end: () => abort.abort() }
  }
}
