/**
 * This replica's own Lease: whether its name belongs to this process, and how long it may act on what it has published. README.md
 * explains the protocol.
 */
import { type Clock, type DualTimestamp, dualTimestamp, elapsedSince } from '../lib/time.ts'
import {
  claimsNothing,
  type ReplicaRecord,
  type ReplicaRecords,
  type ShardTimes,
  type StoredRecord,
  UNKNOWN_SESSION,
} from './replica-leases.ts'

/** Until when this replica may act: until the others may consider it dead. */
export class LeaseValidity {
  readonly #clock: Clock
  readonly #holdsMs: number
  /** When the last acknowledged renewal was requested. */
  #renewed: DualTimestamp | undefined

  /** @param holdsMs shorter than what the others wait */
  constructor(clock: Clock, holdsMs: number) {
    this.#clock = clock
    this.#holdsMs = holdsMs
  }

  moment(): DualTimestamp {
    return dualTimestamp(this.#clock)
  }

  /** @param asked when the acknowledged renewal was requested */
  renewed(asked: DualTimestamp): void {
    this.#renewed = asked
  }

  get isValid(): boolean {
    return this.ageMs < this.#holdsMs
  }

  /** Milliseconds since the last renewal was requested, by whichever clock says more: the monotonic or the wall clock. */
  get ageMs(): number {
    return this.#renewed ? elapsedSince(this.#clock, this.#renewed) : Number.POSITIVE_INFINITY
  }
}

export type SelfLeaseOptions = {
  name: string
  session: string
  isNameExclusive: boolean
  times: Pick<ShardTimes, 'drainMs'>
  records: ReplicaRecords
  clock: Clock
}

/** `taken`: another process has the name, or may have work in progress. `replaced`: another process took the name from this one. */
export type NameState = 'ours' | 'taken' | 'replaced'

export class SelfLease {
  readonly #options: SelfLeaseOptions
  #published: ReplicaRecord | undefined
  /** The version of the stored record, even if another process wrote it. */
  #stored: string | undefined
  #isInDoubt = true
  #wasPublished = false
  /** The record of another process with the same name, when it was first seen, and how long it counts from then on. */
  #namesake: { version: string; seenAt: number; waitMs: number } | undefined

  constructor(options: SelfLeaseOptions) {
    this.#options = options
  }

  /** The stored version may be another one: it must be read before the next write. */
  get isInDoubt(): boolean {
    return this.#isInDoubt
  }

  /** The record that the others can read. */
  get published(): ReplicaRecord | undefined {
    return this.#published
  }

  /** Whether the others can read exactly this. */
  matches({ session, view, draining }: ReplicaRecord): boolean {
    const published = this.#published
    return (
      published?.session === session &&
      published.view.join() === view.join() &&
      published.draining.join() === draining.join()
    )
  }

  /** Learns from a list whose the name is. @param asked when the list was requested, monotonic */
  observe(records: readonly StoredRecord[], asked: number): NameState {
    const { name, session } = this.#options
    const found = records.find((record) => record.name === name)
    if (found && this.#isOthers(found)) {
      if (this.#wasPublished) return 'replaced'
      this.#noteNamesake(found)
    }
    // A person may have removed the record, while its process still runs.
    if (this.#namesake && asked - this.#namesake.seenAt < this.#namesake.waitMs) return 'taken'
    this.#isInDoubt = false
    this.#stored = found?.version
    if (!found) this.#published = undefined
    else if (found.session === session) {
      this.#published = found
      this.#wasPublished = true
    }
    return 'ours'
  }

  /** Replaces the known version. @throws ApiError; then the record is in doubt */
  async write(record: ReplicaRecord): Promise<void> {
    this.#isInDoubt = true
    this.#stored = await this.#options.records.write(record, this.#stored)
    this.#isInDoubt = false
    this.#wasPublished = true
    this.#published = record
  }

  /** A record that cannot be read belongs to this replica if it has written one. */
  #isOthers({ session }: StoredRecord): boolean {
    if (session === UNKNOWN_SESSION) return !this.#wasPublished && !this.#options.isNameExclusive
    return session !== this.#options.session
  }

  #noteNamesake(found: StoredRecord): void {
    const { isNameExclusive, times, clock } = this.#options
    const { version, leaseMs } = found
    if (isNameExclusive || claimsNothing(found)) this.#namesake = undefined
    else if (this.#namesake?.version !== version)
      this.#namesake = { version, seenAt: clock.monotonic(), waitMs: leaseMs + times.drainMs }
  }
}
