import { type AcceptedEvent, deliverySegments } from '../../src/api/delivery-segment.ts'
import type { OutcomeRecord } from '../../src/api/outcome-record.ts'
import { webhookDeliveries } from '../../src/api/webhook-delivery.ts'
import {
  type WebhookEndpoint,
  type WebhookEndpointSpec,
  webhookEndpoint,
  webhookEndpoints,
} from '../../src/api/webhook-endpoint.ts'
import { DeliveryObjects } from '../../src/controllers/delivery/delivery-objects.ts'
import { DeliveryPlane } from '../../src/controllers/delivery/delivery-plane.ts'
import { LogIntake } from '../../src/controllers/delivery/log-intake.ts'
import { OpenSegments } from '../../src/controllers/delivery/open-segments.ts'
import { recoverObjects } from '../../src/controllers/delivery/recover-objects.ts'
import { KeyIndex } from '../../src/controllers/delivery-log/key-index.ts'
import { createOutcomeLog } from '../../src/controllers/delivery-log/outcome-log.ts'
import { readLowWater, readOutcomes, readSegment } from '../../src/controllers/delivery-log/read-back.ts'
import { EndpointDirectory } from '../../src/controllers/endpoint/endpoint-directory.ts'
import { EndpointStatusWriter } from '../../src/controllers/endpoint/endpoint-status.ts'
import { EndpointStreaks } from '../../src/controllers/endpoint/endpoint-streaks.ts'
import { acceptEvent } from '../../src/domain/accept.ts'
import { derivedName } from '../../src/domain/message-id.ts'
import { segmentSpec } from '../../src/domain/segment.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { LogSegment } from '../../src/ports/delivery-log.ts'
import type { RecordedEvent } from '../../src/ports/event-recorder.ts'
import type { Log } from '../../src/ports/log.ts'
import type { SendOutcome, SendRequest, WebhookSender } from '../../src/ports/webhook-sender.ts'
import { FakeClock, fixedRandom, settle } from './fake-clock.ts'
import { FaultyApi } from './faulty-api.ts'
import { MemoryStore } from './memory-store.ts'

/** The operator's namespace and the organization of a bed. */
export const SYSTEM = 'davit-system'
export const ORGANIZATION = 'acme'

const nothing = () => undefined

/** An attempt that has begun; `end` gives its outcome. */
export type Attempt = { id: string; path: string; end(outcome?: number | SendOutcome): void; ended: boolean }

/** Attempts in the order in which they began. Those to a path with an answer end at once. */
export class ScriptedSender implements WebhookSender {
  readonly attempts: Attempt[] = []
  readonly answers = new Map<string, number | ((id: string) => number)>()
  /** The process has ended: it sends nothing more. */
  dead = false
  /** How long an answer takes. */
  latencyMs = 0
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  send(request: SendRequest, signal?: AbortSignal): Promise<SendOutcome> {
    if (this.dead) return new Promise(nothing)
    const path = new URL(request.url).pathname
    return new Promise((resolve) => {
      const attempt: Attempt = {
        id: request.headers['webhook-id'] ?? '',
        path,
        ended: false,
        end: (outcome = 200) => {
          attempt.ended = true
          resolve(typeof outcome === 'number' ? response(outcome) : outcome)
        },
      }
      this.attempts.push(attempt)
      signal?.addEventListener('abort', () =>
        attempt.end({ kind: 'failure', class: 'canceled', error: 'given up', latencyMs: 1 }),
      )
      const answer = this.answers.get(path)
      if (answer === undefined) return
      const code = typeof answer === 'number' ? answer : answer(attempt.id)
      if (this.latencyMs === 0) attempt.end(code)
      else this.#clock.after(this.latencyMs, () => attempt.end(code))
    })
  }
}

function response(code: number): SendOutcome {
  return { kind: 'response', code, latencyMs: 1, response: '' }
}

/** One process of the delivery engine on a store in memory, with a clock that tests step. */
export class PlaneBed {
  readonly clock: FakeClock
  readonly store: MemoryStore
  readonly api: FaultyApi
  readonly sender: ScriptedSender
  readonly directory = new EndpointDirectory()
  readonly segments: OpenSegments
  readonly keys = new KeyIndex()
  readonly giveUp = new AbortController()
  readonly plane: DeliveryPlane
  readonly intake: LogIntake
  /** What was logged as a warning or an error. */
  readonly complaints: string[] = []
  /** Which shards it may work on; all. */
  owns = (_shard: number): boolean => true
  /** What `kubectl describe` would show. */
  readonly events: RecordedEvent[] = []
  readonly ended: { name: string; state: string }[] = []
  #events = 0

  /** @param before the process whose store this one continues on */
  constructor(before?: PlaneBed, lowWater = 0) {
    this.clock = before?.clock ?? new FakeClock()
    this.sender = new ScriptedSender(this.clock)
    this.store = before?.store ?? new MemoryStore(() => this.clock.now())
    this.api = new FaultyApi(this.store)
    this.#events = before ? before.#events : 0
    this.segments = new OpenSegments(lowWater)
    const { api, directory, giveUp, segments } = this
    const clock = this.#mortalClock()
    const random = fixedRandom(0.5)
    const complain = (message: string) => void this.complaints.push(message)
    const log: Log = { info: nothing, warn: complain, error: complain }
    const statuses = new EndpointStatusWriter(api, directory)
    this.plane = new DeliveryPlane({
      clock,
      random,
      log,
      metrics: { attempt: nothing, finished: nothing, started: nothing },
      sender: this.sender,
      events: { record: (_about, event) => void this.events.push(event) },
      directory,
      statuses,
      streaks: new EndpointStreaks(statuses, clock),
      resources: api,
      objects: new DeliveryObjects(api, clock),
      outcomes: createOutcomeLog({
        resources: api,
        namespace: SYSTEM,
        writer: 'test',
        clock,
        random: uniqueNames(),
        lowWater: () => segments.lowWater,
        signal: giveUp.signal,
      }),
      segments,
      shards: { owns: (shard) => this.owns(shard) },
      namespace: SYSTEM,
      userAgent: 'Davit/test',
      waitScale: 1,
      giveUp: giveUp.signal,
      maxInFlight: 100,
      onEnded: (delivery, state) => void this.ended.push({ name: delivery.name, state }),
    })
    this.intake = new LogIntake(this.plane, this.keys)
    for (const raw of this.store.all(webhookEndpoints)) this.#know(webhookEndpoint.parse(raw))
    void this.api.died.then(() => {
      this.sender.dead = true
    })
  }

  /** Time stands still for the dead. */
  #mortalClock(): Clock {
    const { clock, sender } = this
    return {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      after: (ms, run) => (sender.dead ? nothing : clock.after(ms, () => (sender.dead ? nothing() : run()))),
    }
  }

  /** An endpoint with its key, whose attempts go to `/<name>`. */
  async endpoint(name: string, spec: Partial<WebhookEndpointSpec> = {}): Promise<WebhookEndpoint> {
    const created = await this.store.create(webhookEndpoints, {
      metadata: { namespace: ORGANIZATION, name },
      spec: { url: `https://receiver.example/${name}`, eventTypes: ['*'], ...spec },
    })
    const endpoint = webhookEndpoint.parse(created)
    this.#know(endpoint)
    return endpoint
  }

  /** The endpoint's owner changes it, and the watch shows that. */
  async change(endpoint: WebhookEndpoint, spec: Partial<WebhookEndpointSpec>): Promise<void> {
    const { name } = endpoint.metadata
    const patched = await this.store.patch(webhookEndpoints, { namespace: ORGANIZATION, name }, { spec })
    this.directory.apply(webhookEndpoint.parse(patched))
  }

  #know(endpoint: WebhookEndpoint): void {
    const { namespace = '', name, uid } = endpoint.metadata
    const key = { secret: `whsec_${'A'.repeat(32)}`, createdAt: new Date(this.clock.now()).toISOString() }
    this.directory.applyKeys(namespace, name, { endpointUid: uid, keys: [key], version: '1' })
    this.directory.apply(endpoint)
  }

  /** One event to these endpoints; with `key`, a repeat is harmless. */
  event(endpoints: readonly WebhookEndpoint[], key?: string): AcceptedEvent {
    this.#events += 1
    const acceptedAt = this.clock.now()
    const name = derivedName(acceptedAt, key ?? `event ${this.#events}`)
    return acceptEvent(
      {
        name,
        namespace: ORGANIZATION,
        type: 'test.event',
        dataText: '1',
        acceptedAt,
        ...(key ? { key } : {}),
      },
      endpoints.map(({ metadata: { name, uid } }) => ({ name, uid })),
    )
  }

  /** Writes a segment, which nobody takes in yet. */
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

  /** Writes a segment and shows it, as the watch does. @returns the ids of its events */
  async accept(...events: AcceptedEvent[]): Promise<string[]> {
    this.intake.take(await this.append(...events))
    return events.map(({ event }) => `msg_${event.id}`)
  }

  start(): void {
    this.plane.start()
  }

  /** This process is killed. @returns another one that reads back what it left, and has started if it lives */
  async restarted(prepare: (next: PlaneBed) => void = nothing): Promise<PlaneBed> {
    this.sender.dead = true
    this.api.bury()
    this.giveUp.abort()
    const next = new PlaneBed(this, await readLowWater(this.store, SYSTEM))
    prepare(next)
    const recovered = next.#recover().then(() => next.start())
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
    const segments = this.store.all(deliverySegments).flatMap((raw) => readSegment(raw) ?? [])
    this.intake.readBack(segments, await readOutcomes(this.api, SYSTEM, this.segments.lowWater))
    await recoverObjects({ plane: this.plane, intake: this.intake })
    await this.intake.resolve()
  }

  elapse(ms: number): Promise<void> {
    return this.clock.elapse(ms)
  }

  /** Attempts that have begun and not ended. */
  get underWay(): Attempt[] {
    return this.sender.attempts.filter(({ ended }) => !ended)
  }

  /** Ids in the order in which attempts began, at one endpoint. */
  begun(endpoint: string): string[] {
    return this.sender.attempts.filter(({ path }) => path === `/${endpoint}`).map(({ id }) => id)
  }

  get objects() {
    return this.store.all(webhookDeliveries)
  }

  /** All records, by delivery. */
  async records(): Promise<OutcomeRecord[]> {
    return [...(await readOutcomes(this.store, SYSTEM, 0)).values()].flat()
  }
}

/** Chance whose bytes never repeat, so that names do not. */
function uniqueNames() {
  return { fraction: () => 0.5, bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) }
}
