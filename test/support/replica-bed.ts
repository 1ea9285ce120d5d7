import { DRAIN_TIMEOUT_MS } from '../../src/webhooks/delivery/engine.ts'
import { ReplicaProcess, type ReplicaWorld } from './replica-process.ts'

const nothing = () => undefined

export type ReplicaOptions = {
  session: string
  lowWater: number
  /** Somebody else has claimed shards that this replica drives. */
  claimedElsewhere: (shards: readonly number[], replica: ReplicaBed) => void
  /** It has given shards up though something of them was under way, since that took too long. */
  givenUpAnyway: (replica: ReplicaBed) => void
}

/** One of several processes of the delivery engine on one store; which shards it has, a test says. */
export class ReplicaBed {
  readonly process: ReplicaProcess
  /** Shards that it may work on while its lease is valid. */
  readonly active = new Set<number>()
  /** By shard, until nothing of it is under way any more. */
  readonly draining = new Map<number, Promise<unknown>>()
  /** By shard, until a start of it has ended while the lease was valid, or what it has begun was ended. */
  readonly #starting = new Map<number, Promise<unknown>>()
  /** Its lease is valid. */
  mayAct = true
  /** When it died, was stopped, or has renewed its lease for the last time before it was cut off. */
  goneAt = Number.POSITIVE_INFINITY
  /** Resolves when it is. */
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
        mayAct: () => this.mayAct,
        claimedElsewhere: (shards) => claimedElsewhere(shards, this),
      },
    })
  }

  /** It runs, and its lease is valid, and it can tell so. */
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

  /** It runs, and nothing that it says or hears goes through. @param renewedAt its last renewal */
  cutOff(renewedAt: number): void {
    this.goneAt = renewedAt
    this.process.cutOff()
    this.gone.resolve()
  }

  /**
   * It has renewed its lease. What it was about to take is given up in any case.
   * @param lost shards that the others may have had meanwhile: they are given up
   */
  renewed(lost: readonly number[], isLate: boolean): void {
    if (isLate) this.process.epochs.endAll()
    const released = this.release([...new Set([...lost, ...this.#starting.keys()])])
    this.#starting.clear()
    released.catch(nothing)
    this.goneAt = Number.POSITIVE_INFINITY
    this.gone = Promise.withResolvers()
    this.mayAct = true
    this.process.parts.engine.wake(this.active)
  }

  /** Resolves when nothing of these shards is under way; never, if it dies before. */
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

  /** As the keeper of shards: a start ends before what it has begun is ended. */
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

  /** @throws Error when given up, and what may pass by itself */
  async take(shards: readonly number[], signal: AbortSignal): Promise<void> {
    const set = new Set(shards)
    this.process.epochs.begin(shards)
    const started = this.process.parts.takeOver.start(set, signal)
    // What a start that failed has begun is ended with its shard.
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
