import { ownershipHere, type ShardOwnership } from '../../ha/ownership.ts'
import { FairQueue, KeyedSums, remainingShare, SharedCapacity } from '../../lib/fair-queue.ts'
import type { Logger } from '../../lib/log.ts'
import { TokenBucket } from '../../lib/rate-limit.ts'
import { type Clock, sleep } from '../../lib/time.ts'
import type { EndpointIdentity } from '../endpoints/directory.ts'
import type { Delivery } from './endpoint-queue.ts'
import type { StoreResult } from './objects.ts'

/**
 * Views: the WebhookDeliveries of deliveries that succeeded on the first attempt. The log has their state, so these objects are for
 * people alone. They are written behind the delivery, within a rate for the whole installation, and some are left out when there are more.
 */

/** Deliveries wait for about this long at most, at the full rate. */
const WAITING_SECONDS = 30
/** Of all organizations, whatever the rate: each may hold a body of 16 KiB. */
const MAX_WAITING = 1000
/** Views that could be written at once after a pause. */
const BURST_SECONDS = 2
const WRITES_AT_A_TIME = 8
/** A namespace in which writes hang keeps the views of others waiting no longer than this allows. */
const WRITES_OF_ORGANIZATION = 4
/** A write that takes longer tells that the API server is busy. */
const SLOW_MS = 1000
/** After such a write, or one that was refused as too many, the rate is halved for so long. */
const SLOWED_MS = 10_000
/** Before another try. */
const RETRY_MS = 1000
const NEWS_MS = 60_000
/** Retention may have deleted the segment of an older one. */
const MAX_AGE_MS = 60_000

export type ViewObject = {
  /** Creates the object with its final status, if that is possible. */
  write: () => Promise<StoreResult['kind']>
  /** Whether the object may exist, perhaps without its status. */
  mayExist: () => boolean
  /**
   * For a view that was promised when there was room: its entry in the log stays open until the view is written or left out. If another
   * replica may own the shard by then, the entry is that one's.
   */
  closeEntry?: () => void
}

/** @property asAdded runs `act` in the epoch in which the delivery succeeded */
type View = ViewObject & { delivery: Delivery; since: number; asAdded: <T>(act: () => T) => T }

export type ViewWriterOptions = {
  clock: Clock
  log: Logger
  shards: ShardOwnership
  giveUp: AbortSignal
  /** Of all controllers together; 0 to write none. */
  perSecond: number
  /** The part of all shards that this replica owns. */
  share: () => number
  metrics: { viewLeftOut(): void }
}

export class ViewWriter {
  readonly #options: ViewWriterOptions
  readonly #bucket: TokenBucket
  /** An organization for each of its views. */
  readonly #turns = new FairQueue<string>()
  /** By organization, in turns by endpoint. */
  readonly #views = new Map<string, FairQueue<View>>()
  readonly #waiting = new KeyedSums()
  readonly #running = new Set<Promise<void>>()
  readonly #places = new SharedCapacity(WRITES_AT_A_TIME, WRITES_OF_ORGANIZATION)
  /** Views are of many shards, whichever of them started the loop. */
  readonly #withoutOwnership = ownershipHere()
  /** Called for an endpoint whose first view in a minute is left out, or rejected. */
  onLeftOut: ((endpoint: EndpointIdentity) => void) | undefined
  /** Called for a view that is left out although its object may exist, which then gets no status. */
  onAbandoned: ((delivery: Delivery) => void) | undefined
  #pushed = Promise.withResolvers<void>()
  #isRunning = false
  #slowedUntil = Number.NEGATIVE_INFINITY

  constructor(options: ViewWriterOptions) {
    this.#options = options
    const burst = Math.max(1, options.perSecond * BURST_SECONDS)
    this.#bucket = new TokenBucket(burst, (from, to) => ((to - from) / 1000) * this.perSecond)
  }

  get waiting(): number {
    return this.#waiting.total
  }

  /** What this replica writes now. */
  get perSecond(): number {
    const { perSecond, share, clock } = this.#options
    return perSecond * share() * (clock.monotonic() < this.#slowedUntil ? 0.5 : 1)
  }

  /** Writes a view soon, or never, if it was not promised and the organization has too many waiting. */
  add(delivery: Delivery, object: ViewObject): void {
    if (!object.closeEntry && !this.hasRoom(delivery.queue.endpoint.namespace)) {
      this.#leaveOut(delivery, 'tooMany')
      return
    }
    this.#push({ ...object, delivery, since: this.#options.clock.monotonic(), asAdded: ownershipHere() })
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#withoutOwnership(() => this.#writeAll())
  }

  #push(view: View): void {
    const { namespace, uid } = view.delivery.queue.endpoint
    const views = this.#views.get(namespace) ?? new FairQueue<View>()
    this.#views.set(namespace, views)
    views.push(uid, view)
    this.#turns.push(namespace, namespace)
    this.#waiting.add(namespace, 1)
    this.#pushed.resolve()
    this.#pushed = Promise.withResolvers()
  }

  /**
   * Whether the organization may have another view waiting. Organizations take turns, so what one has waiting lasts longer the more of them
   * there are, however much the others have.
   */
  hasRoom(namespace: string): boolean {
    const { perSecond, share } = this.#options
    const used = { organization: this.#waiting.of(namespace), all: this.#waiting.total }
    const inTurns = this.#views.size + (used.organization === 0 ? 1 : 0)
    const organization = (perSecond * share() * WAITING_SECONDS) / inTurns
    return remainingShare(used, { organization, all: MAX_WAITING }) > 0
  }

  async #writeAll(): Promise<void> {
    const { clock, giveUp } = this.#options
    // One that is being written may have to wait again.
    while (this.waiting + this.#running.size > 0 && !giveUp.aborted) {
      if (this.waiting === 0 || this.#places.isFull) await this.#untilNews()
      else if (this.#bucket.available(clock.monotonic()) < 1) await sleep(clock, this.#waitMs(), giveUp)
      else if (!this.#writeNext()) await this.#untilNews()
    }
    this.#isRunning = false
  }

  /** Until a view is written, or another one waits. */
  async #untilNews(): Promise<void> {
    await Promise.race([...this.#running, this.#pushed.promise])
  }

  #waitMs(): number {
    const missing = 1 - this.#bucket.available(this.#options.clock.monotonic())
    // Without shards nothing is written until there are some.
    return Math.min(1000, Math.max(1, (missing / this.perSecond) * 1000))
  }

  /** @returns false if all that wait are of organizations that have no place */
  #writeNext(): boolean {
    const view = this.#takeNext()
    if (!view) return false
    if (this.#isDropped(view)) return true
    this.#bucket.tryTake(this.#options.clock.monotonic())
    const { namespace } = view.delivery.queue.endpoint
    this.#places.take(namespace, 1)
    const writing = this.#write(view).finally(() => {
      this.#running.delete(writing)
      this.#places.give(namespace, 1)
    })
    this.#running.add(writing)
    return true
  }

  #takeNext(): View | undefined {
    const organization = this.#turns.take((one) => this.#places.hasRoom(one))
    if (organization === undefined) return undefined
    const views = this.#views.get(organization)
    const view = views?.take()
    if (views?.size === 0) this.#views.delete(organization)
    this.#waiting.add(organization, -1)
    return view
  }

  /** Whether the view is not written any more, which costs nothing of the rate. */
  #isDropped(view: View): boolean {
    const { delivery, since, asAdded } = view
    const { clock, shards } = this.#options
    // Another replica may have claimed the shard since: then the log does not have this success, and the object is the next owner's.
    if (asAdded(() => shards.epochs?.isRevoked)) return true
    if (clock.monotonic() - since <= MAX_AGE_MS && shards.owns(delivery.queue.shard)) return false
    this.#abandon(view, 'tooMany')
    return true
  }

  async #write(view: View): Promise<void> {
    const { write, closeEntry, asAdded } = view
    const { clock, giveUp, log } = this.#options
    const startedAt = clock.monotonic()
    try {
      const result = await asAdded(write)
      if (result === 'stored') asAdded(() => closeEntry?.())
      else this.#abandon(view, result === 'refused' ? 'rejected' : 'tooMany')
    } catch (error) {
      log.warn(
        'delivery_view_failed',
        'failed to create the WebhookDelivery of a successful delivery; retrying',
        {
          error,
        },
      )
      this.#slowDown()
      await sleep(clock, RETRY_MS, giveUp)
      this.#push(view)
    }
    if (clock.monotonic() - startedAt > SLOW_MS) this.#slowDown()
  }

  #slowDown(): void {
    this.#slowedUntil = this.#options.clock.monotonic() + SLOWED_MS
  }

  #abandon(view: View, reason: 'tooMany' | 'rejected'): void {
    const { delivery, mayExist, closeEntry, asAdded } = view
    this.#leaveOut(delivery, reason)
    if (mayExist()) this.onAbandoned?.(delivery)
    asAdded(() => closeEntry?.())
  }

  #leaveOut({ queue }: Delivery, reason: 'tooMany' | 'rejected'): void {
    const { clock, metrics } = this.#options
    const now = clock.now()
    const isNews = (at = Number.NEGATIVE_INFINITY) => now - at > NEWS_MS
    const { at, rejectedAt } = queue.leftOut ?? {}
    const isRejected = reason === 'rejected'
    queue.leftOut = { at: now, rejectedAt: isRejected ? now : rejectedAt }
    metrics.viewLeftOut()
    if (isNews(at) || (isRejected && isNews(rejectedAt))) this.onLeftOut?.(queue.endpoint)
  }
}
