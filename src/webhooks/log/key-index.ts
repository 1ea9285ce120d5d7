/**
 * Of several places in the log with one key the first counts; later ones are never delivered, unless the key had
 * expired by then. Remembered for as long as a repeat after a crash can come.
 */
import type { SegmentEvent } from '../../apis/delivery-segment.ts'
import { timeOfName } from '../../apis/ids.ts'
import { KEY_LIFE_MS } from './dedupe.ts'

type Place = { id: string; version: number; eventIndex: number; seenAt: number }

const KEPT_MS = 15 * 60_000
/** Of more keys the newest are remembered: some 30 MB. */
const MAX_KEYS = 200_000

export class DedupeIndex {
  /** In the order in which they were shown, or asked for. */
  readonly #first = new Map<string, Place>()
  readonly #maxKeys: number

  constructor(maxKeys = MAX_KEYS) {
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#first.size
  }

  /**
   * Places must be shown in the order of the log. @param now milliseconds of the steady clock: one that is set ahead would
   * have all keys forgotten at once
   * @returns true when an earlier place has the key
   */
  isDuplicate(
    event: Pick<SegmentEvent, 'id' | 'namespace' | 'key'>,
    version: number,
    eventIndex: number,
    now: number,
  ): boolean {
    if (event.key === undefined) return false
    const key = `${event.namespace}/${event.key}`
    const first = this.#first.get(key)
    if (first && !isExpired(first.id, event.id))
      return first.version !== version || first.eventIndex !== eventIndex
    // As the newest, or it would be forgotten as early as the one before.
    this.#first.delete(key)
    this.#first.set(key, { id: event.id, version, eventIndex, seenAt: now })
    this.#forget(now)
    return false
  }

  /**
   * Whether the log is known to hold the key. Whoever asks may ask again, for as long as a note of what was appended cannot be
   * written, so a key that is asked for stays. @param now milliseconds of the steady clock
   */
  has(namespace: string, key: string, now: number): boolean {
    const name = `${namespace}/${key}`
    const first = this.#first.get(name)
    if (!first) return false
    this.#first.delete(name)
    this.#first.set(name, { ...first, seenAt: now })
    return true
  }

  #forget(now: number): void {
    for (const [key, { seenAt }] of this.#first) {
      if (this.#first.size <= this.#maxKeys && now - seenAt <= KEPT_MS) return
      this.#first.delete(key)
    }
  }
}

/** By the ids' own times: whoever takes a request decides so, and no other clock may see it otherwise. */
function isExpired(first: string, later: string): boolean {
  return timeOfName(later) - timeOfName(first) >= KEY_LIFE_MS
}
