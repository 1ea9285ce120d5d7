import { isApiError } from '../kube/client.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import { assignShards } from './assignment.ts'
import {
  claimsNothing,
  type ReplicaRecords,
  type ShardCoordinatorOptions,
  type StoredRecord,
} from './replica-records.ts'

/** What a replica knows of the others, by what it has seen of their records and when. Times are its own monotonic milliseconds. */

type Peer = {
  record: StoredRecord
  /** When this version was first seen: it was written before. */
  seenAt: number
  /** It has written since this replica looks: it lives, or was alive a moment ago. */
  isHeard: boolean
  /** By the view that it has published. */
  owners: readonly string[]
  /** Somebody has removed the record, but not what it stands for. */
  isGone: boolean
}

export type PeersOptions = {
  /** The replica's own name. */
  name: string
  shards: number
  /** For how long something may still be under way at a replica whose lease has ended. */
  drainMs: number
}

export class Peers {
  readonly #options: PeersOptions
  #byName = new Map<string, Peer>()
  /** When the list that was taken last was asked for: nothing that was written later is known. */
  #asOf = Number.NEGATIVE_INFINITY

  constructor(options: PeersOptions) {
    this.#options = options
  }

  /** Every record of a consistent list. @param at when it was asked for. @param now when it was there */
  update(records: readonly StoredRecord[], at: number, now: number): void {
    const before = this.#byName
    this.#asOf = at
    this.#byName = new Map()
    for (const neighbour of before.values()) {
      if (!claimsNothing(neighbour.record) && !this.#isDead(neighbour))
        this.#keep({ ...neighbour, isGone: true })
    }
    for (const record of records) {
      if (record.name === this.#options.name) continue
      const known = before.get(record.name)
      if (known?.record.version === record.version) {
        this.#keep({ ...known, isGone: false })
        continue
      }
      const owners = assignShards(record.view, this.#options.shards)
      this.#keep({ record, seenAt: now, isHeard: known !== undefined, owners, isGone: false })
    }
  }

  /** Those that shards can be given to. */
  members(): string[] {
    return [...this.#byName.values()]
      .filter((one) => one.record.view.length > 0 && !one.isGone && !this.#hasExpired(one))
      .map(({ record }) => record.name)
  }

  /** It has not said that it leaves, and does not renew its record, or has none any more. */
  isSilent(name: string): boolean {
    const one = this.#byName.get(name)
    return one !== undefined && one.record.view.length > 0 && (one.isGone || this.#hasExpired(one))
  }

  /**
   * Somebody who claims something was not heard of yet, while others were: if it is dead, those have counted for longer. Where nobody
   * was heard of, it is known after a lease that there is nobody to wait for.
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

  /**
   * Whether somebody else works on the shard, may take it, or may have something of it under way. Whose record was removed may have
   * claimed anything since it was last seen: nothing is free until it is there again, or its replica is gone.
   */
  isClaimed(shard: number): boolean {
    for (const neighbour of this.#byName.values()) {
      const { record, owners, isGone } = neighbour
      if (!isGone && owners[shard] !== record.name && !record.draining.includes(shard)) continue
      if (!this.#isDead(neighbour)) return true
    }
    return false
  }

  /** Records of replicas of which nothing can be under way any more. */
  staleRecords(): StoredRecord[] {
    return [...this.#byName.values()]
      .filter((one) => !one.isGone && (claimsNothing(one.record) ? this.#hasExpired(one) : this.#isDead(one)))
      .map(({ record }) => record)
  }

  #keep(neighbour: Peer): void {
    this.#byName.set(neighbour.record.name, neighbour)
  }

  #hasExpired({ record, seenAt }: Peer): boolean {
    return this.#asOf - seenAt >= record.leaseMs
  }

  #isDead({ record, seenAt }: Peer): boolean {
    return this.#asOf - seenAt >= record.leaseMs + this.#options.drainMs
  }
}

/** Removes records of replicas that are gone for good. Each replica does; one that may not goes on without. */

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

/** Tells people which replicas come, leave and fall silent, and what becomes of their shards. */

export type MembershipChange = {
  before: readonly string[]
  after: readonly string[]
  /** By `before`, and by `after`. */
  ownersBefore: readonly string[]
  owners: readonly string[]
  /** Its Lease has ended, and it has not said that it left. */
  isSilent(name: string): boolean
}

/** @param teller the replica that tells, which says of itself elsewhere that it comes or ends */
export function logMembership(
  teller: Pick<ShardCoordinatorOptions, 'name' | 'times' | 'log'>,
  { before, after, ownersBefore, owners, isSilent }: MembershipChange,
): void {
  const { name: own, times, log } = teller
  if (!before.includes(own) || !after.includes(own)) return
  const gone = before.filter((name) => !after.includes(name))
  for (const replica of gone) {
    const facts = { replica, shards: count(ownersBefore, replica), live: after.length }
    if (isSilent(replica))
      log.warn('Another replica is silent: its shards stand still until nothing of it can be under way', {
        ...facts,
        seconds: times.drainMs / 1000,
      })
    else log.info('Another replica leaves', facts)
  }
  for (const replica of after.filter((name) => !before.includes(name)))
    log.info('Another replica has come', { replica, shards: count(owners, replica), live: after.length })
}

function count(owners: readonly string[], name: string): number {
  return owners.filter((owner) => owner === name).length
}
