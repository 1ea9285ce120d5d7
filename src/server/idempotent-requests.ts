import { LRUCache } from 'lru-cache'
import { NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import type { Organizations } from '../kube/organizations.ts'
import { KeyedSums, remainingShare, type Usage } from '../lib/fair-queue.ts'
import type { Logger } from '../lib/log.ts'
import { KeyedMutex } from '../lib/semaphore.ts'
import { copyString, keyedHash } from '../lib/text.ts'
import { type Clock, type Random, Waiters } from '../lib/time.ts'
import {
  claimLine,
  doneLine,
  isBefore,
  isKeyAlive,
  KEY_LIFE_MS,
  type KeyRecord,
  usedAt,
} from '../webhooks/log/idempotency-keys.ts'
import type { EventLog } from '../webhooks/log/store.ts'
import { Problem } from './http/problems.ts'

/**
 * Idempotency-Keys: one request, one effect, for 24 hours, across replicas and restarts. A request appends a record under its
 * key to the delivery log; if several records have the same key, the first in the log counts, whichever replica wrote it.
 * A key belongs to the organization and not to its name: a recreated namespace inherits none.
 */

type KeyedRequest = {
  organization: string
  /** Name of the operation: a key stands for one request of one operation. */
  operation: string
  /** Value of Idempotency-Key. */
  key: string
  /** The request as text, equal for equal requests. Only a keyed hash of it is kept. */
  asked: () => string
}

/** What the log has of the request: two keyed hashes. */
export type KeyMark = { key: string; fingerprint: string }

/** A part of a request that has no record yet. @property part its number */
export type MissingPart = { part: number; mark: KeyMark }

/** The record that counts for a key. */
type HeldKey = Readonly<Omit<KeyRecord, 'key'>> & {
  /** Monotonic: the clock that made the id may have been ahead, and ours with it. */
  observedAt: number
  /** The id that a note reports as done; only the record that counts gets one. */
  doneId?: string
}

/** The effect of the request is there, which is always so for an event. */
function isDone({ kind, id, doneId }: HeldKey): boolean {
  return kind === 'event' || doneId === id
}

/**
 * The keys of the last 24 hours, as the watch of the log has shown them. Records may come in any order during a list, and in
 * the order of the log afterwards.
 */
export class IdempotencyCache {
  readonly #clock: Clock
  readonly #limits: Usage
  /** By key, which is a hash over the UID of the organization as well; nearly in the order of their times. */
  readonly #held = new Map<string, HeldKey>()
  readonly #organizations = new KeyedSums()
  readonly #waiters: Waiters<HeldKey>

  /** @param limits number of keys that may be held */
  constructor(clock: Clock, limits: Usage) {
    this.#clock = clock
    this.#limits = limits
    this.#waiters = new Waiters(clock)
  }

  get size(): number {
    return this.#held.size
  }

  find(key: string): HeldKey | undefined {
    const held = this.#held.get(key)
    return held && this.#isAlive(held) ? held : undefined
  }

  /** @returns how many more keys the organization may use */
  remainingKeys(namespace: string): number {
    this.#expire()
    const organization = this.#organizations.of(namespace)
    return remainingShare({ organization, all: this.#held.size }, this.#limits)
  }

  /** The watch has shown a record. */
  apply(record: KeyRecord): void {
    if (!isKeyAlive(record, this.#clock.now())) return
    const { key } = record
    const before = this.#held.get(key)
    if (before && !this.#isAlive(before)) this.#drop(key, before)
    const known = this.#held.get(key)
    const held = known ? merged(known, record) : heldOf(record, this.#clock.monotonic())
    if (held === known) return
    this.#held.set(known ? key : copyString(key), held)
    if (!known) this.#organizations.add(held.namespace, 1)
    this.#expire()
    this.#waiters.notify(key, held)
  }

  /** The key as soon as it is known and as wanted; undefined after `ms` milliseconds. */
  async when(
    key: string,
    ms: number,
    isWanted: (held: HeldKey) => boolean = () => true,
  ): Promise<HeldKey | undefined> {
    const known = this.find(key)
    return known && isWanted(known) ? known : await this.#waiters.wait(key, ms, isWanted)
  }

  #isAlive(held: HeldKey): boolean {
    const age = this.#clock.monotonic() - held.observedAt
    return age < KEY_LIFE_MS && isKeyAlive(held, this.#clock.now())
  }

  #expire(): void {
    for (const [key, held] of this.#held) {
      if (this.#isAlive(held)) return
      this.#drop(key, held)
    }
  }

  #drop(key: string, held: HeldKey): void {
    this.#held.delete(key)
    this.#organizations.add(held.namespace, -1)
  }
}

function heldOf({ key: _, ...record }: KeyRecord, observedAt: number): HeldKey {
  // Slices of a segment's text would keep all of it in memory.
  const id = copyString(record.id)
  return {
    ...record,
    observedAt,
    id,
    namespace: copyString(record.namespace),
    fingerprint: copyString(record.fingerprint),
    ...(record.kind === 'done' ? { doneId: id } : {}),
  }
}

/** The earlier record counts; an effect that is known to be there stays known. */
function merged(known: HeldKey, record: KeyRecord): HeldKey {
  const doneId = record.kind === 'done' ? record.id : known.doneId
  const first = isBefore(record, known) ? heldOf(record, known.observedAt) : earlierOf(known, record)
  if (first === known && doneId === known.doneId) return known
  return { ...first, ...(doneId === undefined ? {} : { doneId: copyString(doneId) }) }
}

/** A copy of the record may know that the clock which made the id was ahead. */
function earlierOf(known: HeldKey, { id, usedBy }: KeyRecord): HeldKey {
  const isEarlier = id === known.id && usedBy !== undefined && usedBy < usedAt(known)
  return isEarlier ? { ...known, usedBy } : known
}

export type IdempotencyOptions = {
  cache: IdempotencyCache
  eventLog: EventLog
  organizations: Pick<Organizations, 'get'>
  /** Key of the hashes: `keyFor('idempotency', ...)`. */
  hashKey: Uint8Array
  /** Why the cache may not know what the log holds, or whose keys they are, in words; undefined while it does. */
  behind: () => string | undefined
  clock: Clock
  random: Random
  log: Logger
}

/** The log shows an append within milliseconds. */
const OBSERVED_WITHIN_MS = 10_000
/** How long a request may take to have its effect; after that its process is presumed dead. */
const DONE_WITHIN_MS = 15_000
const RETRY_AFTER_SECONDS = 1

const MAX_GIVEN_UP = 1000
const MAX_UNCONFIRMED = 10_000

type Claim = { held: HeldKey; mark: KeyMark; replayed: boolean }

export class Idempotency {
  readonly #options: IdempotencyOptions
  /** By key: of concurrent requests one appends, and all wait for the log to show it. */
  readonly #mutex = new KeyedMutex()
  /** Keys of running requests of this process. */
  readonly #running = new Set<string>()
  /** Keys of requests that failed here: a repeat need not wait for them. */
  readonly #givenUp = new LRUCache<string, true>({ max: MAX_GIVEN_UP })
  /** Fingerprints of our latest appends that the log has not shown yet, by key. By the monotonic clock, which is never ahead. */
  readonly #unconfirmed: LRUCache<string, string>

  constructor(options: IdempotencyOptions) {
    const { clock } = options
    this.#options = options
    this.#unconfirmed = new LRUCache({
      max: MAX_UNCONFIRMED,
      ttl: KEY_LIFE_MS,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() + 1 },
    })
  }

  /**
   * Appends the record of the request unless there is one, and waits until the log has shown which record is the first.
   * @param append appends under the mark and returns the id; called once at most
   * @returns the record that counts; `replayed` if another request made it
   * @throws Problem idempotency_conflict, overloaded (too many keys, or the log cannot be watched), unavailable (the log did not
   * show it in time), not_found (the organization is gone); and what `append` throws
   */
  async once(
    request: KeyedRequest,
    append: (mark: KeyMark) => Promise<string>,
  ): Promise<{ first: HeldKey; replayed: boolean }> {
    const { held: first, replayed } = await this.#claim(request, append)
    return { first, replayed }
  }

  /**
   * The same for an effect outside of the log: appends a claim, has the effect under its id, and then notes that it is done. A
   * repeat calls `act` only if the first request ended before that note. Without a key it has the effect once, under a new id.
   * @param steps `check` throws if the request cannot be done; not called for a repeat. `act` has the effect, or finds that of an
   * earlier call under this id
   * @returns what `act` returned, absent if the effect was there before
   */
  async around<T>(
    request: Omit<KeyedRequest, 'key'> & { key: string | undefined },
    { check, act }: { check?: () => Promise<void>; act: (id: string) => Promise<T> },
  ): Promise<{ id: string; result?: T; replayed: boolean }> {
    const { organization, key } = request
    if (key === undefined) {
      await check?.()
      const id = this.#newId()
      return { id, result: await act(id), replayed: false }
    }
    const claim = await this.#claim({ ...request, key }, async (mark) => {
      await check?.()
      const id = this.#newId()
      await this.#options.eventLog.append([claimLine({ id, namespace: organization, ...mark })])
      return id
    })
    const { held, mark, replayed } = claim
    const { id } = held
    // No await in between: of several requests that find it given up, one continues.
    const isTaken = replayed && (isDone(held) || !this.#isGivenUp(mark.key))
    if (isTaken && (await this.#isMade(claim))) return { id, replayed }
    this.#running.add(mark.key)
    try {
      const result = await act(id)
      await this.#noteDone(organization, id, mark)
      this.#givenUp.delete(mark.key)
      return { id, result, replayed }
    } catch (error) {
      this.#givenUp.set(mark.key, true)
      throw error
    } finally {
      this.#running.delete(mark.key)
    }
  }

  /**
   * Appends one record for each part of a request unless it is there, so that a repeat completes what an earlier request began. Each part
   * has a key of its own, made of the key of the request and its number.
   * @param append appends the missing parts, in order, and reports each as soon as it is durable; it may leave out parts
   * @returns for each part the record that counts; undefined for those that were left out
   * @throws as `once`
   */
  async each(
    { parts, ...request }: KeyedRequest & { parts: number },
    append: (missing: readonly MissingPart[], appended: (part: number, id: string) => void) => Promise<void>,
  ): Promise<({ first: HeldKey; replayed: boolean } | undefined)[]> {
    const marks = this.#marksOf(request, parts)
    const own = new Map<string, string>()
    const [first] = marks
    if (!first) return []
    await this.#mutex.run(first.key, async () => {
      const missing = this.#missing(request.organization, marks)
      if (missing.length === 0) return
      await append(missing, (part, id) => {
        const { key, fingerprint } = marks[part] ?? first
        this.#unconfirmed.set(key, fingerprint)
        own.set(key, id)
      })
    })
    const isThere = ({ key }: KeyMark) =>
      this.#options.cache.find(key) !== undefined || this.#unconfirmed.has(key)
    return await Promise.all(
      marks.map(async (mark) => {
        if (!isThere(mark)) return undefined
        const held = await this.#untilObserved(mark)
        return { first: held, replayed: held.id !== own.get(mark.key) }
      }),
    )
  }

  #missing(organization: string, marks: readonly KeyMark[]): MissingPart[] {
    const { cache } = this.#options
    this.#refuseWhileBehind()
    const missing: MissingPart[] = []
    for (const [part, mark] of marks.entries()) {
      const known = cache.find(mark.key) ?? this.#appended(mark)
      if (known) checked(known, mark)
      else missing.push({ part, mark })
    }
    this.#refuseWithoutRoom(organization, missing.length)
    return missing
  }

  async #claim(request: KeyedRequest, append: (mark: KeyMark) => Promise<string>): Promise<Claim> {
    const mark = this.#markOf(request)
    const found = await this.#mutex.run(mark.key, () => this.#findOrAppend(request, mark, append))
    if (typeof found === 'object') return { held: found, mark, replayed: true }
    const held = await this.#untilObserved(mark)
    return { held, mark, replayed: held.id !== found }
  }

  /** @returns the key if it is known; the id of our append; undefined if that is still unconfirmed from before */
  async #findOrAppend(
    { organization }: KeyedRequest,
    mark: KeyMark,
    append: (mark: KeyMark) => Promise<string>,
  ): Promise<HeldKey | string | undefined> {
    this.#refuseWhileBehind()
    const known = this.#options.cache.find(mark.key)
    if (known) return checked(known, mark)
    const appended = this.#appended(mark)
    if (appended) {
      checked(appended, mark)
      return undefined
    }
    this.#refuseWithoutRoom(organization, 1)
    const own = await append(mark)
    this.#unconfirmed.set(mark.key, mark.fingerprint)
    return own
  }

  /** What was appended here under the key, if the log has not shown it yet. */
  #appended({ key }: KeyMark): Pick<KeyMark, 'fingerprint'> | undefined {
    const fingerprint = this.#unconfirmed.get(key)
    return fingerprint === undefined ? undefined : { fingerprint }
  }

  #refuseWhileBehind(): void {
    const why = this.#options.behind()
    if (why !== undefined)
      throw overloaded(
        `Davit cannot yet determine whether this Idempotency-Key has already been used: ${why}. Retry the request.`,
      )
  }

  #refuseWithoutRoom(organization: string, keys: number): void {
    if (keys === 0 || this.#options.cache.remainingKeys(organization) >= keys) return
    throw overloaded(
      'The limit on the number of Idempotency-Keys has been reached. Keys are kept for 24 hours. Requests without a key are still accepted.',
    )
  }

  /** @throws Problem not_found */
  #markOf({ organization, operation, key, asked }: KeyedRequest): KeyMark {
    const uid = this.#uidOf(organization)
    const { hashKey } = this.#options
    return {
      key: keyedHash(hashKey, ['key', uid, operation, key]),
      fingerprint: keyedHash(hashKey, ['request', uid, operation, asked()]),
    }
  }

  /** The fingerprint is that of the whole request. @throws Problem not_found */
  #marksOf({ organization, operation, key, asked }: KeyedRequest, parts: number): KeyMark[] {
    const uid = this.#uidOf(organization)
    const { hashKey } = this.#options
    const fingerprint = keyedHash(hashKey, ['request', uid, operation, asked()])
    return Array.from({ length: parts }, (_, part) => ({
      key: keyedHash(hashKey, ['key', uid, operation, key, String(part)]),
      fingerprint,
    }))
  }

  /** @throws Problem not_found */
  #uidOf(organization: string): string {
    const { uid } = this.#options.organizations.get(organization) ?? {}
    if (uid === undefined) throw new Problem('not_found')
    return uid
  }

  async #untilObserved(mark: KeyMark): Promise<HeldKey> {
    const held = await this.#options.cache.when(mark.key, OBSERVED_WITHIN_MS)
    if (!held) {
      // Only a repeat will continue it.
      this.#givenUp.set(mark.key, true)
      throw new Problem('unavailable', { retryAfter: RETRY_AFTER_SECONDS })
    }
    this.#unconfirmed.delete(mark.key)
    return checked(held, mark)
  }

  #newId(): string {
    const { clock, random } = this.#options
    return sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
  }

  #isGivenUp(key: string): boolean {
    return this.#givenUp.has(key) && !this.#running.has(key)
  }

  /** Waits for the process that claimed the key, unless it must have ended before its note. */
  async #isMade({ held, mark }: Claim): Promise<boolean> {
    if (isDone(held)) return true
    // A replica with a clock that is a little ahead may have claimed it.
    const age = Math.max(0, this.#options.clock.now() - usedAt(held))
    const patience = this.#running.has(mark.key) ? DONE_WITHIN_MS : DONE_WITHIN_MS - age
    if (patience <= 0) return false
    return (await this.#options.cache.when(mark.key, patience, isDone)) !== undefined
  }

  /** Without the note a repeat finds the effect all the same; it only takes longer. */
  async #noteDone(namespace: string, id: string, mark: KeyMark): Promise<void> {
    const { eventLog, log } = this.#options
    try {
      await eventLog.append([doneLine({ id, namespace, ...mark })])
    } catch (error) {
      log.warn('idempotency_record_failed', 'failed to record idempotent request as completed', {
        error,
        organization: namespace,
      })
    }
  }
}

/** @throws Problem idempotency_conflict */
function checked<T extends { fingerprint: string }>(held: T, { fingerprint }: KeyMark): T {
  if (held.fingerprint !== fingerprint) throw new Problem('idempotency_conflict')
  return held
}

function overloaded(detail: string): Problem {
  return new Problem('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS })
}
