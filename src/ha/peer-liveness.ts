/** What a replica knows of the others, by what it saw of their records and when. README.md explains the protocol. */

import { isApiError } from '../kube/client.ts'
import type { Logger } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import { assignShards } from './assignment.ts'
import { claimsNothing, type ReplicaRecords, type ShardTimes, type StoredRecord } from './replica-leases.ts'

/**
 * What other replicas have to do with a shard. `live`: one works on it, or may take it. `expired`: only replicas whose lease has expired,
 * which start nothing more and may have work in progress. `none`: no replica has.
 */
export type ShardClaim = 'live' | 'expired' | 'none'

/** Times are monotonic milliseconds of this process. */
type Peer = {
  record: StoredRecord
  /** When this version was first seen, in a list or by the watch; it was written before that. */
  seenAt: number
  /** It has renewed since this replica started to look. */
  isHeard: boolean
  /** The owner of each shard by its view. */
  owners: readonly string[]
  /** A person removed the record, while the replica may still run. */
  isGone: boolean
}

/** When the watch showed the latest version of each record. Only a list says what counts; this says from when on a lease is timed. */
export class HeardVersions {
  readonly #byName = new Map<string, { version: string; at: number }>()

  /** @param now monotonic */
  note({ name, version }: Heard, now: number): void {
    if (this.#byName.get(name)?.version !== version) this.#byName.set(name, { version, at: now })
  }

  /** When the version was first seen. @param now when a list showed it */
  seenAt({ name, version }: Heard, now: number): number {
    const heard = this.#byName.get(name)
    return heard?.version === version ? heard.at : now
  }

  /** Forgets all others. */
  keep(names: { has(name: string): boolean }): void {
    for (const name of this.#byName.keys()) if (!names.has(name)) this.#byName.delete(name)
  }
}

type Heard = Pick<StoredRecord, 'name' | 'version'>

export type PeersOptions = {
  name: string
  shards: number
  /** How long a replica whose lease has expired may still have work in progress. */
  drainMs: number
}

export class Peers {
  readonly #options: PeersOptions
  #byName = new Map<string, Peer>()
  /** When the last list was requested: later writes are unknown. */
  #asOf = Number.NEGATIVE_INFINITY
  readonly #heard = new HeardVersions()

  constructor(options: PeersOptions) {
    this.#options = options
  }

  /** @param records of a consistent list. @param at when it was requested. @param now when it arrived */
  update(records: readonly StoredRecord[], at: number, now: number): void {
    const before = this.#byName
    this.#asOf = at
    this.#byName = new Map()
    for (const peer of before.values()) {
      if (!claimsNothing(peer.record) && !this.#isDead(peer)) this.#keep({ ...peer, isGone: true })
    }
    for (const record of records) {
      if (record.name === this.#options.name) continue
      const known = before.get(record.name)
      if (known?.record.version === record.version) {
        this.#keep({ ...known, isGone: false })
        continue
      }
      const seenAt = this.#heard.seenAt(record, now)
      const owners = assignShards(record.view, this.#options.shards)
      this.#keep({ record, seenAt, isHeard: known !== undefined, owners, isGone: false })
    }
    this.#heard.keep(this.#byName)
  }

  /**
   * The watch has shown a record. Only a list says what counts; this says from when on its lease is timed.
   * @returns whether it claims something else than what is known, which is a reason to list
   */
  hear(record: StoredRecord, now: number): boolean {
    const { name, version } = record
    const known = this.#byName.get(name)
    if (name === this.#options.name || known?.record.version === version) return false
    this.#heard.note(record, now)
    // A newcomer waits for the first renewal of each.
    return !known?.isHeard || known.isGone || claimsOf(known.record) !== claimsOf(record)
  }

  /** When the next lease expires or its work has certainly ended, of those that have something; Infinity if there is none. */
  get changesAt(): number {
    const { drainMs } = this.#options
    const moments = [...this.#byName.values()]
      .filter((one) => !claimsNothing(one.record))
      .flatMap(({ record, seenAt }) => [seenAt + record.leaseMs, seenAt + record.leaseMs + drainMs])
      .filter((moment) => moment > this.#asOf)
    return Math.min(...moments)
  }

  /** The replicas that shards can be given to. */
  members(): string[] {
    return [...this.#byName.values()]
      .filter((one) => one.record.view.length > 0 && !one.isGone && !this.#hasExpired(one))
      .map(({ record }) => record.name)
  }

  /** It does not renew its record, or lost it, and has not announced that it leaves. */
  isSilent(name: string): boolean {
    const one = this.#byName.get(name)
    return one !== undefined && one.record.view.length > 0 && (one.isGone || this.#hasExpired(one))
  }

  /**
   * True while a claimant has not renewed since this replica looks, but others have: if it is dead, the others have timed its lease for
   * longer. If none has renewed within a lease, there is none to wait for.
   */
  get hasUnverifiedClaim(): boolean {
    const claimants = [...this.#byName.values()].filter(
      (one) => !claimsNothing(one.record) && !this.#isDead(one),
    )
    const unheard = claimants.filter(({ isHeard }) => !isHeard)
    return (
      unheard.some((one) => !this.#hasExpired(one)) ||
      (unheard.length > 0 && unheard.length < claimants.length)
    )
  }

  /** A replica whose record was removed may have claimed anything since, until its record is back or it counts as dead. */
  claimOf(shard: number): ShardClaim {
    let claim: ShardClaim = 'none'
    for (const peer of this.#byName.values()) {
      const { record, owners, isGone } = peer
      if (!isGone && owners[shard] !== record.name && !record.draining.includes(shard)) continue
      if (!this.#hasExpired(peer)) return 'live'
      if (!this.#isDead(peer)) claim = 'expired'
    }
    return claim
  }

  /** Records of replicas that can have no work in progress any more. */
  staleRecords(): StoredRecord[] {
    return [...this.#byName.values()]
      .filter((one) => !one.isGone && (claimsNothing(one.record) ? this.#hasExpired(one) : this.#isDead(one)))
      .map(({ record }) => record)
  }

  #keep(peer: Peer): void {
    this.#byName.set(peer.record.name, peer)
  }

  #hasExpired({ record, seenAt }: Peer): boolean {
    return this.#asOf - seenAt >= record.leaseMs
  }

  #isDead({ record, seenAt }: Peer): boolean {
    return this.#asOf - seenAt >= record.leaseMs + this.#options.drainMs
  }
}

function claimsOf({ session, view, draining }: StoredRecord): string {
  return JSON.stringify([session, view, draining])
}

export type StaleLeaseCollectorOptions = {
  records: Pick<ReplicaRecords, 'remove'>
  clock: Clock
  log: Logger
  /** How long to wait before a failed removal is retried. */
  againMs: number
}

/** Keeps a round short, however many replicas are gone. */
const AT_A_TIME = 8

/** Removes the records of dead replicas. Every replica does so; failures are only logged. */
export class StaleLeaseCollector {
  readonly #options: StaleLeaseCollectorOptions
  /** When the removal was last tried, by name. */
  #tried = new Map<string, number>()

  constructor(options: StaleLeaseCollectorOptions) {
    this.#options = options
  }

  /** Never rejects. @param stale all records to remove */
  async collect(stale: readonly StoredRecord[]): Promise<void> {
    const now = this.#options.clock.monotonic()
    const isDue = (name: string) => now - (this.#tried.get(name) ?? -Infinity) >= this.#options.againMs
    this.#tried = new Map([...this.#tried].filter(([name]) => stale.some((record) => record.name === name)))
    for (const record of stale.filter(({ name }) => isDue(name)).slice(0, AT_A_TIME)) {
      this.#tried.set(record.name, now)
      await this.#remove(record)
    }
  }

  async #remove({ name, version }: StoredRecord): Promise<void> {
    try {
      await this.#options.records.remove(name, version)
    } catch (error) {
      if (isApiError(error, 'Conflict', 'NotFound')) return
      this.#options.log.warn(
        'lease_removal_failed',
        'failed to remove the Lease of a stopped replica; retrying',
        {
          error,
          name,
        },
      )
    }
  }
}

export type MembershipChange = {
  before: readonly string[]
  after: readonly string[]
  /** The owner of each shard, with the members before and after. */
  ownersBefore: readonly string[]
  owners: readonly string[]
  /** Its Lease has expired without a release. */
  isSilent(name: string): boolean
}

/** Logs which other replicas came, left or fell silent. The own start and end are logged elsewhere. */
export function logMembership(
  { name: own, times, log }: { name: string; times: Pick<ShardTimes, 'drainMs'>; log: Logger },
  { before, after, ownersBefore, owners, isSilent }: MembershipChange,
): void {
  if (!before.includes(own) || !after.includes(own)) return
  const gone = before.filter((name) => !after.includes(name))
  for (const replica of gone) {
    const facts = { replica, shards: count(ownersBefore, replica), live: after.length }
    if (isSilent(replica))
      log.warn(
        'replica_silent',
        'another replica stopped renewing its Lease; its ordered endpoints pause until its work has certainly ended',
        { ...facts, seconds: times.drainMs / 1000 },
      )
    else log.info('replica_left', 'another replica left', facts)
  }
  for (const replica of after.filter((name) => !before.includes(name)))
    log.info('replica_joined', 'another replica joined', {
      replica,
      shards: count(owners, replica),
      live: after.length,
    })
}

function count(owners: readonly string[], name: string): number {
  return owners.filter((owner) => owner === name).length
}
