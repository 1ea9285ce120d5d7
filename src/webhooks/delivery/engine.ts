import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { withOwnership, withoutOwnership } from '../../ha/ownership.ts'
import { pollUntil } from '../../lib/sleep.ts'
import { Timers } from '../../lib/timers.ts'
import type { EndpointStatusWriter, EndpointView } from '../endpoints/directory.ts'
import { attempt } from './attempt.ts'
import { cancelDelivery, cancelQueue } from './cancel.ts'
import { ATTEMPT_DEADLINE_MS, BackgroundWork, type EngineContext, retryUntilDurable } from './context.ts'
import { busyQueues, PendingCounters } from './counters.ts'
import { Dispatcher, EndpointQueues } from './dispatcher.ts'
import { PromotionQueue } from './promotion.ts'
import {
  type Delivery,
  deliveryFromEntry,
  dueTime,
  type EndpointQueue,
  type EndpointRef,
  IN_OBJECT,
  type OpenEntry,
  type OpenSegment,
  type OpenSegments,
  type Stage,
} from './queue.ts'
import { ObjectBackedDeliveries, RemoteOutcomes } from './remote-outcomes.ts'

/** Lanes that this replica hands over: what is under way in them ends first. */

/**
 * As long as others wait if this replica has died: an attempt ends within its deadline, and what it came to may still be on its way
 * then. A write that does not succeed is not waited for any longer.
 */
export const DRAIN_TIMEOUT_MS = ATTEMPT_DEADLINE_MS + 1000

/** Calls `rest` for each lane as soon as nothing of it is under way. @returns whether that was so of all in time */
async function drainQueues(
  { clock }: Pick<EngineContext, 'clock'>,
  lanes: readonly EndpointQueue[],
  rest: (lane: EndpointQueue) => void,
): Promise<boolean> {
  const last = clock.monotonic() + DRAIN_TIMEOUT_MS
  let areIdle = true
  for (const lane of lanes) {
    await pollUntil(clock, () => lane.isIdle || clock.monotonic() >= last)
    areIdle &&= lane.isIdle
    rest(lane)
  }
  return areIdle
}

/** Deliveries of the lane that the log alone knew of, and has closed. */
function closedEntries(segments: OpenSegments, lane: EndpointQueue): Delivery[] {
  return [...lane.members()].filter(
    ({ storage, version, index }) => storage.kind === 'log' && !segments.at(version)?.open.has(index),
  )
}

/**
 * Entries of lanes that another replica drives. Nearly all of them are closed within a moment, and until then nobody asks for
 * more than how many there are: a delivery in its lane for each would cost this replica more than all else that it does
 * about them. Those that stay get one, and so do all of a shard that is taken over.
 */

type Of = { opened: OpenSegment; open: OpenEntry; lane: EndpointQueue | undefined }

/** Counts it, where that says all there is to say of it by now; or takes it into its lane at once. */
export function countEntry(engine: DeliveryEngine, { opened, open, lane }: Of): void {
  const { event } = open.entry
  const isShown = engine.objectBacked.findEntry(opened.segment.version, open.entry) !== undefined
  // What is held is counted by its bytes; and what its lane is not known to be, only that can tell.
  if (!lane || lane.held || isShown) engine.addEntry(opened, open)
  else {
    open.counted = lane
    engine.counters.addEntry(lane, event)
  }
}

/** It is pending no longer, or has a delivery that counts in its place. */
export function uncountEntry({ counters }: DeliveryEngine, { segment }: OpenSegment, open: OpenEntry): void {
  if (!open.counted) return
  counters.removeEntry(open.counted, open.entry.event, segment.version)
  open.counted = undefined
}

/** Those that were only counted are in their lanes from here on. */
function addCounted(engine: DeliveryEngine, opened: OpenSegment): void {
  for (const open of opened.open.values()) if (open.counted) engine.addEntry(opened, open)
}

/**
 * Entries of the log that have no outcome yet (held, waiting in an ordered lane, or hanging): after a while they get an object,
 * which shows them, so that their segment can close.
 */

/** Segments close within seconds. */
const PROMOTED_AFTER_MS = 2000
/** Those that come within so long are looked at together: a timer each would wake a replica as often as the log itself does. */
const TOGETHER_MS = 250
/** A busy lane that gets along may keep entries in the log for longer: an object each would slow it down. */
const PROGRESS_MS = 2000
const AT_MOST_MS = 30_000

class PromotionScheduler {
  readonly #engine: DeliveryEngine
  readonly #queue: PromotionQueue
  /** Those that are looked at again, however many ask for it. */
  readonly #looking = new Set<OpenSegment>()
  /** A look is at the segments of many shards, whichever of them has begun it. */
  readonly #aside = withoutOwnership()
  #newest: { since: number; segments: OpenSegment[] } | undefined

  constructor(engine: DeliveryEngine) {
    this.#engine = engine
    this.#queue = new PromotionQueue(engine.ctx)
  }

  /** Gives those of the segment that have no outcome by then an object, and looks again as long as there are any. */
  promoteLater(opened: OpenSegment): void {
    if (opened.open.size === 0 || this.#looking.has(opened)) return
    this.#looking.add(opened)
    this.#gather(opened)
  }

  #gather(opened: OpenSegment): void {
    const { clock } = this.#engine.ctx
    const now = clock.monotonic()
    if (this.#newest && now - this.#newest.since < TOGETHER_MS) {
      this.#newest.segments.push(opened)
      return
    }
    const segments = [opened]
    this.#newest = { since: now, segments }
    const showAll = () => {
      for (const one of segments) this.#show(one)
    }
    this.#aside(() => clock.after(PROMOTED_AFTER_MS + TOGETHER_MS, showAll))
  }

  #show(opened: OpenSegment): void {
    this.#looking.delete(opened)
    if (opened.open.size === 0) return
    addCounted(this.#engine, opened)
    this.#moveOurs(opened)
    this.promoteLater(opened)
  }

  #moveOurs(opened: OpenSegment): void {
    const { clock, shards } = this.#engine.ctx
    const now = clock.monotonic()
    const old = clock.now() - opened.segment.writtenAt > AT_MOST_MS
    for (const { delivery } of opened.open.values()) {
      if (delivery?.storage.kind !== 'log' || !shards.owns(delivery.queue.shard)) continue
      const { storage, queue } = delivery
      if (storage.promotion || storage.status || queue.closed) continue
      const getsAlong = !queue.ordered && !queue.paused && now - queue.lastSuccess < PROGRESS_MS
      if (getsAlong && !old) continue
      this.#queue.add(delivery, storage)
    }
  }
}

/**
 * The delivery plane: takes deliveries in from the log and from objects, keeps a lane for each endpoint, and
 * lets lanes send in fair turns. What an endpoint allows is looked at before every attempt. Lanes of shards that another
 * replica drives are kept as well, so that it is known what is pending, and nothing has to be read when they change hands;
 * nothing happens in them.
 */

/** Outcomes on their way to the store beyond which nothing new is sent. */
const MAX_SETTLING = 4096

/** What the plane is given; the callbacks of the context are its own. */
export type EngineOptions = Omit<EngineContext, 'wait' | 'ended' | 'promoted' | 'dropped' | 'background'> & {
  maxInFlight: number
  statuses: EndpointStatusWriter
  /** Told of every end. */
  onEnded?: (delivery: Delivery, state: DeliveryState, object: boolean) => void
  /** Told of a delivery whose object is gone before its end. */
  onDropped?: (delivery: Delivery) => void
}

export class DeliveryEngine {
  readonly ctx: EngineContext
  readonly counters = new PendingCounters()
  readonly #options: EngineOptions
  readonly queues = new EndpointQueues()
  /** Those that an object has. */
  readonly objectBacked = new ObjectBackedDeliveries()
  readonly remoteOutcomes = new RemoteOutcomes({
    shown: this.objectBacked,
    forget: (delivery) => this.leave(delivery),
  })
  readonly #dispatcher: Dispatcher
  readonly #timers: Timers<Delivery>
  readonly #waiting: PromotionScheduler
  readonly #work: BackgroundWork
  #running = false

  constructor(options: EngineOptions) {
    this.#options = options
    this.#timers = new Timers<Delivery>({ clock: options.clock, log: options.log }, (delivery) =>
      this.#due(delivery),
    )
    this.ctx = {
      ...options,
      wait: (delivery) => this.#wait(delivery),
      ended: (delivery, state, object) => this.#ended(delivery, state, object),
      promoted: (delivery) => this.remoteOutcomes.markPromoted(delivery),
      dropped: (delivery) => {
        this.end(delivery)
        options.onDropped?.(delivery)
      },
      background: (work, lane, how) => this.#work.add(work, lane, how === 'settles'),
    }
    this.#work = new BackgroundWork(this.ctx, (lane) => this.#dispatcher.wake(lane))
    this.#waiting = new PromotionScheduler(this)
    this.#dispatcher = new Dispatcher({
      maxInFlight: options.maxInFlight,
      mayStart: () => this.#running && this.#work.size < MAX_SETTLING && options.outcomes.healthy(),
      mayRun: ({ driver, shard }) => driver === 'us' && options.shards.owns(shard),
      run: (delivery) =>
        withOwnership(options.shards, delivery.queue.shard, () => attempt(this.ctx, delivery)),
    })
    options.directory.listen({
      changed: (view) => this.#endpointChanged(view),
      removed: (endpoint) => this.#endpointRemoved(endpoint),
    })
  }

  /** Starts sending; until then deliveries are only taken in. */
  start(): void {
    this.#running = true
    this.#dispatcher.pump()
  }

  /** No new attempt from here on. */
  stop(): void {
    this.#running = false
    this.#timers.stop()
  }

  /** Resolves when running attempts have ended and what they came to is stored. */
  async drained(): Promise<void> {
    await pollUntil(this.ctx.clock, () => this.#dispatcher.inFlight === 0 && this.#work.size === 0)
  }

  stats() {
    const { inFlight, waitingQueues: waitingLanes } = this.#dispatcher
    return {
      inFlight,
      waitingLanes,
      lanes: busyQueues(this.queues.ours()),
      settling: this.#work.size,
      openSegments: this.ctx.segments.size,
    }
  }

  /**
   * Takes an entry of the log into its lane, where it is queued if this replica drives that. One whose object was found
   * before its segment was shown is there already.
   */
  addEntry(opened: OpenSegment, open: OpenEntry, stage?: Stage): Delivery {
    const { event, endpoint } = open.entry
    const lane = this.queueFor({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
    const found = this.objectBacked.findEntry(opened.segment.version, open.entry)
    open.delivery = found ?? deliveryFromEntry(lane, opened, open.entry, stage)
    if (!found) this.add(open.delivery)
    uncountEntry(this, opened, open)
    return open.delivery
  }

  /** The same again when its shard changes hands: nothing is known of it but what the log says. It stands still. */
  resetEntry(opened: OpenSegment, open: OpenEntry): Delivery {
    const held = open.delivery?.left === false ? open.delivery : this.addEntry(opened, open, 'waiting')
    held.stage = 'waiting'
    held.queue.restore(held)
    held.attempts = 0
    held.dueAt = 0
    held.storage = { kind: 'log', segment: opened, entry: open.entry }
    this.objectBacked.delete(held)
    this.#timers.delete(held)
    return held
  }

  /** What an object shows has to be told to `shown` as well. */
  add(delivery: Delivery): void {
    this.counters.add(delivery)
    delivery.queue.add(delivery)
    this.#goOn(delivery)
  }

  /** One that is in its lane already goes on from its stage. */
  resume(delivery: Delivery): void {
    delivery.queue.restore(delivery)
    if (delivery.stage === 'queued') {
      delivery.stage = 'waiting'
      delivery.queue.markDue(delivery)
    }
    this.#goOn(delivery)
  }

  /** Whether this replica may act for the endpoint now. */
  owns(endpointUid: string): boolean {
    return this.ctx.shards.owns(shardOf(endpointUid))
  }

  /** This replica's shards: what waits in their lanes may start. */
  wake(shards: ReadonlySet<number>): void {
    for (const lane of this.queues.inShards(shards)) this.#dispatcher.wake(lane)
  }

  /**
   * Begins nothing more in the lanes of these shards. Resolves when nothing of them is under way, and they are at rest; a
   * write that does not succeed is not waited for longer than others would if this replica had died.
   * @returns whether all of it has ended
   */
  async release(shards: ReadonlySet<number>): Promise<boolean> {
    return await drainQueues(this.ctx, this.queues.release(shards), (lane) => {
      for (const delivery of lane.members()) this.#timers.delete(delivery)
      lane.detach()
      this.remoteOutcomes.applyDeferred(lane)
      for (const delivery of closedEntries(this.ctx.segments, lane)) this.leave(delivery)
      // Whoever has the shard cancels the rest, and finds it where it is if that is this one again.
      if (lane.closed) for (const delivery of [...lane.members()]) this.leave(delivery)
    })
  }

  /** Gives entries of the segment that have no outcome by then an object. */
  promoteLater(opened: OpenSegment): void {
    this.#waiting.promoteLater(opened)
  }

  queueFor(endpoint: EndpointRef): EndpointQueue {
    const held = this.queues.get(endpoint.uid)
    if (held) return held
    const lane = this.queues.open(endpoint)
    const view = this.ctx.directory.find(endpoint)
    if (view) this.#applyView(lane, view)
    else this.verifyEndpoint(lane)
    return lane
  }

  /** Only the replica that drives the lane acts on that its endpoint is gone. */
  verifyEndpoint(lane: EndpointQueue): void {
    if (lane.driver === 'us') this.#work.add(this.#lookUp(lane), lane)
  }

  /** An endpoint that the watch has not shown: only that it does not exist cancels. */
  async #lookUp(lane: EndpointQueue): Promise<void> {
    const { namespace, name, uid } = lane.endpoint
    const read = () => this.#options.statuses.read(namespace, name)
    const found = await retryUntilDurable(this.ctx, 'reading an endpoint', read)
    if (found?.metadata.uid !== uid) this.#cancel(lane)
  }

  #endpointChanged(view: EndpointView): void {
    const lane = this.queues.get(view.endpoint.metadata.uid)
    if (lane) this.#applyView(lane, view)
  }

  #applyView(lane: EndpointQueue, view: EndpointView): void {
    const { ordered, concurrency } = view.endpoint.spec
    lane.setPolicy({ ordered, concurrency })
    this.counters.setHeld(lane, !view.enabled)
    lane.paused = !view.enabled || view.keys === undefined
    if (!lane.paused) this.#dispatcher.wake(lane)
  }

  #endpointRemoved(endpoint: WebhookEndpoint): void {
    const lane = this.queues.get(endpoint.metadata.uid)
    if (lane?.size === 0) this.queues.delete(lane)
    else if (lane) this.#cancel(lane)
  }

  #cancel(lane: EndpointQueue): void {
    lane.paused = true
    if (lane.driver !== 'us') return
    this.queues.close(lane)
    withOwnership(this.ctx.shards, lane.shard, () => this.#work.add(cancelQueue(this.ctx, lane), lane))
  }

  #goOn(delivery: Delivery): void {
    // Its endpoint may have gone while a take-over brought it to where it is.
    if (delivery.stage === 'waiting' || delivery.queue.closed) this.#wait(delivery)
    else this.#dispatcher.wake(delivery.queue)
  }

  #wait(delivery: Delivery): void {
    const { queue } = delivery
    if (queue.driver === 'others') return
    if (queue.closed) this.#work.add(cancelDelivery(this.ctx, delivery), queue)
    else this.#timers.set(delivery, dueTime(delivery, this.ctx))
  }

  #due(delivery: Delivery): void {
    delivery.queue.markDue(delivery)
    this.#dispatcher.wake(delivery.queue)
  }

  #ended(delivery: Delivery, state: DeliveryState, object: boolean): void {
    this.ctx.metrics.finished(state, Math.max(0, (this.ctx.clock.now() - delivery.acceptedAt) / 1000))
    this.end(delivery)
    this.#options.onEnded?.(delivery, state, object)
  }

  /** It has come to its end. Of what had no object the log has told that; what an object shows ends without a word there. */
  end(delivery: Delivery): void {
    if (this.objectBacked.has(delivery)) {
      const { version, index } = delivery
      const ended = this.ctx.outcomes.record({ kind: 'ended', position: { version, index } })
      this.#work.add(ended, delivery.queue)
    }
    this.leave(delivery)
  }

  /** It is pending no longer. */
  leave(delivery: Delivery): void {
    if (delivery.left) return
    const { queue } = delivery
    delivery.left = true
    this.objectBacked.delete(delivery)
    this.remoteOutcomes.forget(delivery)
    // Its payload must not stay for as long as something refers to it.
    delivery.storage = IN_OBJECT
    this.#timers.delete(delivery)
    queue.remove(delivery)
    this.counters.remove(delivery)
    if (queue.closed && queue.size === 0) this.queues.delete(queue)
    if (queue.driver === 'us') this.#dispatcher.wake(queue)
    else if (queue.size === 0 && !this.ctx.directory.find(queue.endpoint)) this.queues.delete(queue)
  }
}
