/**
 * The delivery plane: takes deliveries in from the log and from objects, keeps a lane for each endpoint, and
 * lets lanes send in fair turns. What an endpoint allows is looked at before every attempt.
 */
import type { DeliveryState } from '../../api/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../api/webhook-endpoint.ts'
import { INLINE_PAYLOAD_BYTES } from '../../domain/payload.ts'
import { shardOf } from '../../domain/shard.ts'
import type { LogDelivery } from '../../ports/delivery-log.ts'
import { ownText } from '../../runtime/own-text.ts'
import { Timers } from '../../runtime/timers.ts'
import type { EndpointView } from '../endpoint/endpoint-directory.ts'
import type { EndpointStatusWriter } from '../endpoint/endpoint-status.ts'
import { attempt } from './attempt.ts'
import { cancelDelivery, cancelLane } from './cancel-lane.ts'
import type { Delivery } from './delivery.ts'
import { Dispatcher } from './dispatcher.ts'
import { Lane, type LaneEndpoint } from './lane.ts'
import { MoveQueue } from './move-queue.ts'
import { moveWaiting } from './move-waiting.ts'
import type { OpenSegment } from './open-segments.ts'
import type { PlaneContext } from './plane-context.ts'
import { Tally } from './tally.ts'

/** Without an outcome after this long, an entry of the log gets an object, so that segments close within seconds. */
const SHOWN_AFTER_MS = 2000
/** Outcomes on their way to the store beyond which nothing new is sent. */
const MAX_SETTLING = 4096

/** What the plane is given; the callbacks of the context are its own. */
export type PlaneOptions = Omit<PlaneContext, 'wait' | 'ended' | 'dropped' | 'background'> & {
  maxInFlight: number
  statuses: EndpointStatusWriter
  /** Told of every end. */
  onEnded?: (delivery: Delivery, state: DeliveryState, object: boolean) => void
  /** Told of a delivery whose object is gone before its end. */
  onDropped?: (delivery: Delivery) => void
}

export class DeliveryPlane {
  readonly ctx: PlaneContext
  readonly tally = new Tally()
  readonly #options: PlaneOptions
  readonly #lanes = new Map<string, Lane>()
  readonly #dispatcher: Dispatcher
  readonly #timers: Timers<Delivery>
  readonly #moves: MoveQueue
  readonly #settling = new Set<Promise<void>>()
  #running = false

  constructor(options: PlaneOptions) {
    this.#options = options
    this.#timers = new Timers<Delivery>({ clock: options.clock, log: options.log }, (delivery) =>
      this.#due(delivery),
    )
    this.ctx = {
      ...options,
      wait: (delivery) => this.#wait(delivery),
      ended: (delivery, state, object) => this.#ended(delivery, state, object),
      dropped: (delivery) => {
        this.#leave(delivery)
        options.onDropped?.(delivery)
      },
      background: (work, lane) => this.#background(work, lane),
    }
    this.#moves = new MoveQueue(this.ctx)
    this.#dispatcher = new Dispatcher({
      maxInFlight: options.maxInFlight,
      mayStart: () => this.#running && this.#settling.size < MAX_SETTLING && options.outcomes.healthy(),
      run: (delivery) => attempt(this.ctx, delivery),
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
    while (this.#dispatcher.inFlight > 0 || this.#settling.size > 0) {
      await Promise.race([
        ...this.#settling,
        new Promise((resolve) => this.ctx.clock.after(20, () => resolve(undefined))),
      ])
    }
  }

  stats() {
    const { inFlight, waitingLanes } = this.#dispatcher
    return {
      inFlight,
      waitingLanes,
      lanes: this.#busyLanes(),
      settling: this.#settling.size,
      openSegments: this.ctx.segments.size,
    }
  }

  /** A lane stays for as long as its endpoint does. */
  #busyLanes(): number {
    let busy = 0
    for (const { size } of this.#lanes.values()) if (size > 0) busy += 1
    return busy
  }

  /** Age of the oldest delivery that is due now and whose endpoint takes deliveries; 0 if there is none. */
  oldestDueSeconds(): number {
    const now = this.ctx.clock.now()
    let oldest = now
    for (const lane of this.#lanes.values()) {
      if (lane.paused) continue
      for (const { stage, acceptedAt } of lane.members())
        if (stage !== 'waiting') oldest = Math.min(oldest, acceptedAt)
    }
    return (now - oldest) / 1000
  }

  lanes(): IterableIterator<Lane> {
    return this.#lanes.values()
  }

  /** Whether this replica may work on the deliveries of the endpoint. */
  owns(endpointUid: string): boolean {
    return this.ctx.shards.owns(shardOf(endpointUid))
  }

  /** @param stage `sending` for one whose outcome is known but not shown yet: it is not attempted */
  takeEntry(opened: OpenSegment, entry: LogDelivery, stage: 'queued' | 'sending' = 'queued'): Delivery {
    const { event, endpoint } = entry
    const lane = this.laneOf({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
    const delivery: Delivery = {
      // It may wait for hours, in which the text of the segment must not stay.
      name: ownText(event.id),
      lane,
      version: opened.segment.version,
      index: entry.index,
      acceptedAt: opened.segment.writtenAt,
      bytes: Math.min(event.payload.length, INLINE_PAYLOAD_BYTES),
      attempts: 0,
      dueAt: 0,
      stage,
      left: false,
      home: { kind: 'log', segment: opened, entry },
    }
    opened.deliveries.push(delivery)
    this.take(delivery)
    return delivery
  }

  take(delivery: Delivery): void {
    this.tally.add(delivery)
    delivery.lane.add(delivery)
    if (delivery.stage === 'waiting') this.#wait(delivery)
    else this.#dispatcher.wake(delivery.lane)
  }

  /** Gives entries of the segment that have no outcome by then an object. */
  showLater(opened: OpenSegment): void {
    if (opened.open > 0) this.ctx.clock.after(SHOWN_AFTER_MS, () => this.#show(opened))
  }

  laneOf(endpoint: LaneEndpoint): Lane {
    const held = this.#lanes.get(endpoint.uid)
    if (held) return held
    const { namespace, name, uid } = endpoint
    const lane = new Lane({ namespace: ownText(namespace), name: ownText(name), uid: ownText(uid) })
    this.#lanes.set(lane.endpoint.uid, lane)
    const view = this.ctx.directory.find(endpoint)
    if (view) this.#applyView(lane, view)
    else this.#background(this.#lookUp(lane))
    return lane
  }

  /** An endpoint that the watch has not shown: only that it does not exist cancels. */
  async #lookUp(lane: Lane): Promise<void> {
    const { namespace, name, uid } = lane.endpoint
    try {
      const found = await this.#options.statuses.read(namespace, name)
      if (found?.metadata.uid !== uid) this.#cancel(lane)
    } catch (error) {
      this.ctx.log.warn('An endpoint could not be read', { error, namespace, endpoint: name })
      this.ctx.clock.after(1000, () => this.#background(this.#lookUp(lane)))
    }
  }

  #endpointChanged(view: EndpointView): void {
    const lane = this.#lanes.get(view.endpoint.metadata.uid)
    if (lane) this.#applyView(lane, view)
  }

  #applyView(lane: Lane, view: EndpointView): void {
    const { ordered, concurrency } = view.endpoint.spec
    lane.setPolicy({ ordered, concurrency })
    this.tally.hold(lane, !view.enabled)
    lane.paused = !view.enabled || view.keys === undefined
    if (!lane.paused) this.#dispatcher.wake(lane)
  }

  #endpointRemoved(endpoint: WebhookEndpoint): void {
    const lane = this.#lanes.get(endpoint.metadata.uid)
    if (lane) this.#cancel(lane)
  }

  #cancel(lane: Lane): void {
    lane.close()
    this.#lanes.delete(lane.endpoint.uid)
    this.#background(cancelLane(this.ctx, lane))
  }

  #show(opened: OpenSegment): void {
    if (opened.open === 0) return
    moveWaiting(this.ctx, opened, this.#moves)
    this.showLater(opened)
  }

  #wait(delivery: Delivery): void {
    if (delivery.lane.closed) this.#background(cancelDelivery(this.ctx, delivery))
    else this.#timers.set(delivery, delivery.dueAt)
  }

  #due(delivery: Delivery): void {
    delivery.lane.due(delivery)
    this.#dispatcher.wake(delivery.lane)
  }

  #ended(delivery: Delivery, state: DeliveryState, object: boolean): void {
    this.ctx.metrics.finished(state, Math.max(0, (this.ctx.clock.now() - delivery.acceptedAt) / 1000))
    this.#leave(delivery)
    this.#options.onEnded?.(delivery, state, object)
  }

  #leave(delivery: Delivery): void {
    if (delivery.left) return
    delivery.left = true
    this.#timers.delete(delivery)
    delivery.lane.remove(delivery)
    this.tally.remove(delivery)
    this.#dispatcher.wake(delivery.lane)
  }

  #background(work: Promise<void>, lane?: Lane): void {
    if (lane) lane.settling += 1
    const guarded = work.catch((error: unknown) => {
      if (!this.ctx.giveUp.aborted) this.ctx.log.error('Work of the delivery plane failed', { error })
    })
    this.#settling.add(guarded)
    void guarded.then(() => {
      this.#settling.delete(guarded)
      if (lane) lane.settling -= 1
      if (lane) this.#dispatcher.wake(lane)
      else this.#dispatcher.pump()
    })
  }
}
