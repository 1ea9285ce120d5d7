/**
 * Of several places in the log with one key the first counts; later ones are never delivered. Remembered for as
 * long as a repeat after a crash can come.
 */
import type { SegmentEvent } from '../../api/delivery-segment.ts'

type Place = { version: number; eventIndex: number; seenAt: number }

const KEPT_MS = 15 * 60_000
/** Sweeps are paid for by additions. */
const SWEEP_EVERY = 4096

export class KeyIndex {
  readonly #first = new Map<string, Place>()
  #untilSweep = SWEEP_EVERY

  /**
   * Places must be shown in the order of the log. @param now milliseconds since 1970
   * @returns true when an earlier place has the key
   */
  isRepeat(event: SegmentEvent, version: number, eventIndex: number, now: number): boolean {
    if (event.key === undefined) return false
    const key = `${event.namespace}/${event.key}`
    const first = this.#first.get(key)
    if (first) return first.version !== version || first.eventIndex !== eventIndex
    this.#first.set(key, { version, eventIndex, seenAt: now })
    this.#untilSweep -= 1
    if (this.#untilSweep === 0) this.#sweep(now)
    return false
  }

  /** Whether the log is known to hold the key. */
  has(namespace: string, key: string): boolean {
    return this.#first.has(`${namespace}/${key}`)
  }

  #sweep(now: number): void {
    this.#untilSweep = SWEEP_EVERY
    for (const [key, { seenAt }] of this.#first) if (now - seenAt > KEPT_MS) this.#first.delete(key)
  }
}
