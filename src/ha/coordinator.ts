/**
 * Acquires and releases this replica's shards. A shard is started once this replica's claim to it is published and a list that was
 * requested after that shows no other live claim. So if two replicas want it at once, at least one of them sees the other's claim, however
 * calls are delayed. A replica that cannot renew its record stops, and the others start its shards; what must not overlap with its last
 * work waits until that has certainly ended. README.md explains the protocol.
 */

import type { Logger } from '../lib/log.ts'
import { type Clock, InterruptibleSleep, sleep } from '../lib/time.ts'
import { assignShards } from './assignment.ts'
import { LeaseValidity, type NameState, SelfLease } from './own-lease.ts'
import type { OwnershipEpochs, ShardOwnership } from './ownership.ts'
import { logMembership, Peers, StaleLeaseCollector } from './peer-liveness.ts'
import type { ReplicaRecord, ReplicaRecords, ShardTimes, StoredRecord } from './replica-leases.ts'

export type ShardWork = {
  /** Prepares work on the shards, which are owned when it resolves. When it rejects, it is called again later. */
  start(shards: readonly number[], signal: AbortSignal): Promise<void>
  /** Verifies that no other replica took the shards over while the lease could not be renewed. When it rejects, they are released. */
  confirm(shards: readonly number[], signal: AbortSignal): Promise<void>
  /** The shards are owned from now on, or again after the lease could not be renewed for a while. */
  owned(shards: readonly number[]): void
  /** No earlier owner of these shards, which are owned, can have work in progress any more. */
  ownedAlone(shards: readonly number[]): void
  /** The shard is no longer owned. Resolves when no work of it is in progress. */
  stop(shard: number): Promise<void>
}

export type ShardCoordinatorOptions = {
  name: string
  /**
   * True if the previous process with the name is dead when a new one gets it. Otherwise a record under the own name is waited for like
   * that of any other replica.
   */
  isNameExclusive: boolean
  /** Names this start of the replica; no other has it. */
  session: string
  shards: number
  /** Replicas that get shards; the rest stand by. */
  maxMembers: number
  times: ShardTimes
  records: ReplicaRecords
  epochs: OwnershipEpochs
  work: ShardWork
  clock: Clock
  log: Logger
  /** Called when another process has this replica's name: this one may do nothing more. */
  onReplaced: () => void
}

type Start = { abort: AbortController; ended: Promise<void> }

export class ShardCoordinator implements ShardOwnership {
  readonly #options: ShardCoordinatorOptions
  readonly #peers: Peers
  readonly #lease: LeaseValidity
  readonly #pause: InterruptibleSleep
  readonly #settled = Promise.withResolvers<void>()
  /** Resolves when it has joined and works on all of its shards. */
  readonly settled = this.#settled.promise
  /** The shards that it works on while its lease is valid. */
  readonly #active = new Set<number>()
  /** Those that are being prepared. */
  readonly #starting = new Map<number, Start>()
  /** Those that it worked on when its lease expired. */
  readonly #suspended = new Set<number>()
  /** Of those, the ones that another replica may have taken over since. */
  readonly #doubtful = new Set<number>()
  /** Those that it has, or prepares, and in which no earlier owner can have work in progress. */
  readonly #alone = new Set<number>()
  /** Those that it gave up and that may have work in progress. */
  readonly #draining = new Set<number>()
  #view: readonly string[] = []
  #owners: readonly string[] = []
  readonly #selfLease: SelfLease
  #name: NameState = 'ours'
  #hasJoined = false
  #isLeaving = false
  readonly #staleLeases: StaleLeaseCollector
  #hasEnded = false

  constructor(options: ShardCoordinatorOptions) {
    const { name, shards, times, clock } = options
    this.#options = options
    this.#peers = new Peers({ name, shards, drainMs: times.drainMs })
    this.#selfLease = new SelfLease(options)
    this.#staleLeases = new StaleLeaseCollector({ ...options, againMs: times.leaseMs })
    this.#lease = new LeaseValidity(clock, times.holdsMs)
    this.#pause = new InterruptibleSleep(clock)
  }

  owns(shard: number): boolean {
    return this.#active.has(shard) && this.#lease.isValid
  }

  isAlone(shard: number): boolean {
    return this.#alone.has(shard)
  }

  /** The watch of Leases has shown a record: a hint to look at once, and from when on that lease is timed. */
  hear(record: StoredRecord): void {
    if (this.#peers.hear(record, this.#options.clock.monotonic())) this.#pause.wake()
  }

  /** The watch of Leases has shown that a record was deleted. */
  hearRemoval(): void {
    this.#pause.wake()
  }

  /** It owns the shard or prepares to. */
  holds(shard: number): boolean {
    return this.#active.has(shard) || this.#suspended.has(shard) || this.#starting.has(shard)
  }

  get owned(): number {
    return this.#lease.isValid ? this.#active.size : 0
  }

  /** Milliseconds since its lease was renewed. */
  get leaseAgeMs(): number {
    return this.#lease.ageMs
  }

  /** The lease is valid by both clocks, so the others wait for this replica. */
  get mayAct(): boolean {
    return this.#lease.isValid
  }

  /** Another process has its name, or had it and may have work in progress: this one waits. */
  get isNameTaken(): boolean {
    return this.#name === 'taken'
  }

  /** Joins and keeps its share until it has left or another process has its name. @param signal ends it at once */
  async run(signal: AbortSignal): Promise<void> {
    const { times, log } = this.#options
    while (!signal.aborted && this.#name !== 'replaced') {
      let pauseMs = times.retryEveryMs
      try {
        const state = await this.#round()
        if (state === 'left') return
        if (state === 'again') continue
        if (state === 'settled') this.#settled.resolve()
        pauseMs = this.#nextRoundInMs()
      } catch (error) {
        log.warn('shard_renewal_failed', 'failed to renew the shards of this replica; retrying', { error })
      }
      await this.#pause.sleep(pauseMs, signal)
    }
    this.#hasEnded = true
    this.#release(this.#held())
  }

  /** Releases those of the shards that it has, and re-acquires them if no other replica claims them. */
  restart(shards: readonly number[]): void {
    this.#release(shards.filter((shard) => this.holds(shard)))
    this.#pause.wake()
  }

  /** Hands its shards over; `run` resolves when no work is in progress. */
  leave(): void {
    this.#isLeaving = true
    this.#pause.wake()
  }

  async #round(): Promise<'settled' | 'pending' | 'again' | 'left'> {
    this.#noticeLapse()
    if (this.#selfLease.isInDoubt) await this.#list()
    if (this.#name !== 'ours') return this.#isLeaving ? 'left' : 'pending'
    await this.#publish()
    await this.#list()
    if (this.#updateView()) return 'again'
    if (this.#isLeaving && this.#selfLease.published?.draining.length === 0) return 'left'
    this.#acquire()
    this.#noteAlone()
    await this.#staleLeases.collect(this.#peers.staleRecords())
    const isPending =
      !this.#hasJoined ||
      this.#draining.size > 0 ||
      this.#assigned().some((shard) => !this.#active.has(shard))
    return isPending ? 'pending' : 'settled'
  }

  /** Renews in time, and looks when a lease of another replica runs out; the watch ends the wait when one changes. */
  #nextRoundInMs(): number {
    const { clock, times } = this.#options
    return Math.max(0, Math.min(times.renewEveryMs, this.#peers.changesAt - clock.monotonic()))
  }

  /** When the lease has expired, the others may consider this replica dead. */
  #noticeLapse(): void {
    if (this.#lease.isValid) return
    for (const shard of this.#active) this.#suspended.add(shard)
    this.#active.clear()
    this.#release([...this.#starting.keys()])
  }

  async #list(): Promise<void> {
    const { records, clock, name } = this.#options
    const asked = clock.monotonic()
    const found = await records.list()
    this.#peers.update(found, asked, clock.monotonic())
    if (!this.#selfLease.isInDoubt) return
    this.#setNameState(this.#selfLease.observe(found, asked))
    // The claims of the previous process with this name are this one's already.
    if (this.#name === 'ours')
      this.#hasJoined ||= found.some((one) => one.name === name && one.view.length > 0)
  }

  #setNameState(state: NameState): void {
    const { name, onReplaced, log } = this.#options
    if (state !== this.#name && state !== 'ours')
      log.error('replica_name_conflict', 'another process uses the name of this replica', {
        name,
        waits: state === 'taken',
      })
    this.#name = state
    if (state === 'replaced') onReplaced()
  }

  async #publish(): Promise<void> {
    const { times } = this.#options
    const record = this.#record()
    if (this.#selfLease.matches(record) && this.#lease.ageMs < times.renewEveryMs) return
    const asked = this.#lease.moment()
    await this.#selfLease.write(record)
    this.#noticeLapse()
    // After so long another replica may have taken the suspended shards over, and released them again.
    if (this.#lease.ageMs >= times.keepsMs) {
      for (const shard of this.#suspended) this.#doubtful.add(shard)
      this.#options.epochs.doubt([...this.#suspended], true)
    }
    this.#lease.renewed(asked)
  }

  #record(): ReplicaRecord {
    const { name, session, times } = this.#options
    const draining = [...this.#draining].sort((a, b) => a - b)
    return { name, session, view: this.#view, draining, leaseMs: times.leaseMs }
  }

  /** @returns whether a new view is to be published */
  #updateView(): boolean {
    const { name } = this.#options
    // A newcomer would time dead replicas from the start again; the others have timed them for longer.
    this.#hasJoined ||= !this.#peers.hasUnverifiedClaim
    const view = this.#hasJoined && !this.#isLeaving ? this.#members() : []
    if (view.join() === this.#view.join()) return false
    this.#setView(view)
    this.#release(this.#held().filter((shard) => this.#owners[shard] !== name))
    return true
  }

  #setView(after: readonly string[]): void {
    const [before, ownersBefore] = [this.#view, this.#owners]
    this.#view = after
    this.#owners = assignShards(after, this.#options.shards)
    const isSilent = (other: string) => this.#peers.isSilent(other)
    logMembership(this.#options, { before, after, ownersBefore, owners: this.#owners, isSilent })
  }

  /** Replicas beyond `maxMembers` stand by until a member leaves. */
  #members(): string[] {
    const { name, maxMembers } = this.#options
    const others = this.#peers.members()
    if (this.#view.length === 0 && others.length >= maxMembers) return []
    const members = [name, ...others].sort().slice(0, maxMembers)
    return members.includes(name) ? members : []
  }

  #acquire(): void {
    const free = this.#assigned().filter(
      (shard) =>
        !this.#active.has(shard) &&
        !this.#starting.has(shard) &&
        !this.#draining.has(shard) &&
        this.#peers.claimOf(shard) !== 'live',
    )
    const resumed = free.filter((shard) => this.#suspended.delete(shard))
    this.#own(resumed.filter((shard) => !this.#doubtful.has(shard)))
    this.#confirm(resumed.filter((shard) => this.#doubtful.has(shard)))
    this.#start(free.filter((shard) => !resumed.includes(shard)))
  }

  #own(shards: readonly number[]): void {
    if (shards.length === 0) return
    const { work, epochs } = this.#options
    for (const shard of shards) this.#active.add(shard)
    epochs.doubt(
      shards.filter((shard) => this.#doubtful.delete(shard)),
      false,
    )
    work.owned(shards)
    const alone = shards.filter((shard) => this.#alone.has(shard))
    if (alone.length > 0) work.ownedAlone(alone)
  }

  /** Shards whose earlier owner has meanwhile certainly ended its work. */
  #noteAlone(): void {
    const isNew = (shard: number) => !this.#alone.has(shard) && this.#peers.claimOf(shard) === 'none'
    const alone = [...this.#active].filter(isNew)
    for (const shard of alone) this.#alone.add(shard)
    if (alone.length > 0) this.#options.work.ownedAlone(alone)
  }

  #start(shards: readonly number[]): void {
    if (shards.length === 0) return
    const { work, log, epochs } = this.#options
    epochs.begin(shards)
    for (const shard of shards) if (this.#peers.claimOf(shard) === 'none') this.#alone.add(shard)
    this.#prepare(
      shards,
      (signal) => work.start(shards, signal),
      (error) =>
        log.warn('shard_start_failed', 'failed to take over shards; retrying', {
          error,
          shards: shards.length,
        }),
    )
  }

  /** Continues with shards after a lapse in which another replica may have taken them over, unless one has. */
  #confirm(shards: readonly number[]): void {
    if (shards.length === 0) return
    const { work, log } = this.#options
    this.#prepare(
      shards,
      (signal) => work.confirm(shards, signal),
      (error) =>
        log.info('shards_lost', 'another replica may have taken shards over; acquiring them again', {
          error,
          shards: shards.length,
        }),
    )
  }

  #prepare(
    shards: readonly number[],
    run: (signal: AbortSignal) => Promise<void>,
    onFailure: (error: unknown) => void,
  ): void {
    const abort = new AbortController()
    const start = { abort, ended: Promise.resolve() }
    for (const shard of shards) this.#starting.set(shard, start)
    const left = () => shards.filter((shard) => this.#starting.get(shard) === start)
    start.ended = run(abort.signal)
      .then(
        () => {
          const ready = left()
          for (const shard of ready) this.#starting.delete(shard)
          this.#own(ready)
        },
        (error) => {
          if (!abort.signal.aborted) onFailure(error)
          // Everything that it started must end before the shards are started again, by this replica or another one. That includes
          // shards that failed only because others of the same start were released.
          this.#release(left())
        },
      )
      .then(() => this.#pause.wake())
  }

  #release(shards: readonly number[]): void {
    if (shards.length === 0) return
    const starts = new Set<Start>()
    for (const shard of shards) {
      const start = this.#starting.get(shard)
      if (start) starts.add(start)
      this.#starting.delete(shard)
      this.#active.delete(shard)
      this.#suspended.delete(shard)
      if (this.#doubtful.delete(shard)) this.#options.epochs.end([shard])
      this.#alone.delete(shard)
      this.#draining.add(shard)
    }
    for (const shard of shards) void this.#drain(shard, starts)
  }

  async #drain(shard: number, starts: ReadonlySet<Start>): Promise<void> {
    for (const { abort, ended } of starts) {
      abort.abort()
      await ended
    }
    await this.#stop(shard)
    this.#options.epochs.end([shard])
    this.#draining.delete(shard)
    this.#pause.wake()
  }

  /** Retries until the work has ended: until then, or until this replica's lease has expired, no other replica gets the shard. */
  async #stop(shard: number): Promise<void> {
    const { work, log, clock, times } = this.#options
    for (;;) {
      try {
        return await work.stop(shard)
      } catch (error) {
        log.error('shard_release_failed', 'failed to release a shard; retrying', { error, shard })
        if (this.#hasEnded) return
        await sleep(clock, times.renewEveryMs)
      }
    }
  }

  #held(): number[] {
    return [...this.#active, ...this.#suspended, ...this.#starting.keys()]
  }

  #assigned(): number[] {
    const { name } = this.#options
    return this.#owners.flatMap((owner, shard) => (owner === name ? [shard] : []))
  }
}
