import { type Clock, type DualTimestamp, dualTimestamp, elapsedSince } from '../lib/clock.ts'
import {
  claimsNothing,
  type ReplicaRecord,
  type ReplicaRecords,
  type ShardTimes,
  type StoredRecord,
  UNKNOWN_SESSION,
} from './replica-records.ts'

/** How long this replica may act on what it has published: until the others may think that it is gone. */

export class LeaseValidity {
  readonly #clock: Clock
  readonly #holdsMs: number
  /** When the last renewal that was acknowledged was asked for. */
  #renewed: DualTimestamp | undefined

  /** @param holdsMs shorter than what the others wait for */
  constructor(clock: Clock, holdsMs: number) {
    this.#clock = clock
    this.#holdsMs = holdsMs
  }

  moment(): DualTimestamp {
    return dualTimestamp(this.#clock)
  }

  /** @param asked when the renewal that was acknowledged was begun */
  renewed(asked: DualTimestamp): void {
    this.#renewed = asked
  }

  get isValid(): boolean {
    return this.ageMs < this.#holdsMs
  }

  /** Milliseconds since the last renewal was asked for, by the clock that tells more. */
  get ageMs(): number {
    return this.#renewed ? elapsedSince(this.#clock, this.#renewed) : Number.POSITIVE_INFINITY
  }
}

/** The record of this replica: what of it is stored, and whether its name is this process's. */

export type SelfLeaseOptions = {
  name: string
  session: string
  isNameExclusive: boolean
  times: Pick<ShardTimes, 'drainMs'>
  records: ReplicaRecords
  clock: Clock
}

/** `taken`: somebody else has the name, or may have something under way. `replaced`: he came later. */
export type NameState = 'ours' | 'taken' | 'replaced'

export class SelfLease {
  readonly #options: SelfLeaseOptions
  /** What the others can read. */
  #published: ReplicaRecord | undefined
  /** The version of the record, whoever wrote it. */
  #stored: string | undefined
  /** It may be another one. */
  #isInDoubt = true
  #wasPublished = false
  /** The version of another process's record, when it was first seen, and how long from then on it counts. */
  #namesake: { version: string; seenAt: number; waitMs: number } | undefined

  constructor(options: SelfLeaseOptions) {
    this.#options = options
  }

  /** What is stored must be looked up before it is written. */
  get isInDoubt(): boolean {
    return this.#isInDoubt
  }

  get published(): ReplicaRecord | undefined {
    return this.#published
  }

  /** The others can read just that. */
  matches({ session, view, draining }: ReplicaRecord): boolean {
    const published = this.#published
    return (
      published?.session === session &&
      published.view.join() === view.join() &&
      published.draining.join() === draining.join()
    )
  }

  /** What became of it, by a list. @param asked when the list was asked for, monotonic */
  observe(records: readonly StoredRecord[], asked: number): NameState {
    const { name, session } = this.#options
    const found = records.find((record) => record.name === name)
    if (found && this.#isOthers(found)) {
      if (this.#wasPublished) return 'replaced'
      this.#meets(found)
    }
    // Somebody may have removed the record, but not what it stands for.
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

  /** Writes it over the one that is known. @throws ApiError: then it is in doubt */
  async write(record: ReplicaRecord): Promise<void> {
    this.#isInDoubt = true
    this.#stored = await this.#options.records.write(record, this.#stored)
    this.#isInDoubt = false
    this.#wasPublished = true
    this.#published = record
  }

  /** One that somebody has spoilt is this replica's, once it has written there. */
  #isOthers({ session }: StoredRecord): boolean {
    if (session === UNKNOWN_SESSION) return !this.#wasPublished && !this.#options.isNameExclusive
    return session !== this.#options.session
  }

  #meets(found: StoredRecord): void {
    const { isNameExclusive, times, clock } = this.#options
    const { version, leaseMs } = found
    if (isNameExclusive || claimsNothing(found)) this.#namesake = undefined
    else if (this.#namesake?.version !== version)
      this.#namesake = { version, seenAt: clock.monotonic(), waitMs: leaseMs + times.drainMs }
  }
}
