import { deliverySegment, deliverySegments } from '../../apis/delivery-segment.ts'
import { deliveryOutline, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { findObject, isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { inGroups } from '../../lib/semaphore.ts'
import { isFinal } from '../delivery/status.ts'
import { isKeyAlive, keptLine, keyRecordsOf } from './dedupe.ts'
import type { FinishedDelivery, FinishedIndex, PayloadRefs } from './finished-deliveries.ts'
import type { DoubtfulSegment, LogSweep } from './segment-sweep.ts'
import type { EventLog } from './store.ts'

/**
 * How fast retention deletes: evenly, as much as comes in and a little more, and not at once what came at once. Rates are
 * deletes a second.
 */
const SLOWEST_RATE = 100
/** Above what comes in. Half of what a small control plane deletes when it does nothing else. */
const FASTEST_RATE = 500
/** Of what comes in: what was left over becomes less. */
const SURPLUS = 1.2
/** While there is always more to delete than that, the rate doubles in some six minutes. */
const GROWTH = 0.002
/** Outcomes that cannot be stored come first, but a store that is full is helped by deleting. */
const UNHEALTHY_FACTOR = 10
const IDLE_MS = 1000

export type DeletionBatch = {
  deletes: number
  /** There may be more to delete. */
  full: boolean
  /** Milliseconds that it took. */
  tookMs: number
  /** The store did not answer or asked to wait, milliseconds. */
  waitMs?: number | undefined
}

/** Between groups, where the store answers sooner. */
const CYCLE_MS = 40
const SMALLEST_GROUP = 4
/** More would take all connections from what is waited for. A multiple of those that go beside each other. */
const LARGEST_GROUP = 24

export class DeletionRate {
  readonly #share: number
  #grown = SLOWEST_RATE
  /** What the last group took. */
  #tookMs = 0

  /** @param share of the whole rate that goes by this pace, where several go beside each other */
  constructor(share = 1) {
    this.#share = share
  }

  /**
   * Deletes at a time: few, since others wait behind them, but as many as the rate needs of a store that answers
   * slowly. @param arrivals a second
   */
  groupSize(arrivals: number): number {
    const size = Math.ceil((this.#rate(arrivals) * Math.max(CYCLE_MS, this.#tookMs)) / 1000)
    return Math.min(LARGEST_GROUP * this.#share, Math.max(SMALLEST_GROUP * this.#share, size))
  }

  /**
   * Milliseconds to wait after a group of deletes. @param arrivals a second, of what will have to be deleted
   * @param healthy false while outcomes cannot be stored
   */
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

/** What became of it: it is gone, or it has not finished and stays. */
export type Deletion = 'gone' | 'unfinished'

type Resources = ResourceReader & ResourceWriter
type Ref = { namespace: string; name: string }

/**
 * Deletes the object of a finished delivery in exactly the version that was seen to be finished; where it has
 * another one, or none is known, it is looked at first.
 * @param version resourceVersion, 0 where none is known @throws ApiError `Conflict` and the rest, but not `NotFound`
 */
async function deleteDelivery(resources: Resources, ref: Ref, version: number): Promise<Deletion> {
  try {
    if (version > 0 && (await deleteVersion(resources, ref, version))) return 'gone'
    return await lookAndDelete(resources, ref)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return 'gone'
    throw error
  }
}

/** @returns false when it has another version */
async function deleteVersion(resources: Resources, ref: Ref, version: number): Promise<boolean> {
  try {
    await resources.delete(webhookDeliveries, ref, { resourceVersion: String(version) })
    return true
  } catch (error) {
    if (isApiError(error, 'Conflict')) return false
    throw error
  }
}

async function lookAndDelete(resources: Resources, ref: Ref): Promise<Deletion> {
  const raw = await resources.get(webhookDeliveries, ref)
  const { uid, resourceVersion } = raw.metadata
  const state = deliveryOutline.safeParse(raw).data?.status?.state
  if (!isFinal(state) || uid === undefined || resourceVersion === undefined) return 'unfinished'
  await resources.delete(webhookDeliveries, ref, { uid, resourceVersion })
  return 'gone'
}

/** Idempotency-Keys stand for 24 hours, whatever becomes of the segment that they came in. */

export type PreserveKeysOptions = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  eventLog: EventLog
}

/**
 * Appends what the segment says of keys that still stand, in short lines without the bodies. It may be deleted then.
 * @param now milliseconds since 1970 @throws ApiError, OverloadedError what may pass by itself
 */
export async function preserveKeys(options: PreserveKeysOptions, name: string, now: number): Promise<void> {
  const raw = await findObject(options.resources, deliverySegments, { namespace: options.namespace, name })
  // What cannot be read said nothing to anybody.
  const { data } = deliverySegment.safeParse(raw)
  if (!data) return
  const records = keyRecordsOf(data.spec, Number(data.metadata.resourceVersion))
  const kept = records.filter((record) => isKeyAlive(record, now)).map(keptLine)
  // An append is of one organization; those that come together share a segment.
  const appends = [...Map.groupBy(kept, ({ event }) => event.namespace).values()]
  await Promise.all(appends.map((events) => options.eventLog.append(events)))
}

/** Deletes in small groups what the indexes say is to go, segments and deliveries in turns. */

export type DeleterOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  clock: Clock
  log: Logger
  lowWater: () => number
  finished: FinishedIndex
  sweep: LogSweep
  /** An object is gone. @param object `<namespace>/<name>` */
  onGone: (object: string) => void
  /** Writes down elsewhere what a segment says of Idempotency-Keys that still stand. */
  keepKeys: (segment: string) => Promise<void>
}

/** What could not be deleted is looked at again after so long. */
const AGAIN_AFTER_MS = 60_000

/** Milliseconds that the store asks to wait, if it does. */
type Wait = number | undefined

export class Deleter {
  readonly #options: DeleterOptions
  /** What could not be deleted, and the monotonic time from which on it is tried again. */
  readonly #later = new Map<FinishedDelivery, number>()
  #deleted = 0
  #failed = 0
  #lastError: unknown

  constructor(options: DeleterOptions) {
    this.#options = options
  }

  /** Deletes and attempts that failed, since the start. */
  get counts(): { deleted: number; failed: number } {
    return { deleted: this.#deleted, failed: this.#failed }
  }

  /** Resolves when all of a group are answered. @param now milliseconds since 1970 @param size of the group at most */
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

  /** Those to be looked at again by now. */
  drainRetries(): FinishedDelivery[] {
    const due: FinishedDelivery[] = []
    for (const [finished, at] of this.#later) {
      if (at > this.#options.clock.monotonic()) break
      this.#later.delete(finished)
      due.push(finished)
    }
    return due
  }

  /** What failed since the last call, once. */
  takeError(): unknown {
    const error = this.#lastError
    this.#lastError = undefined
    return error
  }

  #nextSegment(now: number): Promise<Wait> | undefined {
    const going = this.#options.sweep.next()
    if (!going) return undefined
    const { namespace, resources, keepKeys } = this.#options
    const hasKeys = going.keysUntil !== undefined && going.keysUntil > now
    const act = async () => {
      if (hasKeys) await keepKeys(going.name)
      try {
        await resources.delete(going.type, { namespace, name: going.name })
      } catch (error) {
        if (!isApiError(error, 'NotFound')) throw error
      }
      going.deleted()
    }
    // Where nothing can be written, segments without keys still make room.
    return this.#attempt(act, hasKeys ? () => undefined : going.failed)
  }

  #nextDelivery(now: number): Promise<Wait> | undefined {
    const { clock, log, resources, lowWater, onGone } = this.#options
    const finished = this.#options.finished.take(lowWater(), now)
    if (!finished) return undefined
    const ref = { namespace: finished.endpoint.namespace, name: finished.name }
    const act = async () => {
      if ((await deleteDelivery(resources, ref, finished.objectVersion)) === 'gone') {
        onGone(`${ref.namespace}/${ref.name}`)
        return
      }
      finished.isAbandoned = true
      log.warn('A delivery that was taken for finished is not; it stays', ref)
    }
    return this.#attempt(act, () => this.#later.set(finished, clock.monotonic() + AGAIN_AFTER_MS))
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

/**
 * Looks whether deliveries that refer to payloads in the log are still there. Those of endpoints that another replica
 * drives end and go without a word to this one.
 */

/** Objects that one look asks for: more where space is needed, and where there are many, so that each has its turn in ten minutes. */
const AT_LEAST = 20
const AT_MOST = 200
const LOOKS_OF_A_ROUND = 120
const AT_A_TIME = 16
/** Between two rounds; where space is needed, after one that won none. What failed stays for a week. */
const REST_MS = 60_000

/** What is known of an object by a look at it; in which version it has finished. */
type Found = 'gone' | 'stays' | { finishedIn: number }

/** Goes round: however many of them stay, the others have their turn. */
export class PayloadRefVerifier {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #refs: PayloadRefs
  /** How far the round is: the segment by its version, and how many of its objects were looked at. */
  #at = { version: 0, passed: 0 }
  /** Monotonic. */
  #restsUntil = Number.NEGATIVE_INFINITY
  /** The same of those whose space is needed: the last segment that was looked at, and whether its round has won anything. */
  #room = { version: 0, won: false }
  #roomRestsUntil = Number.NEGATIVE_INFINITY

  constructor(resources: ResourceReader & ResourceWriter, refs: PayloadRefs) {
    this.#resources = resources
    this.#refs = refs
  }

  /**
   * Never rejects: what could not be looked at holds its segment until its next turn.
   * @param segments oldest first @param now monotonic, milliseconds
   * @returns whether space is needed, and another look would most likely win more
   */
  async verify(segments: readonly DoubtfulSegment[], now: number): Promise<boolean> {
    const surplus = segments.filter(({ evict, name }) => evict && this.#refs.unfinishedOf(name).length > 0)
    const expired = segments.filter(({ evict }) => !evict)
    const isWanted = surplus.length > 0 && now >= this.#roomRestsUntil
    const winsMore = isWanted && (await this.#makeRoom(surplus, now))
    if (winsMore) return true
    if (expired.length > 0 && now >= this.#restsUntil) await this.#lookAround(expired, now)
    return false
  }

  /**
   * Finished deliveries go before their time, and only where all that refer to a segment have finished: nothing is won otherwise.
   * @returns whether it has won something, and there are more
   */
  async #makeRoom(segments: readonly DoubtfulSegment[], now: number): Promise<boolean> {
    let asked = 0
    let won = false
    for (const { name, version } of segments.filter((one) => one.version > this.#room.version)) {
      if (asked >= AT_MOST) return won
      const freed = await this.#free(this.#refs.unfinishedOf(name))
      asked += freed.asked
      won ||= freed.gone > 0
      this.#room = { version, won: this.#room.won || won }
    }
    if (!this.#room.won) this.#roomRestsUntil = now + REST_MS
    this.#room = { version: 0, won: false }
    return false
  }

  /** Asks for all of a segment, until one of them stays. */
  async #free(objects: readonly string[]): Promise<{ asked: number; gone: number }> {
    const ended: [object: string, version: number][] = []
    let gone = 0
    for (let asked = 0; asked < objects.length; asked += AT_A_TIME) {
      const group = objects.slice(asked, asked + AT_A_TIME)
      const found = await this.#askAll(group)
      gone += found.filter((one) => one === 'gone').length
      if (found.includes('stays')) return { asked: asked + group.length, gone }
      for (const [n, one] of found.entries())
        if (typeof one === 'object') ended.push([group[n] ?? '', one.finishedIn])
    }
    const evicted = await inGroups(ended, AT_A_TIME, async (one) => await this.#evict(...one))
    return { asked: objects.length, gone: gone + evicted.filter((isGone) => isGone).length }
  }

  async #lookAround(segments: readonly DoubtfulSegment[], now: number): Promise<void> {
    const all = segments.reduce((sum, { name }) => sum + this.#refs.unfinishedOf(name).length, 0)
    const atMost = Math.min(AT_MOST, Math.max(AT_LEAST, Math.ceil(all / LOOKS_OF_A_ROUND)))
    let left = atMost
    for (const { name, version } of segments.filter((one) => one.version >= this.#at.version)) {
      if (left === 0) return
      const passed = version === this.#at.version ? this.#at.passed : 0
      const objects = this.#refs.unfinishedOf(name).slice(passed, passed + left)
      left -= objects.length
      const found = await this.#askAll(objects)
      this.#at = { version, passed: passed + found.filter((one) => one !== 'gone').length }
    }
    if (left === 0) return
    this.#at = { version: 0, passed: 0 }
    this.#restsUntil = now + REST_MS
  }

  /** What is gone refers to nothing any more. */
  async #askAll(objects: readonly string[]): Promise<Found[]> {
    return await inGroups(objects, AT_A_TIME, async (object) => {
      const found = await this.#ask(object)
      if (found === 'gone') this.#refs.release(object)
      return found
    })
  }

  async #ask(object: string): Promise<Found> {
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
