/**
 * Which Idempotency-Keys stand, and for which place in the log: what the watch of the log has shown, for 24 hours.
 * Places may be shown in any order during a list, and in the log's order afterwards.
 */

import { copyString } from '../lib/own-text.ts'
import type { Clock } from '../lib/ports-clock.ts'
import { type Pending, remainingQuota } from '../webhooks/events/pending-limits.ts'
import { isBefore, isKeyAlive, type KeyRecord } from '../webhooks/log/dedupe.ts'

export type HeldKey = Readonly<Omit<KeyRecord, 'key'>> & {
  /** The id of which a note says that what was asked for is made; only one that counted gets a note. */
  doneId?: string
}

/** What the key was for is made: always so for an event. */
export function isDone({ kind, id, doneId }: HeldKey): boolean {
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
