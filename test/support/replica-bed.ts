import { deliverySegments } from '../../src/api/delivery-segment.ts'
import type { ResourceType } from '../../src/api/meta.ts'
import { outcomeSegments } from '../../src/api/outcome-segment.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/api/webhook-endpoint.ts'
import { readSeenOutcomes, readSegment } from '../../src/controllers/delivery-log/read-back.ts'
import type { RawObject, ResourceReader, ResourceWriter } from '../../src/ports/kubernetes.ts'
import { fenced } from '../../src/runtime/shards/fence.ts'
import { Tenures } from '../../src/runtime/shards/tenures.ts'
import { type FakeClock, settle } from './fake-clock.ts'
import { LaggingWatch } from './lagging-watch.ts'
import { LossyWay } from './lossy-way.ts'
import { knowEndpoint, planeParts } from './plane-parts.ts'
import { ScriptedSender } from './scripted-sender.ts'
import { Suspension } from './suspension.ts'

/** What replicas share. */
export type ReplicaWorld = {
  clock: FakeClock
  /** What is there of a kind for one who reads it now, in the order of the log. */
  kept: (type: ResourceType, lowWater: number) => RawObject[]
  /** The store as replicas write to it. */
  shared: ResourceReader & ResourceWriter
  chance: () => number
  /** Somebody else has claimed shards that this replica drives. */
  claimedElsewhere: (shards: readonly number[], replica: ReplicaBed) => void
  /** It has given shards up though something of them was under way, since that took too long. */
  givenUpAnyway: (replica: ReplicaBed) => void
}

const nothing = () => undefined
const quiet = { info: nothing, warn: nothing, error: nothing }

/** Milliseconds that a thing takes to be shown by a watch; now and then much longer. */
const LAG_MS = 20
const LONG_LAG_MS = 3000
/** What is under way of a shard that is given up is waited for so long. */
const LONGEST_WAIT_MS = 20_000

/** One of several processes of the delivery engine on one store; which shards it has, a test says. */
export class ReplicaBed {
  readonly suspension = new Suspension()
  readonly sender: ScriptedSender
  readonly giveUp = new AbortController()
  readonly parts: ReturnType<typeof planeParts>
  readonly session: string
  /** Shards that it may work on while its lease is valid. */
  readonly active = new Set<number>()
  /** By shard, until nothing of it is under way any more. */
  readonly draining = new Map<number, Promise<unknown>>()
  /** By shard, until a start of it has ended while the lease was valid, or what it has begun was ended. */
  readonly #starting = new Map<number, Promise<unknown>>()
  readonly complaints: string[] = []
  /** Its lease is valid. */
  mayAct = true
  /** Its way to the store, and the watches, which show nothing while that is cut. */
  readonly way: LossyWay
  readonly #line = new Suspension()
  /** The newest segment that the watch has shown: it tells of nothing else. */
  #shownUpTo = 0
  readonly #tenures = new Tenures()
  /** When it died, was stopped, or has renewed its lease for the last time before it was cut off. */
  goneAt = Number.POSITIVE_INFINITY
  /** Resolves when it is. */
  gone = Promise.withResolvers<void>()
  readonly #world: ReplicaWorld
  readonly #watches = new Map<ResourceType, LaggingWatch<RawObject>>()

  /** It has read what there is. */
  constructor(world: ReplicaWorld, session: string, lowWater: number) {
    const { clock, shared, chance } = world
    this.#world = world
    this.session = session
    this.sender = new ScriptedSender(clock)
    const own = this.suspension.clock(clock)
    const delayMs = () => 1 + Math.floor(chance() * 6)
    this.way = new LossyWay(clock, chance)
    const lossy = this.way.api(shared, () => this.isDead)
    const way = this.suspension.api(lossy, clock, { delayMs, mayWait: () => chance() < 0.5 })
    const api = fenced({ ...way, watch: never }, () => this.mayAct && this.#tenures.mayWrite)
    this.parts = planeParts({
      clock: own,
      api,
      outcomesApi: api,
      mayWrite: () => this.mayAct,
      sender: this.suspension.sender(this.sender),
      events: { record: nothing },
      session,
      lowWater,
      giveUp: this.giveUp.signal,
      owns: (shard) => this.mayAct && this.active.has(shard),
      tenures: this.#tenures,
      complain: (message) => void this.complaints.push(message),
      onClaimedElsewhere: (shards) => world.claimedElsewhere(shards, this),
      shownUpTo: () => this.#shownUpTo,
    })
    const shows = [
      [webhookEndpoints, (raw: RawObject) => this.#showEndpoint(raw)],
      [deliverySegments, (raw: RawObject) => this.#showSegment(raw)],
      [outcomeSegments, (raw: RawObject) => this.#showOutcomes(raw)],
    ] as const
    const lagMs = () => Math.floor(chance() * (chance() < 0.05 ? LONG_LAG_MS : LAG_MS))
    for (const [type, show] of shows) {
      for (const raw of world.kept(type, lowWater)) show(raw)
      this.#watches.set(type, new LaggingWatch(this.#line.clock(own), lagMs, show))
    }
    this.parts.plane.start()
  }

  get isDead(): boolean {
    return this.suspension.isDead
  }

  get runs(): boolean {
    return !this.isDead && !this.suspension.isOn
  }

  /** It runs, and its lease is valid, and it can tell so. */
  get isWell(): boolean {
    return this.runs && this.mayAct && !this.way.isCut
  }

  /** The watch will show this version of the object. */
  changed(type: ResourceType, raw: RawObject): void {
    this.#watches.get(type)?.add(raw)
  }

  kill(now: number): void {
    this.goneAt = Math.min(this.goneAt, now)
    this.mayAct = false
    this.suspension.isDead = true
    this.suspension.end()
    this.sender.dead = true
    this.giveUp.abort()
    this.gone.resolve()
  }

  stop(now: number): void {
    if (!this.runs) return
    this.goneAt = now
    this.mayAct = false
    this.suspension.begin()
    this.gone.resolve()
  }

  /** It runs, and nothing that it says or hears goes through. @param renewedAt its last renewal */
  cutOff(renewedAt: number): void {
    this.goneAt = renewedAt
    this.way.isCut = true
    this.#line.begin()
    this.gone.resolve()
  }

  /** What it missed comes, and it could not renew its lease yet. */
  async reconnect(): Promise<void> {
    this.way.isCut = false
    this.#line.end()
    await settle()
  }

  /** It runs, and could not renew its lease yet. */
  async resume(): Promise<void> {
    this.suspension.end()
    await settle()
  }

  /**
   * It has renewed its lease. What it was about to take is given up in any case.
   * @param lost shards that the others may have had meanwhile: they are given up
   */
  renewed(lost: readonly number[], isLate: boolean): void {
    if (isLate) this.#tenures.endAll()
    const released = this.release([...new Set([...lost, ...this.#starting.keys()])])
    this.#starting.clear()
    released.catch(nothing)
    this.goneAt = Number.POSITIVE_INFINITY
    this.gone = Promise.withResolvers()
    this.mayAct = true
    this.parts.plane.wake(this.active)
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
    const tenure = this.#tenures.of(shard)
    const start = this.#starting.get(shard)
    await start
    const begun = this.#world.clock.monotonic()
    await this.parts.takeOver.end(new Set([shard]))
    if (this.#world.clock.monotonic() - begun >= LONGEST_WAIT_MS) this.#world.givenUpAnyway(this)
    if (this.#starting.get(shard) === start) this.#starting.delete(shard)
    // It may have been taken again since.
    if (this.#tenures.of(shard) === tenure) this.#tenures.end([shard])
  }

  /** @throws Error when given up, and what may pass by itself */
  async take(shards: readonly number[], signal: AbortSignal): Promise<void> {
    const set = new Set(shards)
    this.#tenures.begin(shards)
    const started = this.parts.takeOver.start(set, signal)
    // What a start that failed has begun is ended with its shard.
    const ended = started.then(() => {
      if (this.mayAct && !signal.aborted) for (const shard of shards) this.#starting.delete(shard)
    }, nothing)
    for (const shard of shards) this.#starting.set(shard, ended)
    await started
    signal.throwIfAborted()
    if (this.isDead) throw new Error('it has died')
    for (const shard of shards) this.active.add(shard)
    this.parts.plane.wake(set)
  }

  #showEndpoint(raw: RawObject): void {
    if (raw.metadata.deletionTimestamp === undefined) knowEndpoint(this.parts.directory, raw)
    else this.parts.directory.remove(webhookEndpoint.parse(raw))
  }

  #showSegment(raw: RawObject): void {
    this.parts.follower.take(readSegment(raw))
    this.#shownUpTo = Math.max(this.#shownUpTo, Number(raw.metadata.resourceVersion))
  }

  #showOutcomes(raw: RawObject): void {
    const seen = readSeenOutcomes(raw, quiet)
    if (seen) this.parts.follower.takeOutcomes(seen)
  }
}

function never(): never {
  throw new Error('it does not watch')
}
