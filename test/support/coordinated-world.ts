/** Replicas on one store that share the shards among themselves, as in a cluster: a test only decides what happens to them. */

import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import { sleep } from '../../src/lib/time.ts'
import { readLowWater } from '../../src/webhooks/log/read-back.ts'
import { chanceOf } from './chance.ts'
import { CoordinatedReplica } from './coordinated-replica.ts'
import { FakeClock } from './fake-clock.ts'
import { logOn } from './log-on.ts'
import { SharedStore } from './shared-store.ts'

/** Attempts are retried after a hundredth of the documented wait: each replica renews its lease every two seconds. */
const WAIT_SCALE = 0.01
const LOOK_MS = 250
/** Lost share of the calls of a replica in trouble. */
const LOST = 0.2
const MOST_START_MS = 3000

export class CoordinatedWorld {
  readonly clock = new FakeClock()
  readonly shared = new SharedStore(this.clock, () => this.living.map(({ process }) => process))
  readonly chance: () => number
  readonly replicas: CoordinatedReplica[] = []
  readonly waitScale = WAIT_SCALE
  readonly calmMs = 60_000
  /** Describes shards that had two owners at a time. */
  readonly violations: string[] = []
  /** Called for each new replica. */
  readonly #onReplica: (replica: CoordinatedReplica) => void
  onGivenUpAnyway: (replica: CoordinatedReplica) => void = () => undefined
  /** Called for a replica whose lease has ended while it runs. */
  onLapse: (replica: CoordinatedReplica) => void = () => undefined

  constructor(seed: number, onReplica: (replica: CoordinatedReplica) => void) {
    this.chance = chanceOf(seed)
    this.#onReplica = onReplica
    void this.#watchShards()
  }

  get running(): CoordinatedReplica[] {
    return this.living.filter(({ process, isLeaving }) => process.runs && !isLeaving)
  }

  get living(): CoordinatedReplica[] {
    return this.replicas.filter(({ process }) => !process.isDead)
  }

  /** Whether nothing is in progress, and each shard has an owner. */
  get isSettled(): boolean {
    const counts = Array.from({ length: SHARD_COUNT }, (_, shard) => this.ownersOf(shard).length)
    return this.living.every(({ isWell }) => isWell) && counts.every((count) => count === 1)
  }

  ownersOf(shard: number): CoordinatedReplica[] {
    return this.living.filter((replica) => replica.owns(shard))
  }

  async join(name = `replica-${this.replicas.length + 1}`): Promise<CoordinatedReplica> {
    const replica = new CoordinatedReplica(this, {
      name,
      session: `${name}.${this.replicas.length + 1}`,
      lowWater: await readLowWater(logOn(this.shared.store, this)),
      waitScale: WAIT_SCALE,
      givenUpAnyway: (one) => this.onGivenUpAnyway(one),
    })
    this.replicas.push(replica)
    this.#onReplica(replica)
    void this.#watchLease(replica)
    return replica
  }

  async kill(replica: CoordinatedReplica): Promise<void> {
    replica.kill()
    await this.#keepTwo()
  }

  /** Kills the replica and starts it again with its name. */
  restart(replica: CoordinatedReplica): void {
    replica.isReplaced = true
    replica.kill()
    this.clock.after(Math.floor(this.chance() * MOST_START_MS), () => void this.join(replica.name))
  }

  /** Asks the replica to end. */
  async leave(replica: CoordinatedReplica): Promise<void> {
    replica.leave()
    void replica.left.then(() => replica.kill())
    await this.#keepTwo()
  }

  /** Suspends the replica for this time. */
  stop({ process }: CoordinatedReplica, ms: number): void {
    process.stop()
    this.clock.after(ms, () => void process.resume())
  }

  /** Cuts the replica off for this time; it keeps running. */
  cut({ process }: CoordinatedReplica, ms: number): void {
    if (process.way.isCut) return
    process.cutOff()
    this.clock.after(ms, () => void process.reconnect())
  }

  /** Loses some of its calls or their answers for this time. */
  lose({ process: { way } }: CoordinatedReplica, ms: number): void {
    if (way.lost > 0) return
    way.lost = LOST
    this.clock.after(ms, () => {
      way.lost = 0
    })
  }

  async #keepTwo(): Promise<void> {
    if (this.living.filter(({ isLeaving }) => !isLeaving).length < 2) await this.join()
  }

  async #watchLease(replica: CoordinatedReplica): Promise<void> {
    let mightAct = false
    while (!replica.process.isDead) {
      if (mightAct && !replica.mayAct) this.onLapse(replica)
      mightAct = replica.mayAct
      await sleep(this.clock, LOOK_MS)
    }
  }

  async #watchShards(): Promise<void> {
    for (;;) {
      await sleep(this.clock, LOOK_MS)
      for (let shard = 0; shard < SHARD_COUNT; shard += 1) {
        const owners = this.ownersOf(shard).map(({ process }) => process.session)
        if (owners.length > 1) this.violations.push(`shard ${shard} is driven by ${owners.join(' and ')}`)
      }
    }
  }
}
