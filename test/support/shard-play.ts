/** One history of a simulated world of replicas: troubles, then a rest in which everything has to come right. */
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
  /** How long it lasts. */
  ms: number
}

export type Played = {
  wrong: string[]
  /** Shards of which nobody, or more than one, says at the end that it is the owner. */
  unowned: number[]
  attempts: number
  repeated: number
  /** Milliseconds in which nobody was the owner of some shard: at most on end, and after all troubles were over. */
  unownedMs: number
  settledAfterMs: number
}

/** How often owners are looked at. */
const LOOK_EVERY_MS = 100
/** In which those that begin find each other. */
const BEGIN_MS = 5000
/** Whoever waits for one who is gone waits for its lease and for what it had under way; some calls take seconds. */
const REST_MS = TIMES.leaseMs + TIMES.drainMs + 40_000
const MOST_REPLICAS = 6
/** After which one that was told to leave is killed. */
const GRACE_MS = 30_000
const LASTING: ReadonlySet<Trouble['kind']> = new Set(['stop', 'cut', 'outage', 'losses', 'restart'])

export async function playShards(plan: {
  seed: number
  troubles: readonly Trouble[]
  replicas: number
  /** Nobody starts under the name of one who lives. */
  areNamesOwn: boolean
  /** Nothing goes wrong but the troubles. */
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
    (shard) => world.living().filter(({ keeper }) => keeper.owns(shard)).length !== 1,
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
   * Whoever comes right after a record was removed by hand cannot know of it: that is asked too much, until it is there again at the
   * latest, or what stands behind it is over.
   */
  #nobodyComesBefore = 0
  #lastCame = 0
  /** When the last trouble is over. */
  #quietAt = 0
  /** Since when nobody is the owner of a shard. */
  readonly #unownedSince = new Map<number, number>()
  #longestUnownedMs = 0
  #lastUnownedAt = 0
  /** Whoever has heard of nobody for long does not know either whose record was removed. */
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

  /** All troubles are over. */
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
      if (living.some(({ keeper }) => keeper.owns(shard))) {
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
    const wait = this.#nobodyComesBefore - this.time.now
    if (wait > 0) {
      this.#quietAt = Math.max(this.#quietAt, this.#nobodyComesBefore)
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
    this.#nobodyComesBefore = this.time.now + TIMES.leaseMs + TIMES.drainMs
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
      // As a kubelet does.
      this.time.at(GRACE_MS, () => one.kill())
    }
    if (kind === 'restart') {
      one.kill()
      this.time.at(ms / 10, () => this.join(one.name))
    }
  }
}
