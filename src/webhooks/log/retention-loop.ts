import { type Position, parsePosition } from '../../apis/delivery-segment.ts'
import { deliveryObjectName } from '../../apis/ids.ts'
import { isShardRecord } from '../../apis/outcome-segment.ts'
import type { DeliveryOutline, DeliveryState } from '../../apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { MAX_DATA_BYTES } from '../../apis/webhook-event.ts'
import { shardOf } from '../../ha/assignment.ts'
import { isApiError, type ObjectRef, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Logger } from '../../lib/log.ts'
import { type Clock, sleep } from '../../lib/time.ts'
import type { Delivery } from '../delivery/endpoint-queue.ts'
import { isFinal } from '../delivery/plan.ts'
import type { EndpointDirectory, EndpointIdentity } from '../endpoints/directory.ts'
import type { LogStore } from './log-store.ts'
import { Deleter, DeletionRate, PayloadRefVerifier, preserveKeys } from './retention-deleter.ts'
import { FinishedIndex, finishedBytes, type NewFinishedDelivery, PayloadRefs } from './retention-index.ts'
import type { RetentionLimits } from './retention-plan.ts'
import { LogSweep, outcomesBytes, scanLog, toSegmentEntry } from './segment-sweep.ts'
import type { EventLog, LoggedOutcomes, LogSegment } from './store.ts'

/**
 * Keeps the space that Davit takes in the cluster's store bounded: deletes finished deliveries and closed segments, evenly and off the
 * hot path. retention-plan.ts decides; see "Retention" in README.md.
 */

/** Older than any finished delivery is kept, in milliseconds since 1970. */
const LONG_AGO = 0
/** Closed in every log. */
const BEFORE_ALL: Position = { version: 0, index: 0 }
/** Smaller corrections of the clock apply at once. */
const TOLERANCE_MS = 60_000
const UNSEEN_MS = 10 * 60_000
const BELIEVED_AFTER_MS = 60 * 60_000

/**
 * The wall time for ages. A clock set far ahead makes everything old at once. That is usually a mistake that is soon fixed, and deletes
 * cannot be undone, so a jump ahead counts only after an hour.
 */
export class SkewGuardedClock {
  readonly #clock: Clock
  /** Wall time minus monotonic time, as believed. */
  #offset: number
  /** An offset that is not believed yet; times are monotonic. */
  #doubted: { offset: number; since: number; seenAt: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#offset = clock.now() - clock.monotonic()
  }

  /** Milliseconds since 1970. */
  now(): number {
    const monotonic = this.#clock.monotonic()
    const offset = this.#clock.now() - monotonic
    if (offset - this.#offset <= TOLERANCE_MS) this.#believe(offset)
    else {
      const before = this.#doubted
      // The clock was not read for long and may have been right meanwhile, or it was partly corrected.
      const isNew = !before || monotonic - before.seenAt > UNSEEN_MS || offset < before.offset - TOLERANCE_MS
      this.#doubted = isNew
        ? { offset, since: monotonic, seenAt: monotonic }
        : { ...before, seenAt: monotonic }
      if (monotonic - this.#doubted.since >= BELIEVED_AFTER_MS) this.#believe(this.#doubted.offset)
    }
    return monotonic + this.#offset
  }

  #believe(offset: number): void {
    this.#offset = offset
    this.#doubted = undefined
  }
}

const SMOOTHED_OVER_MS = 120_000

/** Arrivals per second, smoothed: a burst counts as if it had arrived over minutes. */
export class ArrivalRate {
  #perMs = 0
  #at = 0

  arrived(monotonic: number): void {
    this.#perMs = this.#decayed(monotonic) + 1 / SMOOTHED_OVER_MS
    this.#at = monotonic
  }

  perSecond(monotonic: number): number {
    return this.#decayed(monotonic) * 1000
  }

  #decayed(monotonic: number): number {
    return this.#perMs * Math.exp((this.#at - monotonic) / SMOOTHED_OVER_MS)
  }
}

const MAX_LOOK_UPS = 16

/**
 * Endpoints that seem deleted. Their finished deliveries are deleted with them: owner references do that too, but not every cluster runs
 * the garbage collector. The watch may be behind, so each is looked up first.
 */
class DeletedEndpoints {
  readonly #resources: ResourceReader
  readonly #suspected = new Map<string, EndpointIdentity>()

  constructor(resources: ResourceReader) {
    this.#resources = resources
  }

  suspect(endpoint: EndpointIdentity): void {
    this.#suspected.set(endpoint.uid, endpoint)
  }

  async check(): Promise<string[]> {
    const some = [...this.#suspected.values()].slice(0, MAX_LOOK_UPS)
    const gone = await Promise.all(
      some.map(async (endpoint) => ((await this.#isGone(endpoint)) ? [endpoint.uid] : [])),
    )
    return gone.flat()
  }

  async #isGone(endpoint: EndpointIdentity): Promise<boolean> {
    const { namespace, name, uid } = endpoint
    this.#suspected.delete(uid)
    try {
      const found = await this.#resources.get(webhookEndpoints, { namespace, name })
      return found.metadata.uid !== uid
    } catch (error) {
      if (isApiError(error, 'NotFound')) return true
      // Retry after the others.
      this.#suspected.set(uid, endpoint)
      return false
    }
  }
}

type RetentionOptions = {
  resources: ResourceReader & ResourceWriter
  store: Pick<LogStore, 'page' | 'read' | 'remove'>
  clock: Clock
  log: Logger
  limits: RetentionLimits
  directory: EndpointDirectory
  /** Every log entry up to this version is closed. */
  lowWater: () => number
  /** Whether the entry at a position of the log is closed: also ahead of the mark, which one entry of another organization may hold. */
  isClosed: (position: Position) => boolean
  healthy: () => boolean
  /** Cancels some deliveries that waited too long for a disabled endpoint; called every few seconds. @param now milliseconds since 1970 */
  cancelHeld: (now: number) => void
  /** This process's share of all endpoints, 0 to 1; absent: all. */
  share?: () => number
  /** Whether this process deletes finished deliveries of the shard; absent: all. */
  isOurs?: (shard: number) => boolean
  eventLog: EventLog
}

const PLAN_INTERVAL_MS = 5000
/** While the log is over its limit, and planning frees space. */
const BUSY_PLAN_INTERVAL_MS = 500
/** Concurrent groups, since a group waits for its slowest delete. */
const GROUPS = 4

export class Retention {
  readonly #options: RetentionOptions
  /** The wall time for ages. */
  readonly time: SkewGuardedClock
  readonly #finished: FinishedIndex
  readonly #refs = new PayloadRefs()
  readonly #refVerifier: PayloadRefVerifier
  readonly #sweep: LogSweep
  readonly #deletedEndpoints: DeletedEndpoints
  readonly #deleter: Deleter
  /** Of objects and segments that will have to be deleted. */
  readonly #arrivals = new ArrivalRate()
  readonly #stopped = new AbortController()
  #following: AbortController | undefined
  #running: Promise<unknown> = Promise.resolve()
  #nextPlan = Number.NEGATIVE_INFINITY

  constructor(options: RetentionOptions) {
    this.#options = options
    this.time = new SkewGuardedClock(options.clock)
    this.#finished = new FinishedIndex(options.limits, options.share)
    this.#sweep = new LogSweep({
      ...options,
      refs: this.#refs,
      evict: (finished) => this.#finished.evict(finished),
    })
    this.#refVerifier = new PayloadRefVerifier(options.resources, this.#refs)
    this.#deletedEndpoints = new DeletedEndpoints(options.resources)
    this.#deleter = new Deleter({
      ...options,
      finished: this.#finished,
      sweep: this.#sweep,
      onDeleted: (object) => this.#refs.release(object),
      preserveKeys: ({ name, createdAt }) => preserveKeys(options, name, this.time.now(), createdAt),
    })
    options.directory.listen({
      changed: () => undefined,
      removed: ({ metadata: { namespace = '', name, uid } }) => {
        if (this.#finished.has(uid)) this.#deletedEndpoints.suspect({ namespace, name, uid })
      },
    })
  }

  /** @param isOurs whether this process deletes it when it is finished */
  objectFound({ metadata, spec, status, isUnwritten }: DeliveryOutline, isOurs = true): void {
    const { namespace, name, creationTimestamp } = metadata
    if (spec.payloadRef) this.#refs.hold(`${namespace}/${name}`, spec.payloadRef.segment)
    if (!isFinal(status?.state) || !isOurs) return
    this.#add({
      endpoint: { namespace, name: spec.endpoint, uid: spec.endpointUid },
      name,
      succeeded: status?.state === 'succeeded',
      // Its process died before it wrote the status, and no other process writes it.
      completedAt: isUnwritten ? LONG_AGO : this.#completedAt(status?.completedAt, creationTimestamp),
      ...(parsePosition(spec.position) ?? BEFORE_ALL),
      bytes: finishedBytes(spec.payload ?? spec.payloadRef?.bytes ?? MAX_DATA_BYTES),
      objectVersion: Number(metadata.resourceVersion) || 0,
    })
  }

  /** An object was created whose body is in a segment. Call it before the log entry is closed. */
  payloadReferred(object: ObjectRef, segment: string): void {
    this.#refs.hold(`${object.namespace}/${object.name}`, segment)
  }

  /** A delivery has ended, and its object has the final status. */
  endedWithObject(delivery: Delivery, state: DeliveryState): void {
    this.#arrivals.arrived(this.#options.clock.monotonic())
    this.#addDelivery(delivery, state === 'succeeded', this.time.now())
  }

  /** A view may exist whose status will not be written: it is deleted as soon as possible. */
  viewAbandoned(delivery: Delivery): void {
    this.#addDelivery(delivery, true, LONG_AGO)
  }

  /** The object of an unfinished delivery was deleted by someone else. */
  objectGone(delivery: Delivery): void {
    if (this.#refs.size === 0) return
    const { namespace, uid } = delivery.queue.endpoint
    this.#refs.release(`${namespace}/${deliveryObjectName(delivery.name, uid)}`)
  }

  segmentSeen(segment: LogSegment): void {
    if (!this.#following) return
    this.#arrivals.arrived(this.#options.clock.monotonic())
    this.#sweep.segmentSeen(toSegmentEntry(segment))
  }

  segmentGone(name: string): void {
    this.#refs.forget(name)
  }

  outcomesSeen({ name, version, createdAt, lowWater, size, records }: LoggedOutcomes): void {
    if (!this.#following) return
    this.#arrivals.arrived(this.#options.clock.monotonic())
    const hasClaims = records.some(isShardRecord)
    this.#sweep.outcomesSeen({
      name,
      version,
      lowWater,
      createdAt,
      bytes: outcomesBytes(size),
      ...(hasClaims ? { hasClaims } : {}),
    })
  }

  /** Call it after `objectFound` for every object, and when the endpoints are known. */
  start(): void {
    const groups = Array.from({ length: GROUPS }, () => this.#run(new DeletionRate(1 / GROUPS)))
    this.#running = Promise.all(groups)
  }

  /**
   * This process deletes segments from now on: first it scans the log slowly. Resolves when it is scanned, or `leaveLog` is called.
   * @param syncedVersion the version up to which every segment of events was read
   */
  async followLog(syncedVersion: () => number): Promise<void> {
    this.leaveLog()
    const following = new AbortController()
    this.#following = following
    const found = await scanLog({ ...this.#options, signal: following.signal })
    if (found && following === this.#following) this.#sweep.scanned(found, syncedVersion)
  }

  /** Another process deletes segments from now on. */
  leaveLog(): void {
    this.#following?.abort()
    this.#following = undefined
    this.#sweep.reset()
  }

  /** Another process deletes the finished deliveries of these shards from now on. */
  shardsLeft(shards: ReadonlySet<number>): void {
    this.#finished.forget(shards)
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#following?.abort()
    await this.#running
  }

  /** Finished deliveries with an object, the size and age of the log, and deletes since the start. */
  stats() {
    const log = this.#sweep.stats(this.#options.clock.now())
    return {
      finished: this.#finished.size,
      finishedBytes: this.#finished.bytes,
      ...log,
      ...this.#deleter.counts,
    }
  }

  /**
   * Deletes a small group. @param rate default: the total rate
   * @param due when it should have started, monotonic: a busy process is late, and catches up
   * @returns milliseconds to wait before the next
   */
  async pass(rate = new DeletionRate(), due = this.#options.clock.monotonic()): Promise<number> {
    const { clock, healthy } = this.#options
    const now = this.time.now()
    const monotonic = clock.monotonic()
    if (monotonic >= this.#nextPlan) await this.#planOnce(now)
    const arrivals = this.#arrivals.perSecond(monotonic)
    const group = await this.#deleter.deleteGroup(now, rate.groupSize(arrivals))
    return rate.waitAfter({ ...group, tookMs: clock.monotonic() - due }, arrivals, healthy())
  }

  async #run(rate: DeletionRate): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#stopped
    let due = clock.monotonic()
    while (!signal.aborted) {
      let wait = PLAN_INTERVAL_MS
      try {
        wait = await this.pass(rate, due)
      } catch (error) {
        log.error('retention_pass_failed', 'retention pass failed; continuing', { error })
      }
      due = clock.monotonic() + wait
      await sleep(clock, wait, signal)
    }
  }

  /** Runs one plan at a time; the other groups go on deleting. */
  async #planOnce(now: number): Promise<void> {
    this.#nextPlan = Number.POSITIVE_INFINITY
    let waitMs = PLAN_INTERVAL_MS
    try {
      if (await this.#plan(now)) waitMs = BUSY_PLAN_INTERVAL_MS
    } finally {
      this.#nextPlan = this.#options.clock.monotonic() + waitMs
    }
  }

  /** @returns whether the next plan should follow soon */
  async #plan(now: number): Promise<boolean> {
    const { cancelHeld, clock, log } = this.#options
    cancelHeld(now)
    for (const finished of this.#deleter.drainRetries()) finished.isAbandoned = !this.#add(finished)
    for (const uid of await this.#deletedEndpoints.check()) this.#finished.markEndpointDeleted(uid)
    this.#sweep.plan(now)
    const freesMore = await this.#refVerifier.verify(this.#sweep.takeUnverified(), clock.monotonic())
    const error = this.#deleter.takeError()
    if (error !== undefined) log.warn('retention_delete_failed', 'failed to delete; retrying', { error })
    return freesMore
  }

  /** Not later than now and not before its creation, since the clock may have been wrong. */
  #completedAt(completedAt: string | undefined, createdAt: string): number {
    const created = Date.parse(createdAt) || 0
    const completed = Date.parse(completedAt ?? '') || created
    return Math.max(created, Math.min(completed, this.time.now()))
  }

  #addDelivery(delivery: Delivery, succeeded: boolean, completedAt: number): void {
    const { endpoint } = delivery.queue
    this.#add({
      endpoint,
      name: deliveryObjectName(delivery.name, endpoint.uid),
      succeeded,
      completedAt,
      version: delivery.version,
      index: delivery.index,
      bytes: finishedBytes(delivery.bodyBytes),
      objectVersion: Number(delivery.endVersion) || 0,
    })
  }

  /** @returns false if the shard was handed off: another process counts and deletes the delivery */
  #add(given: NewFinishedDelivery): boolean {
    const { endpoint, name, version, objectVersion } = given
    if (this.#options.isOurs?.(shardOf(endpoint.uid)) === false) return false
    const isNew = !this.#finished.has(endpoint.uid)
    // A position ahead of the object itself was invented, or restored from another cluster: no entry of this log is open for it.
    const isPossible = objectVersion === 0 || version < objectVersion
    const finished = this.#finished.add(isPossible ? given : { ...given, ...BEFORE_ALL })
    if (this.#refs.size > 0) this.#refs.finished(`${endpoint.namespace}/${name}`, finished)
    if (isNew && !this.#options.directory.find(endpoint)) this.#deletedEndpoints.suspect(endpoint)
    return true
  }
}
