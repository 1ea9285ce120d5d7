import { type Position, readDeliverySegment } from '../../apis/delivery-segment.ts'
import { unlessUnreadable } from '../../apis/log-format.ts'
import { deliveryOutline, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Logger } from '../../lib/log.ts'
import { inGroups } from '../../lib/semaphore.ts'
import type { Clock } from '../../lib/time.ts'
import { isFinal } from '../delivery/plan.ts'
import { correctedBy, isKeyAlive, keptLine, keyRecordsOf, usedAt } from './idempotency-keys.ts'
import type { LogStore } from './log-store.ts'
import type { FinishedDelivery, FinishedIndex, PayloadRefs } from './retention-index.ts'
import type { LogSweep, SegmentDeletion, UnverifiedSegment } from './segment-sweep.ts'
import type { EventLog } from './store.ts'

/**
 * The deletes of retention: how fast, in small groups of segments and delivery objects in turns, and look-ups of objects that may be
 * finished or deleted without this process knowing.
 */

/** Deletes per second. */
const SLOWEST_RATE = 100
/** Unless more arrives. Half of what an otherwise idle small control plane deletes. */
const FASTEST_RATE = 500
/** Relative to arrivals, so that a backlog shrinks. */
const SURPLUS = 1.2
/** While there is always more to delete, the rate doubles in about six minutes. */
const GROWTH = 0.002
/** Storing outcomes comes first, but deleting helps a store that is full. */
const UNHEALTHY_FACTOR = 10
const IDLE_MS = 1000

export type DeletionBatch = {
  deletes: number
  /** There may be more to delete. */
  full: boolean
  tookMs: number
  /** The store was unavailable or asked to wait this long. */
  waitMs?: number | undefined
}

/** Time between groups, unless the store is slower. */
const CYCLE_MS = 40
const SMALLEST_GROUP = 4
/** More would take connections from urgent calls. A multiple of the concurrent groups. */
const LARGEST_GROUP = 24

/** Deletes evenly, a little faster than new objects arrive, so that a burst is not deleted as a burst. */
export class DeletionRate {
  readonly #share: number
  #grown = SLOWEST_RATE
  #tookMs = 0

  /** @param share of the total rate, if several run concurrently */
  constructor(share = 1) {
    this.#share = share
  }

  /** Concurrent deletes: few, since other calls wait behind them, but enough for the rate if the store is slow. @param arrivals per second */
  groupSize(arrivals: number): number {
    const size = Math.ceil((this.#rate(arrivals) * Math.max(CYCLE_MS, this.#tookMs)) / 1000)
    return Math.min(LARGEST_GROUP * this.#share, Math.max(SMALLEST_GROUP * this.#share, size))
  }

  /** Milliseconds to wait after a group. @param arrivals per second @param healthy false while outcomes cannot be stored */
  waitAfter(group: DeletionBatch, arrivals: number, healthy: boolean): number {
    const keepsUp = !group.full || !healthy
    this.#tookMs = group.tookMs
    this.#grown = keepsUp
      ? SLOWEST_RATE
      : Math.min(FASTEST_RATE, this.#grown + (group.deletes / this.#share) * GROWTH)
    if (group.waitMs !== undefined) return Math.max(IDLE_MS, group.waitMs)
    if (group.deletes === 0) return IDLE_MS
    const even = (group.deletes * 1000) / this.#rate(arrivals)
    return healthy ? Math.max(0, even - group.tookMs) : even * UNHEALTHY_FACTOR
  }

  #rate(arrivals: number): number {
    return Math.max(this.#grown, arrivals * SURPLUS) * this.#share
  }
}

type Resources = ResourceReader & ResourceWriter
type Ref = { namespace: string; name: string }

/**
 * Deletes the object of a finished delivery in exactly the version with the final status. If that version is unknown or outdated, it
 * reads the object first; an unfinished one stays.
 * @param version resourceVersion, or 0 @throws ApiError any but `NotFound`
 */
async function deleteDelivery(
  resources: Resources,
  ref: Ref,
  version: number,
): Promise<'gone' | 'unfinished'> {
  try {
    if (version > 0 && (await deleteVersion(resources, ref, version))) return 'gone'
    return await readAndDelete(resources, ref)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return 'gone'
    throw error
  }
}

/** @returns false if it has another version */
async function deleteVersion(resources: Resources, ref: Ref, version: number): Promise<boolean> {
  try {
    await resources.delete(webhookDeliveries, ref, { resourceVersion: String(version) })
    return true
  } catch (error) {
    if (isApiError(error, 'Conflict')) return false
    throw error
  }
}

async function readAndDelete(resources: Resources, ref: Ref): Promise<'gone' | 'unfinished'> {
  const raw = await resources.get(webhookDeliveries, ref)
  const { uid, resourceVersion } = raw.metadata
  const state = deliveryOutline.safeParse(raw).data?.status?.state
  if (!isFinal(state) || uid === undefined || resourceVersion === undefined) return 'unfinished'
  await resources.delete(webhookDeliveries, ref, { uid, resourceVersion })
  return 'gone'
}

/**
 * Appends the segment's live idempotency keys as short lines without bodies, so that it may be deleted.
 * @param name of the segment @param now milliseconds since 1970 @param writtenBy when it was written at the latest, for keys of the future
 * @throws ApiError, OverloadedError transient
 */
export async function preserveKeys(
  { store, eventLog }: { store: Pick<LogStore, 'read'>; eventLog: EventLog },
  name: string,
  now: number,
  writtenBy = Number.POSITIVE_INFINITY,
): Promise<void> {
  const raw = await store.read('events', name)
  // No reader could use the keys of a segment that cannot be decoded.
  const segment = raw && unlessUnreadable(() => readDeliverySegment(raw))
  if (!segment) return
  const records = keyRecordsOf(segment.spec, Number(segment.metadata.resourceVersion)).map((record) =>
    usedAt(record) > now ? correctedBy(record, writtenBy) : record,
  )
  const kept = records.filter((record) => isKeyAlive(record, now)).map(keptLine)
  // An append is of one organization; concurrent appends share a segment.
  const appends = [...Map.groupBy(kept, ({ event }) => event.namespace).values()]
  await Promise.all(appends.map((events) => eventLog.append(events)))
}

type DeleterOptions = {
  resources: Resources
  store: Pick<LogStore, 'remove'>
  clock: Clock
  log: Logger
  isClosed: (position: Position) => boolean
  finished: FinishedIndex
  sweep: LogSweep
  /** @param object `<namespace>/<name>` */
  onDeleted: (object: string) => void
  preserveKeys: (segment: SegmentDeletion) => Promise<void>
}

const RETRY_AFTER_MS = 60_000

/** Milliseconds that the store asks to wait, if it does. */
type Wait = number | undefined

export class Deleter {
  readonly #options: DeleterOptions
  /** Failed deletes, and the monotonic time of the next try. */
  readonly #retries = new Map<FinishedDelivery, number>()
  #deleted = 0
  #failed = 0
  #lastError: unknown

  constructor(options: DeleterOptions) {
    this.#options = options
  }

  get counts(): { deleted: number; failed: number } {
    return { deleted: this.#deleted, failed: this.#failed }
  }

  /** Resolves when the whole group is answered. @param now milliseconds since 1970 @param size limit of the group */
  async deleteGroup(now: number, size: number): Promise<Omit<DeletionBatch, 'tookMs'>> {
    const { sweep } = this.#options
    const deletes: Promise<Wait>[] = []
    sweep.refill(now)
    while (deletes.length < size) {
      const next =
        deletes.length % 2 === 0
          ? (this.#nextSegment(now) ?? this.#nextDelivery(now))
          : (this.#nextDelivery(now) ?? this.#nextSegment(now))
      if (!next) break
      deletes.push(next)
    }
    const waits = (await Promise.all(deletes)).filter((wait) => wait !== undefined)
    return {
      deletes: deletes.length,
      full: deletes.length === size || sweep.hasMore,
      waitMs: waits.length > 0 ? Math.max(...waits) : undefined,
    }
  }

  drainRetries(): FinishedDelivery[] {
    const due: FinishedDelivery[] = []
    for (const [finished, at] of this.#retries) {
      if (at > this.#options.clock.monotonic()) break
      this.#retries.delete(finished)
      due.push(finished)
    }
    return due
  }

  takeError(): unknown {
    const error = this.#lastError
    this.#lastError = undefined
    return error
  }

  #nextSegment(now: number): Promise<Wait> | undefined {
    const segment = this.#options.sweep.next()
    if (!segment) return undefined
    const { store, preserveKeys: preserve } = this.#options
    const hasKeys = segment.keysUntil !== undefined && segment.keysUntil > now
    const act = async () => {
      if (hasKeys) await preserve(segment)
      await store.remove(segment.sequence, segment.name)
      segment.deleted()
    }
    // If nothing can be written, segments without keys still free space.
    return this.#attempt(act, hasKeys ? () => undefined : segment.failed)
  }

  #nextDelivery(now: number): Promise<Wait> | undefined {
    const { clock, log, resources, isClosed, onDeleted } = this.#options
    const finished = this.#options.finished.take(isClosed, now)
    if (!finished) return undefined
    const ref = { namespace: finished.endpoint.namespace, name: finished.name }
    const act = async () => {
      if ((await deleteDelivery(resources, ref, finished.objectVersion)) === 'gone') {
        onDeleted(`${ref.namespace}/${ref.name}`)
        return
      }
      finished.isAbandoned = true
      log.warn('delivery_not_finished', 'kept a delivery that was recorded as finished but is not', ref)
    }
    return this.#attempt(act, () => this.#retries.set(finished, clock.monotonic() + RETRY_AFTER_MS))
  }

  async #attempt(act: () => Promise<void>, onFailure: () => void): Promise<Wait> {
    try {
      await act()
      this.#deleted += 1
      return undefined
    } catch (error) {
      onFailure()
      this.#failed += 1
      this.#lastError = error
      return isApiError(error, 'Unavailable', 'TooManyRequests') ? (error.retryAfterMs ?? 0) : undefined
    }
  }
}

/** Objects per call: more if space is needed or there are many, so that all are looked up within ten minutes. */
const AT_LEAST = 20
const AT_MOST = 200
const CALLS_PER_ROUND = 120
const CONCURRENCY = 16
/** Between two rounds; if space is needed, after a round that freed none. */
const REST_MS = 60_000

type LookUp = 'gone' | 'stays' | { finishedIn: number }

/**
 * Looks up objects that refer to bodies in the log and are not known to be finished: objects of other replicas' endpoints finish and are
 * deleted without notice to this one. It goes round, so that objects that stay do not keep it from the others.
 */
export class PayloadRefVerifier {
  readonly #resources: Resources
  readonly #refs: PayloadRefs
  /** Progress of the round: the segment's version, and how many of its objects were looked up. */
  #at = { version: 0, passed: 0 }
  /** Monotonic. */
  #restsUntil = Number.NEGATIVE_INFINITY
  /** The same for segments whose space is needed: the last one, and whether the round has freed any space. */
  #surplusAt = { version: 0, freed: false }
  #surplusRestsUntil = Number.NEGATIVE_INFINITY

  constructor(resources: Resources, refs: PayloadRefs) {
    this.#resources = resources
    this.#refs = refs
  }

  /**
   * Never rejects: if a look-up fails, the segment stays until the next round.
   * @param segments oldest first @param now monotonic, milliseconds
   * @returns whether space is needed and another call would probably free more
   */
  async verify(segments: readonly UnverifiedSegment[], now: number): Promise<boolean> {
    const surplus = segments.filter(({ evict, name }) => evict && this.#refs.unfinishedOf(name).length > 0)
    const expired = segments.filter(({ evict }) => !evict)
    if (surplus.length > 0 && now >= this.#surplusRestsUntil && (await this.#freeSpace(surplus, now)))
      return true
    if (expired.length > 0 && now >= this.#restsUntil) await this.#lookUpExpired(expired, now)
    return false
  }

  /**
   * Deletes finished deliveries early, but only if all that refer to the segment are finished: otherwise no space is freed.
   * @returns whether it freed something, and there are more
   */
  async #freeSpace(segments: readonly UnverifiedSegment[], now: number): Promise<boolean> {
    let asked = 0
    let freed = false
    for (const { name, version } of segments.filter((one) => one.version > this.#surplusAt.version)) {
      if (asked >= AT_MOST) return freed
      const result = await this.#releaseAll(this.#refs.unfinishedOf(name))
      asked += result.asked
      freed ||= result.gone > 0
      this.#surplusAt = { version, freed: this.#surplusAt.freed || freed }
    }
    if (!this.#surplusAt.freed) this.#surplusRestsUntil = now + REST_MS
    this.#surplusAt = { version: 0, freed: false }
    return false
  }

  /** Looks up the objects of a segment until one stays, and deletes them if none does. */
  async #releaseAll(objects: readonly string[]): Promise<{ asked: number; gone: number }> {
    const finished: [object: string, version: number][] = []
    let gone = 0
    for (let asked = 0; asked < objects.length; asked += CONCURRENCY) {
      const group = objects.slice(asked, asked + CONCURRENCY)
      const found = await this.#lookUpAll(group)
      gone += found.filter((one) => one === 'gone').length
      if (found.includes('stays')) return { asked: asked + group.length, gone }
      for (const [n, one] of found.entries())
        if (typeof one === 'object') finished.push([group[n] ?? '', one.finishedIn])
    }
    const evicted = await inGroups(finished, CONCURRENCY, async (one) => await this.#evict(...one))
    return { asked: objects.length, gone: gone + evicted.filter((isGone) => isGone).length }
  }

  async #lookUpExpired(segments: readonly UnverifiedSegment[], now: number): Promise<void> {
    const all = segments.reduce((sum, { name }) => sum + this.#refs.unfinishedOf(name).length, 0)
    let left = Math.min(AT_MOST, Math.max(AT_LEAST, Math.ceil(all / CALLS_PER_ROUND)))
    for (const { name, version } of segments.filter((one) => one.version >= this.#at.version)) {
      if (left === 0) return
      const passed = version === this.#at.version ? this.#at.passed : 0
      const objects = this.#refs.unfinishedOf(name).slice(passed, passed + left)
      left -= objects.length
      const found = await this.#lookUpAll(objects)
      this.#at = { version, passed: passed + found.filter((one) => one !== 'gone').length }
    }
    if (left === 0) return
    this.#at = { version: 0, passed: 0 }
    this.#restsUntil = now + REST_MS
  }

  async #lookUpAll(objects: readonly string[]): Promise<LookUp[]> {
    return await inGroups(objects, CONCURRENCY, async (object) => {
      const found = await this.#lookUp(object)
      if (found === 'gone') this.#refs.release(object)
      return found
    })
  }

  async #lookUp(object: string): Promise<LookUp> {
    try {
      const { data } = deliveryOutline.safeParse(await this.#resources.get(webhookDeliveries, refOf(object)))
      if (!data || !isFinal(data.status?.state)) return 'stays'
      return { finishedIn: Number(data.metadata.resourceVersion) }
    } catch (error) {
      return isApiError(error, 'NotFound') ? 'gone' : 'stays'
    }
  }

  async #evict(object: string, version: number): Promise<boolean> {
    const deletion = await deleteDelivery(this.#resources, refOf(object), version).catch(() => 'failed')
    if (deletion === 'gone') this.#refs.release(object)
    return deletion === 'gone'
  }
}

function refOf(object: string): { namespace: string; name: string } {
  const [namespace = '', name = ''] = object.split('/')
  return { namespace, name }
}
