/** What replicas tell each other, each in a record of its own. */

export type ReplicaRecord = {
  /** The replica's name, of which there is one at a time: whoever starts under it anew takes its record over. */
  name: string
  /** Of this start of it. */
  session: string
  /** The replicas that it gives shards to, itself among them unless it is leaving. In order. */
  view: readonly string[]
  /** Shards that it no longer works on, but for attempts and records that have not ended. */
  draining: readonly number[]
  /** How long the record counts without being renewed, in milliseconds. */
  leaseMs: number
}

export type StoredRecord = ReplicaRecord & {
  /** Another one with every write. */
  version: string
}

export interface ReplicaRecords {
  /** Every record, as of a moment after the call: a consistent read. @throws ApiError */
  list(): Promise<StoredRecord[]>
  /**
   * Writes the record and renews it. @param over the version that it replaces; absent: there is none
   * @returns the new version. @throws ApiError `Conflict`, `AlreadyExists`, `NotFound`: it is not as said. `Unavailable` and
   * the like: it may have been written
   */
  write(record: ReplicaRecord, over: string | undefined): Promise<string>
  /** @throws ApiError `Conflict`, `NotFound` */
  remove(name: string, version: string): Promise<void>
}
