/**
 * One request, one effect, for each Idempotency-Key: what a request makes is appended under its key, and of several
 * places in the log with one key the first counts, whichever replica of the facade wrote it.
 */

import { NAME_ENTROPY_BYTES, sortableName, timeOfName } from '../apis/ids.ts'
import { keyedHash } from '../lib/key-hash.ts'
import { KeyedMutex } from '../lib/keyed-mutex.ts'
import { RecentSet } from '../lib/lru.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import { claimLine, doneLine, isKeyAlive } from '../webhooks/log/dedupe.ts'
import type { EventLog } from '../webhooks/log/store.ts'
import { RefusedError } from './http/refused-error.ts'
import { type HeldKey, type IdempotencyCache, isDone } from './idempotency-book.ts'
import type { FirstAppend, IdempotencyKeys, KeyedRequest, KeyMark } from './ports-idempotency.ts'

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
  readonly #givenUp = new RecentSet(MAX_GIVEN_UP)
  /** Ids of what was appended here and not shown by the log yet, by key; the newest. */
  readonly #unshown = new Map<string, string>()

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
      this.#givenUp.add(mark.key)
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
    const [oldest] = this.#unshown.keys()
    if (this.#unshown.size > MAX_UNSHOWN && oldest !== undefined) this.#unshown.delete(oldest)
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
    const held = await this.#within(SHOWN_WITHIN_MS, (signal) => this.#options.book.when(mark.key, signal))
    if (!held) {
      // Nobody goes on with it but a repeat.
      this.#givenUp.add(mark.key)
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
    const made = await this.#within(patience, (signal) => this.#options.book.when(mark.key, signal, isDone))
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

  async #within<T>(ms: number, wait: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController()
    const stop = this.#options.clock.after(ms, () => over.abort())
    try {
      return await wait(over.signal)
    } finally {
      stop()
    }
  }
}

function refuseOther(held: HeldKey, { fingerprint }: KeyMark): void {
  if (held.fingerprint !== fingerprint) throw new RefusedError('idempotency_conflict')
}

function overloaded(detail: string): RefusedError {
  return new RefusedError('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS })
}
