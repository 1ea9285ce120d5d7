import { parsePosition } from '../../apis/delivery-segment.ts'
import { deliveryObjectName } from '../../apis/ids.ts'
import type { DeliveryOutline, DeliveryState } from '../../apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { isApiError, type ObjectRef, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { sleep } from '../../lib/sleep.ts'
import type { Delivery } from '../delivery/queue.ts'
import { isFinal } from '../delivery/status.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import {
  type EndpointRef,
  FinishedIndex,
  type NewFinishedDelivery,
  PayloadRefs,
} from './finished-deliveries.ts'
import { Deleter, DeletionRate, PayloadRefVerifier, preserveKeys } from './retention-deleter.ts'
import type { RetentionLimits } from './retention-plan.ts'
import { LogSweep, outcomesBytes, scanLog, toSegmentEntry } from './segment-sweep.ts'
import type { EventLog, LoggedOutcomes, LogSegment } from './store.ts'

/** Small corrections of the clock are taken as they come. */
const TOLERANCE_MS = 60_000
const UNSEEN_MS = 10 * 60_000
const BELIEVED_AFTER_MS = 60 * 60_000

/**
 * The wall time for ages. A clock that is set far ahead makes everything old at once; by mistake it is mostly
 * mended soon, and what was deleted does not come back. So such a time counts only when it has stood for an hour.
 */
export class SkewGuardedClock {
  readonly #clock: Clock
  /** Wall time less monotonic time, as believed. */
  #offset: number
  /** An offset that is not believed yet, since when, and when it was last seen, monotonic. */
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
      // Nobody has looked for long, and it may have been mended meanwhile; or it was mended in part.
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

/** How much comes in a second, smoothed: what came at once counts as if it had come over minutes. */
const SMOOTHED_OVER_MS = 120_000

export class ArrivalRate {
  #perMs = 0
  #at = 0

  /** @param monotonic milliseconds */
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

/**
 * Finished deliveries of an endpoint that does not exist any more go with it. Owner references say so as well, but
 * not every cluster runs the garbage collector. The watch may be behind, so the endpoint is looked up first.
 */

/** Look-ups in one round. */
const AT_A_TIME = 16

class GoneEndpoints {
  readonly #resources: ResourceReader
  readonly #doubtful = new Map<string, EndpointRef>()

  constructor(resources: ResourceReader) {
    this.#resources = resources
  }

  /** The endpoint may be gone. */
  suspect(endpoint: EndpointRef): void {
    this.#doubtful.set(endpoint.uid, endpoint)
  }

  /** Looks up some of those in doubt. @returns the UIDs of those that are gone */
  async check(): Promise<string[]> {
    const some = [...this.#doubtful.values()].slice(0, AT_A_TIME)
    const gone = await Promise.all(
      some.map(async (endpoint) => ((await this.#isGone(endpoint)) ? [endpoint.uid] : [])),
    )
    return gone.flat()
  }

  async #isGone(endpoint: EndpointRef): Promise<boolean> {
    const { namespace, name, uid } = endpoint
    this.#doubtful.delete(uid)
    try {
      const found = await this.#resources.get(webhookEndpoints, { namespace, name })
      return found.metadata.uid !== uid
    } catch (error) {
      if (isApiError(error, 'NotFound')) return true
      // Behind the others, and not at once.
      this.#doubtful.set(uid, endpoint)
      return false
    }
  }
}

/**
 * Keeps the space that Davit takes in the cluster's store bounded: deletes finished deliveries and closed segments
 * of the log, evenly and off the hot path. It is told what there is; what goes, `domain/retention.ts` decides.
 */

export type RetentionOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  clock: Clock
  log: Logger
  limits: RetentionLimits
  directory: EndpointDirectory
  /** Every entry of the log up to this version is closed. */
  lowWater: () => number
  /** False while outcomes cannot be stored. */
  healthy: () => boolean
  /** Ends some of what is held too long at that time, milliseconds since 1970; called every few seconds. */
  cancelHeld: (now: number) => void
  /** Part of all endpoints that are this process's, 0 to 1; absent: all. */
  share?: () => number
  /** Whether finished deliveries of a shard are this process's to delete; absent: all are. */
  isOurs?: (shard: number) => boolean
  /** Takes what segments that go say of Idempotency-Keys. */
  eventLog: EventLog
}

/** How often the whole is looked at. */
const LOOK_EVERY_MS = 5000
/** While the log is over its bound, and looking makes room. */
const LOOK_AGAIN_MS = 500
/** A group waits for its slowest delete; others go on meanwhile. */
const GROUPS = 4

export class Retention {
  readonly #options: RetentionOptions
  /** The wall time for ages. */
  readonly time: SkewGuardedClock
  readonly #finished: FinishedIndex
  readonly #refs = new PayloadRefs()
  readonly #refCheck: PayloadRefVerifier
  readonly #sweep: LogSweep
  readonly #gone: GoneEndpoints
  readonly #deleter: Deleter
  /** Of what will have to be deleted. */
  readonly #arrivals = new ArrivalRate()
  readonly #ended = new AbortController()
  #following: AbortController | undefined
  #running: Promise<unknown> = Promise.resolve()
  #nextLook = Number.NEGATIVE_INFINITY

  constructor(options: RetentionOptions) {
    this.#options = options
    this.time = new SkewGuardedClock(options.clock)
    this.#finished = new FinishedIndex(options.limits, options.share)
    this.#sweep = new LogSweep({
      ...options,
      refs: this.#refs,
      evict: (finished) => this.#finished.evict(finished),
    })
    this.#refCheck = new PayloadRefVerifier(options.resources, this.#refs)
    this.#gone = new GoneEndpoints(options.resources)
    this.#deleter = new Deleter({
      ...options,
      finished: this.#finished,
      sweep: this.#sweep,
      onGone: (object) => this.#refs.release(object),
      keepKeys: (segment) => preserveKeys(options, segment, this.time.now()),
    })
    options.directory.listen({
      changed: () => undefined,
      removed: ({ metadata: { namespace = '', name, uid } }) => {
        if (this.#finished.has(uid)) this.#gone.suspect({ namespace, name, uid })
      },
    })
  }

  /** An object was found; `isOurs` if it is this process's to delete when it has finished. */
  objectFound({ metadata, spec, status }: DeliveryOutline, isOurs = true): void {
    const { namespace, name, creationTimestamp } = metadata
    if (spec.payloadRef) this.#refs.hold(`${namespace}/${name}`, spec.payloadRef.segment)
    if (!isFinal(status?.state) || !isOurs) return
    this.#add({
      endpoint: { namespace, name: spec.endpoint, uid: spec.endpointUid },
      name,
      succeeded: status?.state === 'succeeded',
      completedAt: this.#endOf(status?.completedAt, creationTimestamp),
      version: parsePosition(spec.position)?.version ?? 0,
      objectVersion: Number(metadata.resourceVersion) || 0,
    })
  }

  /** An object was made whose payload is in a segment; told before its entry is closed. */
  payloadReferred(object: ObjectRef, segment: string): void {
    this.#refs.hold(`${object.namespace}/${object.name}`, segment)
  }

  /** A delivery has come to its end, and its object shows it. */
  endedWithObject(delivery: Delivery, state: DeliveryState): void {
    this.#arrivals.arrived(this.#options.clock.monotonic())
    const { endpoint } = delivery.queue
    this.#add({
      endpoint,
      name: deliveryObjectName(delivery.name, endpoint.uid),
      succeeded: state === 'succeeded',
      completedAt: this.time.now(),
      version: delivery.version,
      objectVersion: Number(delivery.endVersion) || 0,
    })
  }

  /** Somebody else deleted the object of a delivery that had not finished. */
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

  /** Nothing refers to it any more, whoever has deleted it. */
  segmentGone(name: string): void {
    this.#refs.forget(name)
  }

  outcomesSeen({ name, version, createdAt, lowWater, size }: LoggedOutcomes): void {
    if (!this.#following) return
    this.#arrivals.arrived(this.#options.clock.monotonic())
    this.#sweep.outcomesSeen({
      name,
      version,
      lowWater,
      createdAt,
      bytes: outcomesBytes(size),
    })
  }

  /** Call it when every object was told by `objectFound` and the endpoints are known. */
  start(): void {
    const groups = Array.from({ length: GROUPS }, () => this.#run(new DeletionRate(1 / GROUPS)))
    this.#running = Promise.all(groups)
  }

  /**
   * The log is this process's to delete from: it is followed, and read through, a little at a time. Before that nothing
   * of it is deleted. Resolves when it is read, or is another's.
   * @param shownUpTo the version up to which every segment of events was shown
   */
  async followLog(shownUpTo: () => number): Promise<void> {
    this.leaveLog()
    const following = new AbortController()
    this.#following = following
    const found = await scanLog({ ...this.#options, signal: following.signal })
    if (found && following === this.#following) this.#sweep.scanned(found, shownUpTo)
  }

  /** The log is another's to delete from. */
  leaveLog(): void {
    this.#following?.abort()
    this.#following = undefined
    this.#sweep.reset()
  }

  /** Another process deletes the finished deliveries of these shards. */
  shardsLeft(shards: ReadonlySet<number>): void {
    this.#finished.forget(shards)
  }

  async stop(): Promise<void> {
    this.#ended.abort()
    this.#following?.abort()
    await this.#running
  }

  /** Finished deliveries with an object, the size and age of the log, and deletes since the start. */
  stats() {
    const log = this.#sweep.stats(this.#options.clock.now())
    return { finished: this.#finished.size, ...log, ...this.#deleter.counts }
  }

  /**
   * Deletes a small group of what is to go; alone and at the whole rate without a pace.
   * @param due when it was to begin, monotonic: a busy process is late, and what it lost by that is made good
   * @returns milliseconds to wait before the next
   */
  async pass(pace = new DeletionRate(), due = this.#options.clock.monotonic()): Promise<number> {
    const { clock, healthy } = this.#options
    const now = this.time.now()
    const monotonic = clock.monotonic()
    if (monotonic >= this.#nextLook) await this.#lookAlone(now)
    const arrivals = this.#arrivals.perSecond(monotonic)
    const group = await this.#deleter.deleteGroup(now, pace.groupSize(arrivals))
    return pace.waitAfter({ ...group, tookMs: clock.monotonic() - due }, arrivals, healthy())
  }

  async #run(pace: DeletionRate): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#ended
    let due = clock.monotonic()
    while (!signal.aborted) {
      let wait = LOOK_EVERY_MS
      try {
        wait = await this.pass(pace, due)
      } catch (error) {
        log.error('Retention failed; it goes on', { error })
      }
      due = clock.monotonic() + wait
      await sleep(clock, wait, signal)
    }
  }

  /** One that takes long is not begun anew beside: deleting goes on meanwhile. */
  async #lookAlone(now: number): Promise<void> {
    this.#nextLook = Number.POSITIVE_INFINITY
    let waitMs = LOOK_EVERY_MS
    try {
      if (await this.#look(now)) waitMs = LOOK_AGAIN_MS
    } finally {
      this.#nextLook = this.#options.clock.monotonic() + waitMs
    }
  }

  /** @returns whether another one should follow soon */
  async #look(now: number): Promise<boolean> {
    const { cancelHeld, clock, log } = this.#options
    cancelHeld(now)
    for (const finished of this.#deleter.drainRetries()) finished.isAbandoned = !this.#add(finished)
    for (const uid of await this.#gone.check()) this.#finished.markEndpointDeleted(uid)
    this.#sweep.plan(now)
    const winsMore = await this.#refCheck.verify(this.#sweep.takeDoubtful(), clock.monotonic())
    const error = this.#deleter.takeError()
    if (error !== undefined) log.warn('Retention could not delete; trying again', { error })
    return winsMore
  }

  /** By a clock that was ahead or behind: not later than now, and not before the API server made it. */
  #endOf(completedAt: string | undefined, createdAt: string): number {
    const created = Date.parse(createdAt) || 0
    const said = completedAt === undefined ? created : Date.parse(completedAt) || created
    return Math.max(created, Math.min(said, this.time.now()))
  }

  /** What ends while its shard is handed over is left alone: beside a share that is gone it would be one too many. */
  #add(given: NewFinishedDelivery): boolean {
    const { endpoint, name } = given
    if (this.#options.isOurs?.(shardOf(endpoint.uid)) === false) return false
    const isNew = !this.#finished.has(endpoint.uid)
    const finished = this.#finished.add(given)
    if (this.#refs.size > 0) this.#refs.finished(`${endpoint.namespace}/${name}`, finished)
    if (isNew && !this.#options.directory.find(endpoint)) this.#gone.suspect(endpoint)
    return true
  }
}
