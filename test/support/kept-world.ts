/** Replicas on one store that share the shards among themselves, as in a cluster: a test only says what happens to them. */

import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import { sleep } from '../../src/lib/sleep.ts'
import { readLowWater } from '../../src/webhooks/log/reader.ts'
import { chanceOf } from './chance.ts'
import { FakeClock } from './fake-clock.ts'
import { KeptReplica } from './kept-replica.ts'
import { SYSTEM } from './plane-parts.ts'
import { SharedStore } from './shared-store.ts'

/** Attempts are repeated after a hundredth of the documented wait: each replica renews its lease every two seconds. */
const WAIT_SCALE = 0.01
const LOOK_MS = 250
/** Of what one sends that has trouble. */
const LOST = 0.2
const MOST_START_MS = 3000

export class KeptWorld {
  readonly clock = new FakeClock()
  readonly shared = new SharedStore(this.clock, () => this.living.map(({ process }) => process))
  readonly chance: () => number
  readonly replicas: KeptReplica[] = []
  readonly waitScale = WAIT_SCALE
  readonly calmMs = 60_000
  /** Shards that two drove at a time, in words. */
  readonly violations: string[] = []
  /** Told of each new one. */
  readonly #onReplica: (replica: KeptReplica) => void
  onGivenUpAnyway: (replica: KeptReplica) => void = () => undefined
  /** Told of one whose lease has ended while it runs. */
  onLapse: (replica: KeptReplica) => void = () => undefined

  constructor(seed: number, onReplica: (replica: KeptReplica) => void) {
    this.chance = chanceOf(seed)
    this.#onReplica = onReplica
    void this.#watchShards()
  }

  get running(): KeptReplica[] {
    return this.living.filter(({ process, isLeaving }) => process.runs && !isLeaving)
  }

  get living(): KeptReplica[] {
    return this.replicas.filter(({ process }) => !process.isDead)
  }

  /** Whether everything is at rest, and each shard has one who drives it. */
  get isSettled(): boolean {
    const counts = Array.from({ length: SHARD_COUNT }, (_, shard) => this.ownersOf(shard).length)
    return this.living.every(({ isWell }) => isWell) && counts.every((count) => count === 1)
  }

  ownersOf(shard: number): KeptReplica[] {
    return this.living.filter((replica) => replica.owns(shard))
  }

  async join(name = `replica-${this.replicas.length + 1}`): Promise<KeptReplica> {
    const replica = new KeptReplica(this, {
      name,
      session: `${name}.${this.replicas.length + 1}`,
      lowWater: await readLowWater(this.shared.store, SYSTEM),
      waitScale: WAIT_SCALE,
      givenUpAnyway: (one) => this.onGivenUpAnyway(one),
    })
    this.replicas.push(replica)
    this.#onReplica(replica)
    void this.#watchLease(replica)
    return replica
  }

  async kill(replica: KeptReplica): Promise<void> {
    replica.kill()
    await this.#keepTwo()
  }

  /** It is killed, and starts again under its name. */
  restart(replica: KeptReplica): void {
    replica.isReplaced = true
    replica.kill()
    this.clock.after(Math.floor(this.chance() * MOST_START_MS), () => void this.join(replica.name))
  }

  /** It is told to end. */
  async leave(replica: KeptReplica): Promise<void> {
    replica.leave()
    void replica.left.then(() => replica.kill())
    await this.#keepTwo()
  }

  /** Nothing of it runs for so long. */
  stop({ process }: KeptReplica, ms: number): void {
    process.stop()
    this.clock.after(ms, () => void process.resume())
  }

  /** It runs on, and nothing goes through for so long. */
  cut({ process }: KeptReplica, ms: number): void {
    if (process.way.isCut) return
    process.cutOff()
    this.clock.after(ms, () => void process.reconnect())
  }

  /** Some of what it sends, or of the answers, gets lost for so long. */
  lose({ process: { way } }: KeptReplica, ms: number): void {
    if (way.lost > 0) return
    way.lost = LOST
    this.clock.after(ms, () => {
      way.lost = 0
    })
  }

  async #keepTwo(): Promise<void> {
    if (this.living.filter(({ isLeaving }) => !isLeaving).length < 2) await this.join()
  }

  async #watchLease(replica: KeptReplica): Promise<void> {
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
