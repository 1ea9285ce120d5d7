import { DRAIN_TIMEOUT_MS } from '../../src/webhooks/delivery/engine.ts'
import { ReplicaProcess, type ReplicaWorld } from './replica-process.ts'

const nothing = () => undefined

export type ReplicaOptions = {
  session: string
  lowWater: number
  /** Whether no earlier owner of the shard can have work in progress. */
  isAlone: (shard: number) => boolean
  /** Called if another replica has claimed shards that this one owns. */
  claimedElsewhere: (shards: readonly number[], replica: ReplicaBed) => void
  /** Called if shards were given up although work was in progress, because that took too long. */
  givenUpAnyway: (replica: ReplicaBed) => void
}

/** One of several processes of the delivery engine on one store; a test decides which shards it owns. */
export class ReplicaBed {
  readonly process: ReplicaProcess
  /** Shards that it may work on while its lease is valid. */
  readonly active = new Set<number>()
  /** By shard, until none of its work is in progress. */
  readonly draining = new Map<number, Promise<unknown>>()
  /** By shard, until a start has ended while the lease was valid, or its work has ended. */
  readonly #starting = new Map<number, Promise<unknown>>()
  /** Whether its lease is valid. */
  mayAct = true
  /** When it died, was stopped, or renewed its lease for the last time before it was cut off. */
  goneAt = Number.POSITIVE_INFINITY
  /** Resolves when it is gone. */
  gone = Promise.withResolvers<void>()
  readonly #world: ReplicaWorld
  readonly #options: ReplicaOptions

  constructor(world: ReplicaWorld, options: ReplicaOptions) {
    const { session, lowWater, claimedElsewhere } = options
    this.#world = world
    this.#options = options
    this.process = new ReplicaProcess(world, {
      session,
      lowWater,
      waitScale: 1,
      ownership: {
        owns: (shard) => this.mayAct && this.active.has(shard),
        isAlone: options.isAlone,
        mayAct: () => this.mayAct,
        claimedElsewhere: (shards) => claimedElsewhere(shards, this),
      },
    })
  }

  /** Whether it runs with a lease that is valid and that it can check. */
  get isWell(): boolean {
    return this.process.runs && this.mayAct && !this.process.way.isCut
  }

  kill(now: number): void {
    this.goneAt = Math.min(this.goneAt, now)
    this.mayAct = false
    this.process.kill()
    this.gone.resolve()
  }

  stop(now: number): void {
    if (!this.process.runs) return
    this.goneAt = now
    this.mayAct = false
    this.process.stop()
    this.gone.resolve()
  }

  /** Cuts it off while it runs. @param renewedAt its last renewal */
  cutOff(renewedAt: number): void {
    this.goneAt = renewedAt
    this.process.cutOff()
    this.gone.resolve()
  }

  /**
   * Records a renewal of its lease. Starts in progress are aborted in any case.
   * @param lost shards that other replicas may have owned meanwhile: they are given up
   */
  renewed(lost: readonly number[], isLate: boolean): void {
    if (isLate) this.process.epochs.end(lost)
    const released = this.release([...new Set([...lost, ...this.#starting.keys()])])
    this.#starting.clear()
    released.catch(nothing)
    this.goneAt = Number.POSITIVE_INFINITY
    this.gone = Promise.withResolvers()
    this.mayAct = true
    this.process.parts.engine.wake(this.active)
  }

  /** Resolves when nothing of these shards is in progress; never, if it dies before. */
  async release(shards: readonly number[]): Promise<void> {
    for (const shard of shards) this.active.delete(shard)
    const released = Promise.all(
      shards.map((shard) => {
        const drained = this.#releaseOne(shard)
        this.draining.set(shard, drained)
        return drained.then(() => this.draining.delete(shard))
      }),
    )
    await released
  }

  /** Like the coordinator: a start ends before its work is ended. */
  async #releaseOne(shard: number): Promise<void> {
    const { epochs, parts } = this.process
    const { clock } = this.#world
    const epoch = epochs.current(shard)
    const start = this.#starting.get(shard)
    await start
    const begun = clock.monotonic()
    await parts.takeOver.end(new Set([shard]))
    if (clock.monotonic() - begun >= DRAIN_TIMEOUT_MS) this.#options.givenUpAnyway(this)
    if (this.#starting.get(shard) === start) this.#starting.delete(shard)
    // It may have been taken again since.
    if (epochs.current(shard) === epoch) epochs.end([shard])
  }

  /** @throws Error after an abort or a temporary failure */
  async take(shards: readonly number[], signal: AbortSignal): Promise<void> {
    const set = new Set(shards)
    this.process.epochs.begin(shards)
    const started = this.process.parts.takeOver.start(set, signal)
    // The work of a failed start ends with its shard.
    const ended = started.then(() => {
      if (this.mayAct && !signal.aborted) for (const shard of shards) this.#starting.delete(shard)
    }, nothing)
    for (const shard of shards) this.#starting.set(shard, ended)
    await started
    signal.throwIfAborted()
    if (this.process.isDead) throw new Error('it has died')
    for (const shard of shards) this.active.add(shard)
    this.process.parts.engine.wake(set)
  }
}
