/** Plays one history of a simulated world of replicas: troubles, then a rest in which everything must settle. */
import { chanceOf } from './chance.ts'
import { OrderedWork } from './ordered-work.ts'
import { type Replica, SHARDS, SimulatedRecords, startReplica, TIMES } from './shard-world.ts'
import { SimulatedTime } from './simulated-time.ts'

export type Trouble = {
  afterMs: number
  kind:
    | 'kill'
    | 'restart'
    | 'twin'
    | 'stop'
    | 'leave'
    | 'join'
    | 'cut'
    | 'outage'
    | 'losses'
    | 'clock'
    | 'removal'
  /** Duration in milliseconds. */
  ms: number
}

export type Played = {
  wrong: string[]
  /** Shards without an owner, or with several, at the end. */
  unowned: number[]
  attempts: number
  repeated: number
  /** Milliseconds without an owner of some shard: the longest period, and the total after all troubles. */
  unownedMs: number
  settledAfterMs: number
}

/** Interval of the checks for owners. */
const LOOK_EVERY_MS = 100
/** Time in which new replicas find each other. */
const BEGIN_MS = 5000
/** A replica waits for the lease and the work in progress of one that is gone; some calls take seconds. */
const REST_MS = TIMES.leaseMs + TIMES.drainMs + 40_000
const MOST_REPLICAS = 6
/** Time after which a leaving replica is killed. */
const GRACE_MS = 30_000
const LASTING: ReadonlySet<Trouble['kind']> = new Set(['stop', 'cut', 'outage', 'losses', 'restart'])

export async function playShards(plan: {
  seed: number
  troubles: readonly Trouble[]
  replicas: number
  /** Whether no replica starts with the name of a living one. */
  areNamesOwn: boolean
  /** Whether nothing goes wrong except the troubles. */
  isCalm?: boolean
}): Promise<Played> {
  const world = new World(plan.seed, plan.areNamesOwn)
  if (plan.isCalm) world.records.calm()
  for (let n = 0; n < plan.replicas; n += 1) world.join()
  await world.time.runUntil(BEGIN_MS)
  world.watchOwners()
  for (const trouble of plan.troubles) {
    await world.time.runUntil(world.time.now + trouble.afterMs)
    world.suffer(trouble)
  }
  await world.time.runUntil(world.time.now + 60_000)
  world.calm()
  if (world.living().length === 0) world.join()
  await world.time.runUntil(world.time.now + REST_MS)
  const shards = Array.from({ length: SHARDS }, (_, shard) => shard)
  const { wrong, attempts, repeated } = world.work
  const unowned = shards.filter(
    (shard) => world.living().filter(({ coordinator }) => coordinator.owns(shard)).length !== 1,
  )
  const { unownedMs, settledAfterMs } = world
  return { wrong, unowned, attempts, repeated, unownedMs, settledAfterMs }
}

class World {
  readonly time = new SimulatedTime()
  readonly chance: { fraction(): number }
  readonly records: SimulatedRecords
  readonly work: OrderedWork
  readonly #areNamesOwn: boolean
  #replicas: Replica[] = []
  #sessions = 0
  /**
   * A new replica cannot know of a record that was removed by hand: handling that is out of scope until the record exists again,
   * or the work behind it is over.
   */
  #joinsBlockedUntil = 0
  #lastCame = 0
  /** End of the last trouble. */
  #quietAt = 0
  /** By shard, since when it has no owner. */
  readonly #unownedSince = new Map<number, number>()
  #longestUnownedMs = 0
  #lastUnownedAt = 0
  /** A replica without news for long does not know either whose record was removed. */
  #allHearAgain = 0

  constructor(seed: number, areNamesOwn: boolean) {
    this.#areNamesOwn = areNamesOwn
    this.chance = { fraction: chanceOf(seed) }
    this.records = new SimulatedRecords(this.time, this.chance)
    this.work = new OrderedWork(this.time, this.chance, SHARDS)
  }

  living(): Replica[] {
    return this.#replicas.filter(({ clock }) => !clock.isDead)
  }

  /** Ends all troubles. */
  calm(): void {
    this.records.calm()
    this.#quietAt = Math.max(this.#quietAt, this.time.now)
  }

  get unownedMs(): number {
    return this.#longestUnownedMs
  }

  get settledAfterMs(): number {
    return Math.max(0, this.#lastUnownedAt - this.#quietAt)
  }

  watchOwners(): void {
    const { now } = this.time
    const living = this.living()
    for (let shard = 0; shard < SHARDS; shard += 1) {
      if (living.some(({ coordinator }) => coordinator.owns(shard))) {
        this.#unownedSince.delete(shard)
        continue
      }
      const since = this.#unownedSince.get(shard) ?? now
      this.#unownedSince.set(shard, since)
      this.#longestUnownedMs = Math.max(this.#longestUnownedMs, now - since + LOOK_EVERY_MS)
      this.#lastUnownedAt = now
    }
    this.time.at(LOOK_EVERY_MS, () => this.watchOwners())
  }

  join(name?: string): void {
    if (this.living().length >= MOST_REPLICAS) return
    const wait = this.#joinsBlockedUntil - this.time.now
    if (wait > 0) {
      this.#quietAt = Math.max(this.#quietAt, this.#joinsBlockedUntil)
      this.time.at(wait, () => this.join(name))
      return
    }
    this.#lastCame = this.time.now
    this.#sessions += 1
    const session = `s${this.#sessions}`
    const { time, records, work, chance } = this
    const names = { name: name ?? `r${this.#sessions}`, isNameOwn: this.#areNamesOwn }
    this.#replicas.push(startReplica({ ...names, session, time, records, work, chance }))
  }

  suffer({ kind, ms }: Trouble): void {
    const { records } = this
    const lastsMs = kind === 'leave' ? GRACE_MS : LASTING.has(kind) ? ms : 0
    this.#quietAt = Math.max(this.#quietAt, this.time.now + lastsMs)
    if (kind === 'join') this.join()
    else if (kind === 'removal') this.#removeOne()
    else if (kind === 'outage') this.#forAWhile(ms, (isOn) => Object.assign(records, { isDown: isOn }))
    else if (kind === 'losses')
      this.#forAWhile(ms, (isOn) => Object.assign(records, { lost: isOn ? 0.3 : 0 }))
    else {
      const living = this.living()
      const one = living[Math.floor(this.chance.fraction() * living.length)]
      if (one) this.#hit(one, kind, ms)
    }
  }

  #removeOne(): void {
    this.#joinsBlockedUntil = this.time.now + TIMES.leaseMs + TIMES.drainMs
    if (this.time.now >= Math.max(this.#lastCame, this.#allHearAgain) + TIMES.leaseMs)
      this.records.removeOne()
  }

  #forAWhile(ms: number, set: (isOn: boolean) => void): void {
    set(true)
    this.time.at(ms, () => set(false))
  }

  #hit(
    one: Replica,
    kind: 'kill' | 'restart' | 'twin' | 'stop' | 'leave' | 'cut' | 'clock',
    ms: number,
  ): void {
    if (kind === 'stop' || kind === 'cut')
      this.#allHearAgain = Math.max(this.#allHearAgain, this.time.now + ms)
    if (kind === 'kill') one.kill()
    if (kind === 'twin' && !this.#areNamesOwn) this.join(one.name)
    if (kind === 'stop') one.clock.stopFor(ms)
    if (kind === 'cut') this.records.cutOff(one.clock, ms)
    if (kind === 'clock') one.clock.setWallBy(this.chance.fraction() < 0.5 ? ms * 1000 : -ms * 1000)
    if (kind === 'leave') {
      one.leave()
      // Like a kubelet does.
      this.time.at(GRACE_MS, () => one.kill())
    }
    if (kind === 'restart') {
      one.kill()
      this.time.at(ms / 10, () => this.join(one.name))
    }
  }
}
