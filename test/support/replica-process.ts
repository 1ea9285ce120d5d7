import { leases } from '../../src/apis/core-kinds.ts'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { OwnershipEpochs, withFencing } from '../../src/ha/ownership.ts'
import type { RawObject, ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import { readLoggedOutcomes, readSegment } from '../../src/webhooks/log/reader.ts'
import { engineParts, knowEndpoint } from './engine-parts.ts'
import { type FakeClock, settle } from './fake-clock.ts'
import { LaggingWatch } from './lagging-watch.ts'
import { LossyWay } from './lossy-way.ts'
import { ScriptedSender } from './scripted-sender.ts'
import type { SharedStore } from './shared-store.ts'
import { Suspension } from './suspension.ts'

/** What the replicas share. */
export type ReplicaWorld = {
  clock: FakeClock
  shared: SharedStore
  chance: () => number
}

/** Decides which shards a process works on. */
export type Ownership = {
  owns: (shard: number) => boolean
  /** Whether no earlier owner can have work in progress. */
  isAlone: (shard: number) => boolean
  /** Whether its lease is valid. */
  mayAct: () => boolean
  /** Called if another replica has claimed shards that it owns. */
  claimedElsewhere: (shards: readonly number[]) => void
  /** Called by the watch of Leases; absent: there is none. */
  leaseSeen?: (raw: RawObject) => void
}

const nothing = () => undefined
const quiet = { info: nothing, warn: nothing, error: nothing }

/** Delay of a watch in milliseconds; occasionally much longer. */
const LAG_MS = 20
const LONG_LAG_MS = 3000

/** One of several processes of the delivery engine on one store: it can be suspended, cut off and killed. */
export class ReplicaProcess {
  readonly sender: ScriptedSender
  readonly #giveUp = new AbortController()
  readonly epochs = new OwnershipEpochs()
  readonly parts: ReturnType<typeof engineParts>
  readonly session: string
  readonly complaints: string[] = []
  readonly clock: ReturnType<Suspension['clock']>
  /** Its connection to the store for calls that need no valid lease. */
  readonly api: ResourceReader & ResourceWriter
  readonly way: LossyWay
  readonly #suspension = new Suspension()
  /** The watches deliver nothing while the connection is cut. */
  readonly #line = new Suspension()
  readonly #watches = new Map<ResourceType, LaggingWatch<RawObject>>()
  /** The newest segment that the watch has delivered. */
  #deliveredUpTo = 0

  /** Starts after it has read the existing objects. @param waitScale of the waits between attempts */
  constructor(
    { clock, shared, chance }: ReplicaWorld,
    options: { session: string; lowWater: number; waitScale: number; ownership: Ownership },
  ) {
    const { session, lowWater, waitScale, ownership } = options
    this.session = session
    this.sender = new ScriptedSender(clock)
    this.clock = this.#suspension.clock(clock)
    const delayMs = () => 1 + Math.floor(chance() * 6)
    this.way = new LossyWay(clock, chance)
    const lossy = this.way.api(shared.api, () => this.isDead)
    this.api = this.#suspension.api(lossy, clock, { delayMs, mayWait: () => chance() < 0.5 })
    const mayWrite = () => ownership.mayAct() && this.epochs.mayWrite
    const api = withFencing({ ...this.api, watch: never }, mayWrite)
    this.parts = engineParts({
      clock: this.clock,
      api,
      outcomesApi: api,
      mayWrite: ownership.mayAct,
      sender: this.#suspension.sender(this.sender),
      events: { record: nothing },
      session,
      lowWater,
      waitScale,
      giveUp: this.#giveUp.signal,
      owns: ownership.owns,
      isAlone: ownership.isAlone,
      epochs: this.epochs,
      complain: (message) => void this.complaints.push(message),
      onClaimedElsewhere: ownership.claimedElsewhere,
      deliveredUpTo: () => this.#deliveredUpTo,
    })
    const shows = [
      [webhookEndpoints, (raw: RawObject) => this.#showEndpoint(raw)],
      [deliverySegments, (raw: RawObject) => this.#showSegment(raw)],
      [outcomeSegments, (raw: RawObject) => this.#showOutcomes(raw)],
      [leases, (raw: RawObject) => ownership.leaseSeen?.(raw)],
    ] as const
    const lagMs = () => Math.floor(chance() * (chance() < 0.05 ? LONG_LAG_MS : LAG_MS))
    for (const [type, show] of shows) {
      for (const raw of shared.kept(type, lowWater)) show(raw)
      this.#watches.set(type, new LaggingWatch(this.#line.clock(this.clock), lagMs, show))
    }
    this.parts.engine.start()
  }

  get isDead(): boolean {
    return this.#suspension.isDead
  }

  get runs(): boolean {
    return !this.isDead && !this.#suspension.isOn
  }

  /** Makes the watch deliver this version of the object. */
  changed(type: ResourceType, raw: RawObject): void {
    this.#watches.get(type)?.add(raw)
  }

  kill(): void {
    this.#suspension.isDead = true
    this.#suspension.end()
    this.sender.dead = true
    this.#giveUp.abort()
  }

  stop(): void {
    this.#suspension.begin()
  }

  async resume(): Promise<void> {
    this.#suspension.end()
    await settle()
  }

  /** Cuts it off while it runs. */
  cutOff(): void {
    this.way.isCut = true
    this.#line.begin()
  }

  /** Reconnects it, and delivers what it missed. */
  async reconnect(): Promise<void> {
    this.way.isCut = false
    this.#line.end()
    await settle()
  }

  #showEndpoint(raw: RawObject): void {
    if (raw.metadata.deletionTimestamp === undefined) knowEndpoint(this.parts.directory, raw)
    else this.parts.directory.remove(webhookEndpoint.parse(raw))
  }

  #showSegment(raw: RawObject): void {
    this.parts.follower.addSegment(readSegment(raw))
    this.#deliveredUpTo = Math.max(this.#deliveredUpTo, Number(raw.metadata.resourceVersion))
  }

  #showOutcomes(raw: RawObject): void {
    const seen = readLoggedOutcomes(raw, quiet)
    if (seen) this.parts.follower.applyOutcomes(seen)
  }
}

function never(): never {
  throw new Error('it does not watch')
}
