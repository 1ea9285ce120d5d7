/**
 * Keeps this replica's part of the shards. Replicas tell each other in records what they give to whom; a shard is begun
 * when this replica's claim to it was published, and a list that was asked for afterwards shows nobody else with one. So of
 * two who want it at a time at least one sees the other's claim, whatever is delayed on the way, and views that differ
 * are settled before anybody begins. Whoever could not renew its record stops; the others wait until it has.
 */

import { InterruptibleSleep, sleep } from '../lib/sleep.ts'
import { assignShards } from './assignment.ts'
import { LeaseValidity, type NameState, SelfLease } from './lease.ts'
import type { ShardOwnership } from './ownership.ts'
import { logMembership, Peers, StaleLeaseCollector } from './peers.ts'
import type { ReplicaRecord, ShardCoordinatorOptions } from './replica-records.ts'

type Start = { abort: AbortController; ended: Promise<void> }

export class ShardCoordinator implements ShardOwnership {
  readonly #options: ShardCoordinatorOptions
  readonly #peers: Peers
  readonly #lease: LeaseValidity
  readonly #pause: InterruptibleSleep
  readonly #settled = Promise.withResolvers<void>()
  /** Resolves when it has joined, and works on everything that is its own by then. */
  readonly settled = this.#settled.promise
  /** Those that this replica works on while its lease is valid. */
  readonly #active = new Set<number>()
  /** Those that it gets ready for. */
  readonly #starting = new Map<number, Start>()
  /** Those that it was working on when its lease ended. */
  readonly #suspended = new Set<number>()
  /** Those that it has given up, and of which something may be under way. */
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

  /** It owns the shard or gets ready to: what is to be done for it is this replica's. */
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

  /** The others wait for what this replica does: its lease is valid, by both clocks. */
  get mayAct(): boolean {
    return this.#lease.isValid
  }

  /** Another process has its name, or had it and may have something under way: this one waits. */
  get isNameTaken(): boolean {
    return this.#name === 'taken'
  }

  /** Joins, and keeps its part until it has left or another one has its name. @param signal gives up at once */
  async run(signal: AbortSignal): Promise<void> {
    const { times, log } = this.#options
    while (!signal.aborted && this.#name !== 'replaced') {
      let pauseMs = times.handoffEveryMs
      try {
        const state = await this.#round()
        if (state === 'left') return
        if (state === 'again') continue
        if (state === 'settled') this.#settled.resolve()
        if (state !== 'pending') pauseMs = times.renewEveryMs
      } catch (error) {
        log.warn('this replica could not renew its part of the shards', { error })
      }
      await this.#pause.sleep(pauseMs, signal)
    }
    this.#hasEnded = true
    this.#release(this.#held())
  }

  /** Gives those of them up that it has, and takes them again if nobody else has them. */
  restart(shards: readonly number[]): void {
    this.#release(shards.filter((shard) => this.holds(shard)))
    this.#pause.wake()
  }

  /** Hands its shards over; `run` ends when nothing of them is under way. */
  leave(): void {
    this.#isLeaving = true
    this.#pause.wake()
  }

  async #round(): Promise<'settled' | 'pending' | 'again' | 'idle' | 'left'> {
    this.#noticeLapse()
    if (this.#selfLease.isInDoubt) await this.#list()
    if (this.#name !== 'ours') return this.#isLeaving ? 'left' : 'idle'
    await this.#publish()
    await this.#list()
    if (this.#updateView()) return 'again'
    if (this.#isLeaving && this.#selfLease.published?.draining.length === 0) return 'left'
    this.#acquire()
    await this.#staleLeases.collect(this.#peers.staleRecords())
    const isPending =
      !this.#hasJoined || this.#draining.size > 0 || this.#mine().some((shard) => !this.#active.has(shard))
    return isPending ? 'pending' : 'settled'
  }

  /** From then on the others may have thought that it is gone. */
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
    this.#nameIs(this.#selfLease.observe(found, asked))
    // What the one before under this name claimed is this one's already.
    if (this.#name === 'ours')
      this.#hasJoined ||= found.some((one) => one.name === name && one.view.length > 0)
  }

  #nameIs(state: NameState): void {
    const { name, onReplaced, log } = this.#options
    if (state !== this.#name && state !== 'ours')
      log.error('another process has the name of this replica', { name, waits: state === 'taken' })
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
    // So long after the renewal before, somebody may have had them and given them back.
    if (this.#lease.ageMs >= times.leaseMs + times.drainMs) {
      this.#options.epochs.endAll()
      this.#release([...this.#suspended])
    }
    this.#lease.renewed(asked)
  }

  #record(): ReplicaRecord {
    const { name, session, times } = this.#options
    const draining = [...this.#draining].sort((a, b) => a - b)
    return { name, session, view: this.#view, draining, leaseMs: times.leaseMs }
  }

  /** @returns whether there is another view to publish */
  #updateView(): boolean {
    const { name } = this.#options
    // What is dead is counted out by whoever has known it for longest: a newcomer would begin to count for its part of it.
    this.#hasJoined ||= !this.#peers.hasUnverifiedClaim
    const view = this.#hasJoined && !this.#isLeaving ? this.#members() : []
    if (view.join() === this.#view.join()) return false
    this.#viewIs(view)
    this.#release(this.#held().filter((shard) => this.#owners[shard] !== name))
    return true
  }

  #viewIs(after: readonly string[]): void {
    const [before, ownersBefore] = [this.#view, this.#owners]
    this.#view = after
    this.#owners = assignShards(after, this.#options.shards)
    const isSilent = (other: string) => this.#peers.isSilent(other)
    logMembership(this.#options, { before, after, ownersBefore, owners: this.#owners, isSilent })
  }

  /** Whoever is one too many stands by, and has no part in it until somebody goes. */
  #members(): string[] {
    const { name, maxMembers } = this.#options
    const others = this.#peers.members()
    if (this.#view.length === 0 && others.length >= maxMembers) return []
    const members = [name, ...others].sort().slice(0, maxMembers)
    return members.includes(name) ? members : []
  }

  #acquire(): void {
    const free = this.#mine().filter(
      (shard) =>
        !this.#active.has(shard) &&
        !this.#starting.has(shard) &&
        !this.#draining.has(shard) &&
        !this.#peers.isClaimed(shard),
    )
    const resumed = free.filter((shard) => this.#suspended.delete(shard))
    for (const shard of resumed) this.#active.add(shard)
    if (resumed.length > 0) this.#options.work.owned(resumed)
    this.#start(free.filter((shard) => !this.#active.has(shard)))
  }

  #start(shards: readonly number[]): void {
    if (shards.length === 0) return
    const { work, log, epochs } = this.#options
    epochs.begin(shards)
    const abort = new AbortController()
    const start = { abort, ended: Promise.resolve() }
    for (const shard of shards) this.#starting.set(shard, start)
    const end = (isReady: boolean) => {
      const left = shards.filter((shard) => this.#starting.get(shard) === start)
      for (const shard of left) {
        this.#starting.delete(shard)
        if (isReady) this.#active.add(shard)
      }
      if (isReady && left.length > 0) work.owned(left)
      this.#pause.wake()
    }
    start.ended = work.start(shards, abort.signal).then(
      () => end(true),
      (error) => {
        if (!abort.signal.aborted)
          log.warn('shards could not be taken over', { error, shards: shards.length })
        // Whatever it has begun is ended before anybody begins it again, this replica or another one; also of those
        // beside which others were given up.
        this.#release(shards.filter((shard) => this.#starting.get(shard) === start))
        end(false)
      },
    )
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

  /** What is not known to be over is not given to anybody: until it is, or this replica's lease has ended. */
  async #stop(shard: number): Promise<void> {
    const { work, log, clock, times } = this.#options
    for (;;) {
      try {
        return await work.stop(shard)
      } catch (error) {
        log.error('a shard could not be handed over yet', { error, shard })
        if (this.#hasEnded) return
        await sleep(clock, times.renewEveryMs)
      }
    }
  }

  #held(): number[] {
    return [...this.#active, ...this.#suspended, ...this.#starting.keys()]
  }

  #mine(): number[] {
    const { name } = this.#options
    return this.#owners.flatMap((owner, shard) => (owner === name ? [shard] : []))
  }
}
