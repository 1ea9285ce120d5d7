import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { withOwnership } from '../../ha/ownership.ts'
import type { FinishedState } from '../../lib/metrics.ts'
import { pollUntil } from '../../lib/time.ts'
import { Timers } from '../../lib/timers.ts'
import type { EndpointIdentity, EndpointStatusWriter, EndpointView } from '../endpoints/directory.ts'
import type { LogDelivery } from '../log/store.ts'
import { attempt } from './attempt.ts'
import { cancelDelivery, cancelQueue } from './cancel.ts'
import { CarefulAttempts } from './careful-attempts.ts'
import {
  ATTEMPT_DEADLINE_MS,
  BackgroundWork,
  type EngineActions,
  type EngineContext,
  type EngineDependencies,
  maySend,
  retryUntilDurable,
} from './context.ts'
import { Dispatcher, EndpointQueues } from './dispatcher.ts'
import {
  bodyOf,
  type Delivery,
  deliveryFromEntry,
  dueTime,
  type EndpointQueue,
  IN_OBJECT,
  type InLog,
  type OpenEntry,
  type OpenSegment,
  type Stage,
} from './endpoint-queue.ts'
import type { EventBody } from './payloads.ts'
import { PendingCounters } from './pending-counts.ts'
import { PromotionScheduler, warnOfRefusedObject } from './promotion.ts'
import { ObjectBackedDeliveries, RemoteOutcomes } from './remote-deliveries.ts'
import { ViewWriter } from './views.ts'

/**
 * The delivery engine: takes deliveries from the log and from objects, and sends them by endpoint in fair turns. Queues of other
 * replicas' shards are kept too, for counts and quick takeovers; nothing is sent from them. README.md explains the protocol.
 */

/** As long as other replicas wait for one that died: an attempt ends within its deadline, and then its outcome is written. */
export const DRAIN_TIMEOUT_MS = ATTEMPT_DEADLINE_MS + 1000

/** Of bodies, each of which may be in memory once more while it is sent. */
const MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024

/** How soon a replica that could not store outcomes goes on when it can. */
const RECHECK_MS = 250

export type EngineOptions = EngineDependencies & {
  maxInFlight: number
  statuses: EndpointStatusWriter
  onEnded?: (delivery: Delivery, state: FinishedState, hasObject: boolean) => void
  /** Objects per second that show successes, of all controllers together; 0 for none. */
  viewsPerSecond: number
  /** Called for a delivery that has ended and got its object later. */
  onViewWritten?: (delivery: Delivery) => void
  /** Called for a delivery whose object was deleted before its end. */
  onDropped?: (delivery: Delivery) => void
}

export class DeliveryEngine implements EngineActions {
  readonly ctx: EngineContext
  readonly counters = new PendingCounters()
  readonly queues = new EndpointQueues()
  readonly objectBacked = new ObjectBackedDeliveries()
  readonly remoteOutcomes = new RemoteOutcomes(this.objectBacked, (delivery) => this.leave(delivery))
  readonly promotions: PromotionScheduler
  readonly #options: EngineOptions
  readonly #dispatcher: Dispatcher
  readonly #timers: Timers<Delivery>
  readonly #work: BackgroundWork
  readonly views: ViewWriter
  /** Called for an endpoint of which the API server starts to reject the object of a delivery that has not ended. */
  onRejected: ((endpoint: EndpointIdentity) => void) | undefined
  #running = false
  /** Cancels the next check whether outcomes can be stored. */
  #recheck: (() => void) | undefined

  constructor(options: EngineOptions) {
    this.#options = options
    const careful = new CarefulAttempts({ ...options, attemptMs: ATTEMPT_DEADLINE_MS })
    this.ctx = { ...options, engine: this, careful }
    const { clock, log, payloads, segments, shards } = options
    segments.onBodyClosed = (body) => payloads.drop(body)
    this.#timers = new Timers<Delivery>({ clock, log }, (delivery) => this.#makeDue(delivery))
    this.#work = new BackgroundWork(this.ctx, (queue) => this.#dispatcher.wake(queue))
    this.promotions = new PromotionScheduler(this.ctx)
    this.views = new ViewWriter({
      ...options,
      perSecond: options.viewsPerSecond,
      share: () => this.queues.shareOfShards,
    })
    this.#dispatcher = new Dispatcher({
      maxInFlight: options.maxInFlight,
      maxBytesInFlight: MAX_BYTES_IN_FLIGHT,
      mayStart: () => this.#running && this.#mayRecord(),
      mayServe: (organization) => this.#work.hasRoom(organization),
      mayRun: (queue) => queue.driver === 'us' && maySend(this.ctx, queue),
      run: (delivery) => withOwnership(shards, delivery.queue.shard, () => attempt(this.ctx, delivery)),
    })
    options.directory.listen({
      changed: (view) => this.#endpointChanged(view),
      removed: (endpoint) => this.#endpointRemoved(endpoint),
    })
  }

  get isCrowded(): boolean {
    return this.#dispatcher.isCrowded
  }

  start(): void {
    this.#running = true
    this.#dispatcher.pump()
  }

  stop(): void {
    this.#running = false
    this.#timers.stop()
    this.#recheck?.()
    this.#recheck = undefined
  }

  /** Whether outcomes can be stored. If not, it looks again later: nothing else may happen that wakes the queues. */
  #mayRecord(): boolean {
    const { outcomes, clock } = this.ctx
    if (outcomes.healthy()) return true
    this.#recheck ??= clock.after(RECHECK_MS, () => {
      this.#recheck = undefined
      this.#dispatcher.pump()
    })
    return false
  }

  async drained(): Promise<void> {
    await pollUntil(this.ctx.clock, () => this.#dispatcher.inFlight === 0 && this.#work.size === 0)
  }

  stats() {
    return {
      inFlight: this.#dispatcher.inFlight,
      waitingLanes: this.#dispatcher.waitingQueues,
      // An empty queue stays as long as its endpoint.
      lanes: [...this.queues.ours()].filter(({ size }) => size > 0).length,
      settling: this.#work.size,
      openSegments: this.ctx.segments.size,
    }
  }

  /** Counts an entry of another replica. Nearly all close at once, so only the rest get a delivery, from `addCounted`. */
  countEntry(opened: OpenSegment, open: OpenEntry, queue: EndpointQueue | undefined): void {
    const hasObject = this.objectBacked.findEntry(opened.segment.version, open.entry) !== undefined
    // Held ones are counted by bytes, and only a queue can tell whether they are.
    if (!queue || queue.held || hasObject) this.addEntry(opened, open)
    else {
      open.counted = queue
      this.counters.addEntry(queue, open.entry.event)
    }
  }

  uncountEntry({ segment }: OpenSegment, open: OpenEntry): void {
    if (!open.counted) return
    this.counters.removeEntry(open.counted, open.entry.event, segment.version)
    open.counted = undefined
  }

  addCounted(opened: OpenSegment): void {
    for (const open of opened.open.values()) if (open.counted) this.addEntry(opened, open)
  }

  /** Returns the existing delivery if its object was listed before its segment arrived. */
  addEntry(opened: OpenSegment, open: OpenEntry, stage?: Stage): Delivery {
    const queue = this.queueOf(open.entry)
    const found = this.objectBacked.findEntry(opened.segment.version, open.entry)
    open.delivery = found ?? deliveryFromEntry(queue, opened, open.entry, stage)
    if (!found) this.add(open.delivery)
    this.uncountEntry(opened, open)
    return open.delivery
  }

  /** Sets the delivery back to what the log alone says when its shard changes hands. It stays stopped. */
  resetEntry(opened: OpenSegment, open: OpenEntry): Delivery {
    const delivery = open.delivery?.left === false ? open.delivery : this.addEntry(opened, open, 'waiting')
    delivery.stage = 'waiting'
    delivery.queue.restore(delivery)
    delivery.attempts = 0
    delivery.dueAt = 0
    delivery.isSuspect = false
    delivery.storage = { kind: 'log', segment: opened, entry: open.entry }
    this.objectBacked.delete(delivery)
    this.#timers.delete(delivery)
    return delivery
  }

  /** Adds a delivery to its queue. One with an object must be added to `objectBacked` as well. */
  add(delivery: Delivery): void {
    this.counters.add(delivery)
    delivery.queue.add(delivery)
    this.#proceed(delivery)
  }

  resume(delivery: Delivery): void {
    delivery.queue.restore(delivery)
    if (delivery.stage === 'queued') {
      delivery.stage = 'waiting'
      delivery.queue.markDue(delivery)
    }
    this.#proceed(delivery)
  }

  owns(endpointUid: string): boolean {
    return this.ctx.shards.owns(shardOf(endpointUid))
  }

  wake(shards: ReadonlySet<number>): void {
    for (const queue of this.queues.inShards(shards)) this.#dispatcher.wake(queue)
  }

  /** Drains and detaches the queues of these shards, within DRAIN_TIMEOUT_MS. @returns whether all work in them has ended */
  async release(shards: ReadonlySet<number>): Promise<boolean> {
    const { clock } = this.ctx
    const deadline = clock.monotonic() + DRAIN_TIMEOUT_MS
    let areIdle = true
    for (const queue of this.queues.release(shards)) {
      await pollUntil(clock, () => queue.isIdle || clock.monotonic() >= deadline)
      areIdle &&= queue.isIdle
      this.#detach(queue)
    }
    return areIdle
  }

  #detach(queue: EndpointQueue): void {
    for (const delivery of queue.members()) this.#timers.delete(delivery)
    this.#dropBodies(queue)
    queue.detach()
    this.remoteOutcomes.applyDeferred(queue)
    for (const delivery of [...queue.members()]) {
      const { storage, version, index } = delivery
      const isClosed = storage.kind === 'log' && !this.ctx.segments.at(version)?.open.has(index)
      // The next owner cancels what a closed queue holds, and finds it in the store.
      if (isClosed || queue.closed) this.leave(delivery)
    }
  }

  queueOf({ event, endpoint }: LogDelivery): EndpointQueue {
    return this.queueFor({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
  }

  queueFor(endpoint: EndpointIdentity): EndpointQueue {
    const existing = this.queues.get(endpoint.uid)
    if (existing) return existing
    const queue = this.queues.open(endpoint)
    const view = this.ctx.directory.find(endpoint)
    if (view) this.#applyView(queue, view)
    else this.verifyEndpoint(queue)
    return queue
  }

  /** Looks up an endpoint that the watch has not delivered. Only the replica that drives the queue acts on its absence. */
  verifyEndpoint(queue: EndpointQueue): void {
    if (queue.driver === 'us') this.#work.add(this.#lookUp(queue), queue)
  }

  async #lookUp(queue: EndpointQueue): Promise<void> {
    const { namespace, name, uid } = queue.endpoint
    const read = () => this.#options.statuses.read(namespace, name)
    const found = await retryUntilDurable(this.ctx, 'read WebhookEndpoint', read)
    if (found?.metadata.uid !== uid) this.#cancel(queue)
  }

  #endpointChanged(view: EndpointView): void {
    const queue = this.queues.get(view.endpoint.metadata.uid)
    if (queue) this.#applyView(queue, view)
  }

  #applyView(queue: EndpointQueue, { endpoint, enabled, keys }: EndpointView): void {
    queue.setPolicy(endpoint.spec)
    this.counters.setHeld(queue, !enabled)
    const wasPaused = queue.paused
    queue.paused = !enabled || keys === undefined
    if (!queue.paused) this.#dispatcher.wake(queue)
    else if (!wasPaused) this.#dropBodies(queue)
  }

  /** They are not sent soon, or by another replica. */
  #dropBodies(queue: EndpointQueue): void {
    for (const { storage } of queue.members())
      if (storage.kind === 'log') this.ctx.payloads.drop(bodyOf(storage))
  }

  #endpointRemoved(endpoint: WebhookEndpoint): void {
    const queue = this.queues.get(endpoint.metadata.uid)
    if (queue?.size === 0) this.queues.delete(queue)
    else if (queue) this.#cancel(queue)
  }

  #cancel(queue: EndpointQueue): void {
    queue.paused = true
    if (queue.driver !== 'us') return
    this.queues.close(queue)
    withOwnership(this.ctx.shards, queue.shard, () => this.#work.add(cancelQueue(this.ctx, queue), queue))
  }

  #proceed(delivery: Delivery): void {
    // Its endpoint may have been deleted during a takeover.
    if (delivery.stage === 'waiting' || delivery.queue.closed) this.wait(delivery)
    else this.#dispatcher.wake(delivery.queue)
  }

  wait(delivery: Delivery): void {
    const { queue } = delivery
    if (queue.driver === 'others') return
    if (queue.closed) this.#work.add(cancelDelivery(this.ctx, delivery), queue)
    else if (delivery.isSuspect) this.ctx.careful.hold(delivery, () => this.#makeDue(delivery))
    else this.#timers.set(delivery, dueTime(delivery, this.ctx))
  }

  #makeDue(delivery: Delivery): void {
    delivery.queue.markDue(delivery)
    this.#dispatcher.wake(delivery.queue)
  }

  finish(delivery: Delivery, state: FinishedState, hasObject: boolean): void {
    this.ctx.metrics.finished(state, Math.max(0, (this.ctx.clock.now() - delivery.acceptedAt) / 1000))
    this.end(delivery)
    this.#options.onEnded?.(delivery, state, hasObject)
  }

  hasRoomForView(organization: string): boolean {
    return this.views.hasRoom(organization)
  }

  addView(delivery: Delivery, storage: InLog, view: { body: EventBody; isPromised: boolean }): void {
    const { body, isPromised } = view
    const write = async () => {
      const result = await this.ctx.objects.storeView(delivery, storage, body)
      if (result.kind === 'stored') this.#options.onViewWritten?.(delivery)
      if (result.kind === 'refused') warnOfRefusedObject(this.ctx, delivery, result.message)
      return result.kind
    }
    const mayExist = () => storage.objectMayExist === true
    const closeEntry = () => this.#record('moved', delivery)
    this.views.add(delivery, { write, mayExist, ...(isPromised ? { closeEntry } : {}) })
  }

  rejected(endpoint: EndpointIdentity): void {
    this.onRejected?.(endpoint)
  }

  drop(delivery: Delivery): void {
    this.end(delivery)
    this.#options.onDropped?.(delivery)
  }

  runInBackground(work: Promise<unknown>, queue: EndpointQueue, how?: 'settles'): void {
    this.#work.add(work, queue, how === 'settles')
  }

  runInTurn(work: () => Promise<unknown>, queue: EndpointQueue): void {
    this.#work.addInTurn(work, queue)
  }

  /** Finishes a delivery. One with an object needs an `ended` record: the log has no other trace of its end. */
  end(delivery: Delivery): void {
    if (this.objectBacked.has(delivery)) this.recordEnd(delivery)
    this.leave(delivery)
  }

  /** Tells the other replicas that the delivery has ended. */
  recordEnd(delivery: Pick<Delivery, 'version' | 'index' | 'queue'>): void {
    this.#record('ended', delivery)
  }

  #record(
    kind: 'ended' | 'moved',
    { version, index, queue }: Pick<Delivery, 'version' | 'index' | 'queue'>,
  ): void {
    this.#work.add(this.ctx.outcomes.record({ kind, position: { version, index } }), queue)
  }

  leave(delivery: Delivery): void {
    if (delivery.left) return
    const { queue } = delivery
    delivery.left = true
    this.objectBacked.delete(delivery)
    this.remoteOutcomes.forget(delivery)
    // Frees the payload, while something may still refer to the delivery.
    delivery.storage = IN_OBJECT
    this.#timers.delete(delivery)
    queue.remove(delivery)
    this.counters.remove(delivery)
    if (queue.closed && queue.size === 0) this.queues.delete(queue)
    if (queue.driver === 'us') this.#dispatcher.wake(queue)
    else if (queue.size === 0 && !this.ctx.directory.find(queue.endpoint)) this.queues.delete(queue)
  }
}
