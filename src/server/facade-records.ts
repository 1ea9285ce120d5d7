/** What replicas of the facade tell each other, each in a record of its own. */

export type PeerRecord = {
  /** The replica's name, of which there is one at a time. */
  name: string
  /** Of this start of it. */
  session: string
  /** Every change of an endpoint up to this version is known to it. */
  seen: number
  /** How long the record counts without being renewed, in milliseconds. */
  leaseMs: number
}

export type StoredPeerRecord = PeerRecord & {
  /** Another one with every write. */
  version: string
}

export interface PeerRecords {
  /** Every record, as of a moment after the call: a consistent read. @throws ApiError */
  list(): Promise<StoredPeerRecord[]>
  /**
   * Writes the record and renews it. @param over the version that it replaces; absent: there is none
   * @returns the new version. @throws ApiError `Conflict`, `AlreadyExists`, `NotFound`: it is not as said. `Unavailable` and
   * the like: it may have been written
   */
  write(record: PeerRecord, over: string | undefined): Promise<string>
  /** @throws ApiError `Conflict`, `NotFound` */
  remove(name: string, version: string): Promise<void>
}
