import { type AcceptedEvent, deliverySegments } from '../../src/apis/delivery-segment.ts'
import { derivedName } from '../../src/apis/ids.ts'
import {
  decodeOutcomeRecords,
  type OutcomeRecord,
  outcomeSegments,
  readOutcomeSegment,
} from '../../src/apis/outcome-segment.ts'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import {
  type WebhookEndpoint,
  type WebhookEndpointSpec,
  webhookEndpoint,
  webhookEndpoints,
} from '../../src/apis/webhook-endpoint.ts'
import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import type { RawObject, ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import type { RecordedEvent } from '../../src/kube/recorder.ts'
import type { Clock } from '../../src/lib/time.ts'
import type { DeliveryEngine } from '../../src/webhooks/delivery/engine.ts'
import type { LogFollower } from '../../src/webhooks/delivery/log-follower.ts'
import type { OpenSegments } from '../../src/webhooks/delivery/low-water-mark.ts'
import type { ShardTakeover } from '../../src/webhooks/delivery/takeover.ts'
import type { EndpointDirectory } from '../../src/webhooks/endpoints/directory.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import { segmentSpec } from '../../src/webhooks/log/codec.ts'
import type { DedupeIndex } from '../../src/webhooks/log/idempotency-keys.ts'
import { readLowWater } from '../../src/webhooks/log/read-back.ts'
import { readLoggedOutcomes, readSegment } from '../../src/webhooks/log/reader.ts'
import type { LogSegment } from '../../src/webhooks/log/store.ts'
import { engineParts, knowEndpoint, SYSTEM } from './engine-parts.ts'
import { FakeClock, settle } from './fake-clock.ts'
import { FaultyApi } from './faulty-api.ts'
import { logOn } from './log-on.ts'
import { MemoryStore } from './memory-store.ts'
import { type Attempt, ScriptedSender } from './scripted-sender.ts'

export { SYSTEM }
/** The organization of a bed. */
export const ORGANIZATION = 'acme'

const nothing = () => undefined

/** One process of the delivery engine on a store in memory, with a clock that tests step. */
export class EngineBed {
  readonly clock: FakeClock
  readonly store: MemoryStore
  readonly api: FaultyApi
  readonly sender: ScriptedSender
  readonly directory: EndpointDirectory
  readonly segments: OpenSegments
  readonly keys: DedupeIndex
  readonly session: string
  readonly giveUp = new AbortController()
  /** How long an entry whose object is rejected stays in the log. */
  readonly keptInLog = { ageMs: 24 * 60 * 60_000, bytes: 1_000_000_000, deliveries: 1_000_000 }
  readonly engine: DeliveryEngine
  readonly follower: LogFollower
  readonly takeOver: ShardTakeover
  /** Logged warnings and errors. */
  readonly complaints: string[] = []
  /** The shards that it may work on, and takes over when it starts; all. */
  owns = (_shard: number): boolean => true
  /** Whether no earlier owner can have work of the shard in progress. */
  isAlone = (_shard: number): boolean => true
  /** Called for shards that another process has claimed. */
  onClaimedElsewhere = (_shards: readonly number[]): void => undefined
  /** The Events that `kubectl describe` would show. */
  readonly events: RecordedEvent[] = []
  readonly ended: { name: string; state: string }[] = []
  /** By name of the delivery, the version in which its object shows its end. */
  readonly endVersions = new Map<string, string | undefined>()
  /** Segment and index of entries that another replica has promoted. */
  readonly promotedElsewhere: [segment: string, index: number][] = []
  #events = 0
  readonly #lives: number
  readonly #maxPayloadBytes: number | undefined
  /** Version up to which the watch has delivered the log. */
  deliveredUpTo = Number.POSITIVE_INFINITY
  /** The newest outcome that the watch has delivered. */
  #delivered = 0

  /** @param before the process whose store this one continues on @param maxPayloadBytes of bodies in memory; absent: a mebibyte */
  constructor(
    before?: EngineBed,
    lowWater = 0,
    maxPayloadBytes = before ? before.#maxPayloadBytes : undefined,
  ) {
    this.#maxPayloadBytes = maxPayloadBytes
    this.clock = before?.clock ?? new FakeClock()
    this.sender = new ScriptedSender(this.clock)
    this.store = before?.store ?? new MemoryStore(() => this.clock.now())
    this.api = new FaultyApi(this.store)
    this.session = `test.${this.store.version}.${before ? before.#lives + 1 : 1}`
    this.#lives = before ? before.#lives + 1 : 1
    this.#events = before ? before.#events : 0
    const { api, giveUp } = this
    const clock = this.#mortalClock()
    const parts = engineParts({
      clock,
      api,
      outcomesApi: this.#watched(),
      sender: this.sender,
      events: { record: (_about, event) => void this.events.push(event) },
      session: this.session,
      lowWater,
      ...(maxPayloadBytes === undefined ? {} : { maxPayloadBytes }),
      keptInLog: this.keptInLog,
      giveUp: giveUp.signal,
      owns: (shard) => this.owns(shard),
      isAlone: (shard) => this.isAlone(shard),
      onClaimedElsewhere: (shards) => this.onClaimedElsewhere(shards),
      complain: (message) => void this.complaints.push(message),
      deliveredUpTo: () => this.deliveredUpTo,
      onEnded: (name, state, endVersion) => {
        this.ended.push({ name, state })
        this.endVersions.set(name, endVersion)
      },
      onPromotedElsewhere: ({ index }, segment) => void this.promotedElsewhere.push([segment, index]),
    })
    this.directory = parts.directory
    this.keys = parts.keys
    this.segments = parts.segments
    this.engine = parts.engine
    this.follower = parts.follower
    this.takeOver = parts.takeOver
    for (const raw of this.store.all(webhookEndpoints)) knowEndpoint(this.directory, raw)
    void this.api.died.then(() => {
      this.sender.dead = true
    })
  }

  /** Delivers written outcomes to the watch immediately. */
  #watched(): ResourceReader & ResourceWriter {
    const { api } = this
    return {
      get: (type, ref) => api.get(type, ref),
      list: (type, query, from) => api.list(type, query, from),
      patch: (type, ref, patch, how) => api.patch(type, ref, patch, how),
      delete: (type, ref, precondition, how) => api.delete(type, ref, precondition, how),
      create: async (type, object, how) => {
        try {
          return await api.create(type, object, how)
        } finally {
          // Even if the writer did not get the answer.
          this.showOutcomes()
        }
      },
    }
  }

  /** Delivers the outcomes that other processes have written. */
  showOutcomes(): void {
    for (const raw of this.store.all(outcomeSegments).sort(byVersion)) {
      const seen = readLoggedOutcomes(raw, { info: nothing, warn: nothing, error: nothing })
      if (!seen || seen.version <= this.#delivered) continue
      this.#delivered = seen.version
      this.follower.applyOutcomes(seen)
    }
  }

  /** The shards that it may work on. */
  get #owned(): Set<number> {
    return new Set(
      Array.from({ length: SHARD_COUNT }, (_, shard) => shard).filter((shard) => this.owns(shard)),
    )
  }

  /** Time stands still for a dead process. */
  #mortalClock(): Clock {
    const { clock, sender } = this
    return {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      after: (ms, run) => (sender.dead ? nothing : clock.after(ms, () => (sender.dead ? nothing() : run()))),
    }
  }

  /** Creates an endpoint with its signing secret; attempts go to `/<name>`. */
  async endpoint(
    name: string,
    spec: Partial<WebhookEndpointSpec> = {},
    namespace = ORGANIZATION,
  ): Promise<WebhookEndpoint> {
    const created = await this.store.create(webhookEndpoints, {
      metadata: { namespace, name },
      spec: { url: `https://receiver.example/${name}`, eventTypes: ['*'], ...spec },
    })
    const endpoint = webhookEndpoint.parse(created)
    knowEndpoint(this.directory, created)
    return endpoint
  }

  /** Changes an endpoint as its owner, and delivers the change to the watch. */
  async change(endpoint: WebhookEndpoint, spec: Partial<WebhookEndpointSpec>): Promise<void> {
    const { name } = endpoint.metadata
    const patched = await this.store.patch(webhookEndpoints, { namespace: ORGANIZATION, name }, { spec })
    this.directory.apply(webhookEndpoint.parse(patched))
  }

  /** An event of the organization of these endpoints; with `key`, it may be repeated. @param dataText its data as JSON */
  event(endpoints: readonly WebhookEndpoint[], key?: string, dataText = '1'): AcceptedEvent {
    this.#events += 1
    const acceptedAt = this.clock.now()
    const name = derivedName(acceptedAt, key ?? `event ${this.#events}`)
    return acceptEvent(
      {
        name,
        namespace: endpoints[0]?.metadata.namespace ?? ORGANIZATION,
        type: 'test.event',
        dataText,
        happenedAt: acceptedAt,
        ...(key ? { key } : {}),
      },
      endpoints.map(({ metadata: { name, uid } }) => ({ name, uid })),
    )
  }

  /** An event that was created with kubectl. */
  webhookEvent(endpoints: readonly WebhookEndpoint[]): AcceptedEvent {
    const { event, targets } = this.event(endpoints)
    return { event: { ...event, key: event.id }, targets }
  }

  /** Writes a segment without delivering it. */
  async append(...events: AcceptedEvent[]): Promise<LogSegment> {
    const { clock, store } = this
    const created = await store.create(deliverySegments, {
      metadata: { namespace: SYSTEM, name: derivedName(clock.now(), `segment ${store.version}`) },
      spec: segmentSpec(events, 'test', clock.now()),
    })
    const segment = readSegment(created)
    if (!segment) throw new Error('the segment cannot be read')
    return segment
  }

  /** Writes a segment and delivers it, as the watch does. @returns the ids of its events */
  async accept(...events: AcceptedEvent[]): Promise<string[]> {
    this.follower.addSegment(await this.append(...events))
    return events.map(({ event }) => `msg_${event.id}`)
  }

  /** Starts a process without a previous log. */
  start(): void {
    this.engine.queues.acquire(this.#owned)
    this.engine.start()
  }

  /** Kills this process. @returns another one that has read the log back, and has started if it lives */
  async restarted(prepare: (next: EngineBed) => void = nothing): Promise<EngineBed> {
    this.sender.dead = true
    this.api.bury()
    this.giveUp.abort()
    const next = new EngineBed(this, await readLowWater(logOn(this.store, this)))
    prepare(next)
    const recovered = next.#recover().then(() => next.engine.start())
    const isOver = recovered.then(
      () => true,
      () => true,
    )
    // It may die on the way.
    while (!next.api.dead && !(await Promise.race([isOver, settle().then(() => false)])))
      await this.clock.elapse(20)
    if (!next.api.dead) await recovered
    return next
  }

  async #recover(): Promise<void> {
    for (const raw of this.store.all(deliverySegments).sort(byVersion))
      this.follower.addSegment(readSegment(raw))
    this.showOutcomes()
    await this.takeOver.start(this.#owned, this.giveUp.signal)
  }

  elapse(ms: number): Promise<void> {
    return this.clock.elapse(ms)
  }

  /** Attempts in progress. */
  get underWay(): Attempt[] {
    return this.sender.attempts.filter(({ ended }) => !ended)
  }

  /** Ids of an endpoint in the order in which their attempts began. */
  begun(endpoint: string): string[] {
    return this.sender.attempts.filter(({ path }) => path === `/${endpoint}`).map(({ id }) => id)
  }

  get objects() {
    return this.store.all(webhookDeliveries)
  }

  /** All records, by delivery. */
  async records(): Promise<OutcomeRecord[]> {
    const all = this.store.all(outcomeSegments).sort(byVersion)
    return all.flatMap((raw) => decodeOutcomeRecords(readOutcomeSegment(raw).spec))
  }
}

function byVersion({ metadata: a }: RawObject, { metadata: b }: RawObject): number {
  return Number(a.resourceVersion) - Number(b.resourceVersion)
}
