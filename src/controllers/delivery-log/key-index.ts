/**
 * Of several places in the log with one key the first counts; later ones are never delivered. Remembered for as
 * long as a repeat after a crash can come.
 */
import type { SegmentEvent } from '../../api/delivery-segment.ts'

type Place = { version: number; eventIndex: number; seenAt: number }

const KEPT_MS = 15 * 60_000
/** Of more keys the newest are remembered: some 30 MB. */
const MAX_KEYS = 200_000

export class KeyIndex {
  /** In the order in which they were shown. */
  readonly #first = new Map<string, Place>()
  readonly #maxKeys: number

  constructor(maxKeys = MAX_KEYS) {
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#first.size
  }

  /**
   * Places must be shown in the order of the log. @param now milliseconds since 1970
   * @returns true when an earlier place has the key
   */
  isRepeat(
    event: Pick<SegmentEvent, 'namespace' | 'key'>,
    version: number,
    eventIndex: number,
    now: number,
  ): boolean {
    if (event.key === undefined) return false
    const key = `${event.namespace}/${event.key}`
    const first = this.#first.get(key)
    if (first) return first.version !== version || first.eventIndex !== eventIndex
    this.#first.set(key, { version, eventIndex, seenAt: now })
    this.#forget(now)
    return false
  }

  /** Whether the log is known to hold the key. */
  has(namespace: string, key: string): boolean {
    return this.#first.has(`${namespace}/${key}`)
  }

  #forget(now: number): void {
    for (const [key, { seenAt }] of this.#first) {
      if (this.#first.size <= this.#maxKeys && now - seenAt <= KEPT_MS) return
      this.#first.delete(key)
    }
  }
}
