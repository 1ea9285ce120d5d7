import { ownershipHere, ownsAlone, type ShardOwnership, withOwnership } from '../../ha/ownership.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { SharedCapacity } from '../../lib/fair-queue.ts'
import type { Logger } from '../../lib/log.ts'
import type { DeliveryMetrics, FinishedState } from '../../lib/metrics.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { backoffMs, type Clock, exponentialMs, type Random, sleep } from '../../lib/time.ts'
import { type EndpointDirectory, type EndpointIdentity, recordEndpointEvent } from '../endpoints/directory.ts'
import type { EndpointHealth } from '../endpoints/health.ts'
import type { LastAttempts } from '../endpoints/last-attempts.ts'
import type { BegunAttempts } from '../log/crash-series.ts'
import type { ShardClaims } from '../log/fencing.ts'
import type { RejectionLimits } from '../log/retention-plan.ts'
import type { OutcomeRecorder } from '../log/store.ts'
import type { WebhookSender } from '../sender/send-failures.ts'
import type { CarefulAttempts } from './careful-attempts.ts'
import type { Delivery, EndpointQueue, InLog, OpenSegment } from './endpoint-queue.ts'
import type { OpenSegments } from './low-water-mark.ts'
import type { DeliveryObjects } from './objects.ts'
import type { EventBody, Payloads } from './payloads.ts'
import type { RemoteOutcomes } from './remote-deliveries.ts'

/**
 * What the files of the delivery engine share: dependencies, calls back into the engine, retries until a write is durable,
 * and background work. README.md explains the protocol.
 */

/** One deadline over name resolution, connect, TLS, request and response (interface §6.3). */
export const ATTEMPT_DEADLINE_MS = 20_000

export type EngineDependencies = {
  clock: Clock
  random: Random
  log: Logger
  metrics: DeliveryMetrics
  sender: WebhookSender
  events: EventRecorder
  directory: EndpointDirectory
  streaks: EndpointHealth
  lastAttempts: LastAttempts
  resources: ResourceReader
  objects: DeliveryObjects
  payloads: Payloads
  outcomes: OutcomeRecorder
  segments: OpenSegments
  /** How long an entry stays in the log while its object is rejected. */
  keptInLog: RejectionLimits
  /** The wall time for ages, milliseconds since 1970: a jump ahead does not make everything old at once. */
  ages: Pick<Clock, 'now'>
  /** Which replica drives a shard, according to the log. */
  claims: ShardClaims
  /** Attempts of careful owners, according to the log. */
  begun: BegunAttempts
  shards: ShardOwnership
  /** The name under which this start of the replica writes to the log. */
  writer: string
  /** Davit's own. */
  namespace: string
  userAgent: string
  waitScale: number
  giveUp: AbortSignal
}

/** What steps of a delivery ask of the engine. An interface, since the engine imports those steps. */
export interface EngineActions {
  /** Attempts or bytes in flight are near their limit. */
  readonly isCrowded: boolean
  readonly remoteOutcomes: RemoteOutcomes
  /** Queues the delivery again at `delivery.dueAt`. */
  wait(delivery: Delivery): void
  /** Ends a delivery whose end is durable. @param hasObject whether a WebhookDelivery shows it */
  finish(delivery: Delivery, state: FinishedState, hasObject: boolean): void
  drop(delivery: Delivery): void
  /** The API server starts to reject objects of deliveries to the endpoint that have not ended. */
  rejected(endpoint: EndpointIdentity): void
  /** Whether a delivery of the organization that succeeds now gets a view. */
  hasRoomForView(organization: string): boolean
  /** Shows a delivery that the log has as a success in an object. @param view promised: its entry stays open until then */
  addView(delivery: Delivery, storage: InLog, view: { body: EventBody; isPromised: boolean }): void
  /** Tracks work that a handoff has to wait for. @param how `settles` if too much of it must stop the queue */
  runInBackground(work: Promise<unknown>, queue: EndpointQueue, how?: 'settles'): void
  /** The same for work that there may be for any number of deliveries at once: it starts when it is its turn. */
  runInTurn(work: () => Promise<unknown>, queue: EndpointQueue): void
  /** Gives the entries of the segment that were only counted a delivery in their queue. */
  addCounted(opened: OpenSegment): void
}

export type EngineContext = EngineDependencies & { engine: EngineActions; careful: CarefulAttempts }

export const PAUSES = { firstMs: 100, longestMs: 5000 }

/** Repeats `work`, with growing pauses. @throws its last error once the process ends or the shard is lost */
export async function retryUntilDurable<T>(
  ctx: Pick<EngineContext, 'clock' | 'random' | 'log' | 'giveUp' | 'shards'>,
  operation: string,
  work: () => Promise<T>,
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work()
    } catch (error) {
      if (ctx.giveUp.aborted || hasLostShard(ctx)) throw error
      // The first failures while an API server restarts are not worth a log line.
      if (exponentialMs(failures, PAUSES) === PAUSES.longestMs)
        ctx.log.warn('delivery_store_failed', 'failed to access the delivery store; retrying', {
          operation,
          error,
        })
      await sleep(ctx.clock, backoffMs(failures, PAUSES, ctx.random), ctx.giveUp)
    }
  }
}

/** Another replica may have owned the shard since the running code was started: it may not write. */
export function hasLostShard({ shards }: Pick<EngineContext, 'shards'>): boolean {
  return shards.epochs?.isRevoked === true
}

/** An ordered endpoint waits until no earlier owner of its shard can have an attempt in progress. */
export function maySend(
  { shards }: Pick<EngineContext, 'shards'>,
  { shard, ordered }: Pick<EndpointQueue, 'shard' | 'ordered'>,
): boolean {
  return ordered ? ownsAlone(shards, shard) : shards.owns(shard)
}

export function startOwnedWork(
  { shards, engine }: Pick<EngineContext, 'shards' | 'engine'>,
  queue: EndpointQueue,
  work: () => Promise<unknown>,
): void {
  withOwnership(shards, queue.shard, () => engine.runInBackground(work(), queue))
}

/** For what a takeover owes to each of many deliveries. Does nothing if the shard is lost before its turn. */
export function startOwedWork(
  { shards, engine }: Pick<EngineContext, 'shards' | 'engine'>,
  queue: EndpointQueue,
  work: () => Promise<unknown>,
): void {
  withOwnership(shards, queue.shard, () => engine.runInTurn(work, queue))
}

export function warnOnEndpoint(
  { directory, events }: EngineContext,
  endpoint: EndpointIdentity,
  reason: string,
  message: string,
): void {
  const view = directory.find(endpoint)
  if (view) recordEndpointEvent(events, view.endpoint, 'Warning', reason, message)
}

/** Work under way above which nothing new is sent. */
const MAX_UNDER_WAY = 4096
/** Of work that waits for its turn: enough to keep all calls about objects busy while records are written. */
const MAX_IN_TURN = 128

export class BackgroundWork {
  readonly #ctx: Pick<EngineContext, 'giveUp' | 'log' | 'shards'>
  readonly #onEnd: (queue: EndpointQueue) => void
  readonly #underWay = new SharedCapacity(MAX_UNDER_WAY)
  readonly #turns = new Semaphore({ atOnce: MAX_IN_TURN, reserves: true })
  #waiting = 0

  constructor(ctx: Pick<EngineContext, 'giveUp' | 'log' | 'shards'>, onEnd: (queue: EndpointQueue) => void) {
    this.#ctx = ctx
    this.#onEnd = onEnd
  }

  get size(): number {
    return this.#underWay.used + this.#waiting
  }

  /** Whether the organization may have more work under way. */
  hasRoom(organization: string): boolean {
    return this.#underWay.hasRoom(organization)
  }

  add(work: Promise<unknown>, queue: EndpointQueue, settles = false): void {
    queue.busy += 1
    if (settles) queue.settling += 1
    void this.#run(() => work, queue).then(() => {
      if (settles) queue.settling -= 1
      this.#ended(queue)
    })
  }

  /**
   * Starts the work when it is the turn of its organization. Until then a handover waits for it, but it does not stop anybody from sending.
   * It runs in the ownership epoch of the call, or not at all: if the shard was taken over again, that takeover has found the same work.
   */
  addInTurn(work: () => Promise<unknown>, queue: EndpointQueue): void {
    queue.busy += 1
    this.#waiting += 1
    const asAdded = ownershipHere()
    const act = async () => {
      this.#waiting -= 1
      if (!this.#isGivenUp()) await this.#run(work, queue)
    }
    const group = queue.endpoint.namespace
    void this.#turns.run(() => asAdded(act), { group }).then(() => this.#ended(queue))
  }

  async #run(work: () => Promise<unknown>, { endpoint: { namespace } }: EndpointQueue): Promise<void> {
    this.#underWay.take(namespace, 1)
    try {
      await work()
    } catch (error) {
      // If the shard was lost, its new owner continues.
      if (!this.#isGivenUp()) this.#ctx.log.error('delivery_task_failed', 'delivery task failed', { error })
    } finally {
      this.#underWay.give(namespace, 1)
    }
  }

  #isGivenUp(): boolean {
    return this.#ctx.giveUp.aborted || hasLostShard(this.#ctx)
  }

  #ended(queue: EndpointQueue): void {
    queue.busy -= 1
    this.#onEnd(queue)
  }
}
