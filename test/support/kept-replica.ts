import type { ResourceType } from '../../src/api/meta.ts'
import { LeaseRecords } from '../../src/controllers/replicas/lease-records.ts'
import { SHARDS } from '../../src/domain/shard.ts'
import type { RawObject } from '../../src/ports/kubernetes.ts'
import { ShardKeeper } from '../../src/runtime/shards/shard-keeper.ts'
import { shardTimes } from '../../src/runtime/shards/shard-times.ts'
import type { ShardWork } from '../../src/runtime/shards/shard-work.ts'
import { SYSTEM } from './plane-parts.ts'
import { ReplicaProcess, type ReplicaWorld } from './replica-process.ts'

export type KeptReplicaOptions = {
  name: string
  session: string
  lowWater: number
  waitScale: number
  /** It has given a shard up though something of it was under way, since that took too long. */
  givenUpAnyway: (replica: KeptReplica) => void
}

const MOST_MEMBERS = 64
const DRAIN_MS = 21_000
export const TIMES = shardTimes(9000, DRAIN_MS)
/** What is under way of a shard that is given up is waited for so long. */
const LONGEST_WAIT_MS = 20_000

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** One of several processes of the delivery engine on one store, with the keeper of shards and the Lease that it runs with. */
export class KeptReplica {
  readonly name: string
  readonly #process: ReplicaProcess
  readonly #keeper: ShardKeeper
  readonly #gone = new AbortController()
  readonly #givenUpAnyway: (replica: KeptReplica) => void
  /** It was told to end. */
  isLeaving = false
  /** Resolves when it has handed everything over, or another one has its name. */
  readonly left: Promise<void>

  constructor(world: ReplicaWorld, { name, givenUpAnyway, ...options }: KeptReplicaOptions) {
    this.name = name
    this.#givenUpAnyway = givenUpAnyway
    // While it reads what there is it has no shards.
    const kept = (): ShardKeeper | undefined => this.#keeper
    this.#process = new ReplicaProcess(world, {
      ...options,
      ownership: {
        owns: (shard) => kept()?.owns(shard) ?? false,
        mayAct: () => kept()?.mayAct ?? false,
        claimedElsewhere: (shards) => kept()?.restart(shards),
      },
    })
    const { api, clock, tenures, session } = this.#process
    this.#keeper = new ShardKeeper({
      name,
      isNameOwn: true,
      session,
      shards: SHARDS,
      maxMembers: MOST_MEMBERS,
      times: TIMES,
      records: new LeaseRecords({
        resources: api,
        namespace: SYSTEM,
        role: 'controller',
        clock,
        deadlineMs: TIMES.renewEveryMs,
        onSetBack: () => this.complaints.push('failed: the store is said to be older than it was'),
      }),
      tenures,
      work: this.#work(),
      clock,
      log: quiet,
      onReplaced: () => this.kill(),
    })
    this.left = this.#keeper.run(this.#gone.signal)
  }

  get session() {
    return this.#process.session
  }

  get parts() {
    return this.#process.parts
  }

  get sender() {
    return this.#process.sender
  }

  get complaints() {
    return this.#process.complaints
  }

  get isDead(): boolean {
    return this.#process.isDead
  }

  get runs(): boolean {
    return this.#process.runs
  }

  /** Its lease is valid. */
  get mayAct(): boolean {
    return this.#keeper.mayAct
  }

  /** It runs, its lease is valid, and it can tell so. */
  get isWell(): boolean {
    return this.runs && this.mayAct && !this.#process.way.isCut
  }

  owns(shard: number): boolean {
    return this.runs && this.#keeper.owns(shard)
  }

  changed(type: ResourceType, raw: RawObject): void {
    this.#process.changed(type, raw)
  }

  kill(): void {
    this.#process.kill()
    this.#gone.abort()
  }

  leave(): void {
    this.isLeaving = true
    this.#keeper.leave()
  }

  stop(): void {
    this.#process.stop()
  }

  resume(): Promise<void> {
    return this.#process.resume()
  }

  cutOff(): void {
    this.#process.cutOff()
  }

  reconnect(): Promise<void> {
    return this.#process.reconnect()
  }

  /** @param part of its calls, or of their answers, that are lost */
  lose(part: number): void {
    this.#process.way.lost = part
  }

  #work(): ShardWork {
    const { parts, clock } = this.#process
    return {
      start: async (shards, signal) => void (await parts.takeOver.start(new Set(shards), signal)),
      owned: (shards) => parts.plane.wake(new Set(shards)),
      stop: async (shard) => {
        const begun = clock.monotonic()
        await parts.takeOver.end(new Set([shard]))
        if (clock.monotonic() - begun >= LONGEST_WAIT_MS) this.#givenUpAnyway(this)
      },
    }
  }
}
