import { LRUCache } from 'lru-cache'
import { NAME_ENTROPY_BYTES, sortableName, timeOfName } from '../apis/ids.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import { KeyedMutex } from '../lib/semaphore.ts'
import { withDeadline } from '../lib/sleep.ts'
import { copyString, keyedHash } from '../lib/text.ts'
import { type Pending, remainingQuota } from '../webhooks/events/quota.ts'
import { claimLine, doneLine, isBefore, isKeyAlive, type KeyRecord } from '../webhooks/log/dedupe.ts'
import type { EventLog } from '../webhooks/log/store.ts'
import { RefusedError } from './http/problems.ts'

/** Idempotency-Keys: one request, one effect, for 24 hours, across replicas and restarts of the facade. */

/** A request that came with a key. */
type KeyedRequest = {
  organization: string
  /** Name of the operation: a key stands for one request of it. */
  operation: string
  /** Value of Idempotency-Key. */
  key: string
  /** What was asked for, as text; the same for the same request. It is kept as a keyed hash alone. */
  asked: string
}

/** What stands for the request in the log: both are keyed hashes. */
export type KeyMark = { key: string; fingerprint: string }

/** The place in the log that counts for a key. */
type FirstAppend = {
  /** The 26 characters of the id that it was accepted under. */
  id: string
  deliveries: number
  /** Of its first delivery, or of the record itself. */
  version: number
  index: number
}

export interface IdempotencyKeys {
  /**
   * Appends what the request makes, unless it was appended before, and waits until the log has shown which place is
   * the first.
   * @param append appends under the mark, and gives the id; it is called at most once
   * @returns the place that counts; `replayed` where another request made it
   * @throws RefusedError idempotency_conflict, overloaded (as many keys as may be, or the log cannot be watched),
   * unavailable (the log did not show it in time); and what `append` throws
   */
  once(
    request: KeyedRequest,
    append: (mark: KeyMark) => Promise<string>,
  ): Promise<{ first: FirstAppend; replayed: boolean }>
  /**
   * The same for what is made outside of the log: a record first, under whose id `act` makes it; then a note that
   * it is made. A repeat calls `act` only where the first ended before that note.
   * @param steps `check` throws where the request cannot be done; it is not called for a repeat. `act` makes it, or
   * finds what an earlier call under this id has made
   * @returns what `act` gave, absent where it was made before
   */
  around<T>(
    request: KeyedRequest,
    steps: { check?: () => Promise<void>; act: (id: string) => Promise<T> },
  ): Promise<{ id: string; result?: T; replayed: boolean }>
}

/**
 * Which Idempotency-Keys stand, and for which place in the log: what the watch of the log has shown, for 24 hours.
 * Places may be shown in any order during a list, and in the log's order afterwards.
 */

type HeldKey = Readonly<Omit<KeyRecord, 'key'>> & {
  /** The id of which a note says that what was asked for is made; only one that counted gets a note. */
  doneId?: string
}

/** What the key was for is made: always so for an event. */
function isDone({ kind, id, doneId }: HeldKey): boolean {
  return kind === 'event' || doneId === id
}

export type IdempotencyCacheOptions = {
  clock: Clock
  /** Keys that may stand at a time. */
  limits: Pending
}

type Waiter = (held: HeldKey) => boolean

export class IdempotencyCache {
  readonly #options: IdempotencyCacheOptions
  /** By key, which is a hash over the organization as well; nearly in the order of their times. */
  readonly #held = new Map<string, HeldKey>()
  readonly #organizations = new Map<string, number>()
  /** Ids of what is made, shown before the place that counts. */
  readonly #waiters = new Map<string, Set<Waiter>>()

  constructor(options: IdempotencyCacheOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#held.size
  }

  find(key: string): HeldKey | undefined {
    const held = this.#held.get(key)
    return held && isKeyAlive(held, this.#options.clock.now()) ? held : undefined
  }

  /** @returns how many keys the organization may have more */
  remainingKeys(namespace: string): number {
    this.#forget()
    const organization = this.#organizations.get(namespace) ?? 0
    return remainingQuota({ organization, all: this.#held.size }, this.#options.limits)
  }

  /** A place in the log was shown. */
  take(record: KeyRecord): void {
    const now = this.#options.clock.now()
    if (!isKeyAlive(record, now)) return
    const { key } = record
    const before = this.#held.get(key)
    if (before && !isKeyAlive(before, now)) this.#drop(key, before)
    const known = this.#held.get(key)
    const held = known ? merged(known, record) : heldOf(record)
    if (held === known) return
    this.#held.set(known ? key : copyString(key), held)
    if (!known) this.#count(held.namespace, 1)
    this.#forget()
    for (const waiter of this.#waiters.get(key) ?? []) if (waiter(held)) this.#release(key, waiter)
  }

  /** Resolves with the key once it is shown and as wanted; undefined when `signal` aborts before. */
  when(
    key: string,
    signal: AbortSignal,
    wanted: (held: HeldKey) => boolean = () => true,
  ): Promise<HeldKey | undefined> {
    const known = this.find(key)
    if (known && wanted(known)) return Promise.resolve(known)
    return new Promise((resolve) => {
      const giveUp = () => {
        this.#release(key, waiter)
        resolve(undefined)
      }
      const waiter = (held: HeldKey) => {
        if (!wanted(held)) return false
        signal.removeEventListener('abort', giveUp)
        resolve(held)
        return true
      }
      const waiters = this.#waiters.get(key) ?? new Set<Waiter>()
      this.#waiters.set(key, waiters.add(waiter))
      signal.addEventListener('abort', giveUp, { once: true })
      if (signal.aborted) giveUp()
    })
  }

  #release(key: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(key)
    waiters?.delete(waiter)
    if (waiters?.size === 0) this.#waiters.delete(key)
  }

  #forget(): void {
    const now = this.#options.clock.now()
    for (const [key, held] of this.#held) {
      if (isKeyAlive(held, now)) return
      this.#drop(key, held)
    }
  }

  #drop(key: string, held: HeldKey): void {
    this.#held.delete(key)
    this.#count(held.namespace, -1)
  }

  #count(namespace: string, by: number): void {
    const count = (this.#organizations.get(namespace) ?? 0) + by
    if (count === 0) this.#organizations.delete(namespace)
    else this.#organizations.set(namespace, count)
  }
}

function heldOf({ key: _, ...record }: KeyRecord): HeldKey {
  // Cut out of a segment's text, they would keep all of it in memory.
  const id = copyString(record.id)
  return {
    ...record,
    id,
    namespace: copyString(record.namespace),
    fingerprint: copyString(record.fingerprint),
    ...(record.kind === 'done' ? { doneId: id } : {}),
  }
}

/** The earlier place counts; what is known to be made stays known. */
function merged(known: HeldKey, record: KeyRecord): HeldKey {
  const doneId = record.kind === 'done' ? record.id : known.doneId
  const first = isBefore(record, known) ? heldOf(record) : known
  if (first === known && doneId === known.doneId) return known
  return { ...first, ...(doneId === undefined ? {} : { doneId: copyString(doneId) }) }
}

/**
 * One request, one effect, for each Idempotency-Key: what a request makes is appended under its key, and of several
 * places in the log with one key the first counts, whichever replica of the facade wrote it.
 */

export type IdempotencyOptions = {
  book: IdempotencyCache
  eventLog: EventLog
  /** Key of the hashes: `keyFor('idempotency', ...)`. */
  hashKey: Uint8Array
  /** Why the book may not know what the log holds, in words; undefined while it does. */
  behind: () => string | undefined
  clock: Clock
  random: Random
  log: Logger
}

/** The log shows an append within milliseconds. */
const SHOWN_WITHIN_MS = 10_000
/** So long the process that has begun may take for it; then it is taken for dead. */
const DONE_WITHIN_MS = 15_000
const RETRY_AFTER_SECONDS = 1

const MAX_GIVEN_UP = 1000
const MAX_UNSHOWN = 10_000

type Claim = { held: HeldKey; mark: KeyMark; replayed: boolean }

export class Idempotency implements IdempotencyKeys {
  readonly #options: IdempotencyOptions
  /** By key: of requests that come at a time, one appends, and all wait for what the log shows. */
  readonly #mutex = new KeyedMutex()
  /** Keys of what is being made here. */
  readonly #underWay = new Set<string>()
  /** Keys of what could not be made here: nobody needs to be waited for. */
  readonly #givenUp = new LRUCache<string, true>({ max: MAX_GIVEN_UP })
  /** Ids of what was appended here and not shown by the log yet, by key; the newest. */
  readonly #unshown = new LRUCache<string, string>({ max: MAX_UNSHOWN })

  constructor(options: IdempotencyOptions) {
    this.#options = options
  }

  async once(
    request: KeyedRequest,
    append: (mark: KeyMark) => Promise<string>,
  ): Promise<{ first: FirstAppend; replayed: boolean }> {
    const { held, replayed } = await this.#claim(request, append)
    const { id, deliveries, position, firstDelivery } = held
    return { first: { id, deliveries, version: position.version, index: firstDelivery }, replayed }
  }

  async around<T>(
    request: KeyedRequest,
    { check, act }: { check?: () => Promise<void>; act: (id: string) => Promise<T> },
  ): Promise<{ id: string; result?: T; replayed: boolean }> {
    const claim = await this.#claim(request, async (mark) => {
      await check?.()
      return await this.#appendClaim(request.organization, mark)
    })
    const { mark, replayed } = claim
    const { id } = claim.held
    // Without a wait in between: of several who find it given up one goes on.
    const isTaken = replayed && (isDone(claim.held) || !this.#isGivenUp(mark.key))
    if (isTaken && (await this.#isMade(claim))) return { id, replayed }
    this.#underWay.add(mark.key)
    try {
      const result = await act(id)
      await this.#note(request.organization, id, mark)
      this.#givenUp.delete(mark.key)
      return { id, result, replayed }
    } catch (error) {
      this.#givenUp.set(mark.key, true)
      throw error
    } finally {
      this.#underWay.delete(mark.key)
    }
  }

  async #claim(request: KeyedRequest, append: (mark: KeyMark) => Promise<string>): Promise<Claim> {
    const mark = this.#markOf(request)
    const found = await this.#mutex.run(mark.key, () => this.#findOrAppend(request, mark, append))
    if (typeof found === 'object') return { held: found, mark, replayed: true }
    const held = await this.#shown(mark)
    return { held, mark, replayed: held.id !== found }
  }

  /** @returns what the log has shown of the key; the id under which it is appended now; undefined if it was before */
  async #findOrAppend(
    { organization }: KeyedRequest,
    mark: KeyMark,
    append: (mark: KeyMark) => Promise<string>,
  ): Promise<HeldKey | string | undefined> {
    const known = this.#find(mark)
    if (known) return known
    const before = this.#unshown.get(mark.key)
    if (before !== undefined && isKeyAlive({ id: before }, this.#options.clock.now())) return undefined
    this.#makeRoom(organization)
    const own = await append(mark)
    this.#unshown.set(mark.key, own)
    return own
  }

  #markOf({ organization, operation, key, asked }: KeyedRequest): KeyMark {
    const { hashKey } = this.#options
    return {
      key: keyedHash(hashKey, ['key', organization, operation, key]),
      fingerprint: keyedHash(hashKey, ['request', organization, operation, asked]),
    }
  }

  #find(mark: KeyMark): HeldKey | undefined {
    const behind = this.#options.behind()
    if (behind !== undefined)
      throw overloaded(`Whether the Idempotency-Key was used is not known: ${behind}.`)
    const held = this.#options.book.find(mark.key)
    if (held) refuseOther(held, mark)
    return held
  }

  #makeRoom(organization: string): void {
    if (this.#options.book.remainingKeys(organization) > 0) return
    throw overloaded(
      'As many Idempotency-Keys as may be stand; each does for 24 hours. Without one it is accepted.',
    )
  }

  async #shown(mark: KeyMark): Promise<HeldKey> {
    const held = await withDeadline(this.#options.clock, SHOWN_WITHIN_MS, (signal) =>
      this.#options.book.when(mark.key, signal),
    )
    if (!held) {
      // Nobody goes on with it but a repeat.
      this.#givenUp.set(mark.key, true)
      throw new RefusedError('unavailable', { retryAfter: RETRY_AFTER_SECONDS })
    }
    this.#unshown.delete(mark.key)
    refuseOther(held, mark)
    return held
  }

  async #appendClaim(namespace: string, mark: KeyMark): Promise<string> {
    const { clock, random, eventLog } = this.#options
    const id = sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
    await eventLog.append([claimLine({ id, namespace, ...mark })])
    return id
  }

  #isGivenUp(key: string): boolean {
    return this.#givenUp.has(key) && !this.#underWay.has(key)
  }

  /** Whoever has begun is at it, or has ended before the note. */
  async #isMade({ held, mark }: Claim): Promise<boolean> {
    if (isDone(held)) return true
    const begun = this.#options.clock.now() - timeOfName(held.id)
    const patience = this.#underWay.has(mark.key) ? DONE_WITHIN_MS : DONE_WITHIN_MS - begun
    if (patience <= 0) return false
    const made = await withDeadline(this.#options.clock, patience, (signal) =>
      this.#options.book.when(mark.key, signal, isDone),
    )
    return made !== undefined
  }

  /** What is made is made: without the note a repeat finds it, and only looks for it longer. */
  async #note(namespace: string, id: string, mark: KeyMark): Promise<void> {
    const { eventLog, log } = this.#options
    try {
      await eventLog.append([doneLine({ id, namespace, ...mark })])
    } catch (error) {
      log.warn('That a request is done could not be noted', { error, organization: namespace })
    }
  }
}

function refuseOther(held: HeldKey, { fingerprint }: KeyMark): void {
  if (held.fingerprint !== fingerprint) throw new RefusedError('idempotency_conflict')
}

function overloaded(detail: string): RefusedError {
  return new RefusedError('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS })
}
