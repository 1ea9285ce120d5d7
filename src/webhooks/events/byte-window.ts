/** Bytes by key over the last minutes, to the minute; the size of what is kept does not depend on how much comes. */
import type { Clock } from '../../lib/ports-clock.ts'

const MINUTE_MS = 60_000

export class ByteWindow {
  readonly #clock: Clock
  readonly #minutes: number
  /** By minute of the monotonic clock, the oldest first. */
  readonly #buckets = new Map<number, Map<string, number>>()
  readonly #sums = new Map<string, number>()
  #total = 0

  constructor(clock: Clock, minutes: number) {
    this.#clock = clock
    this.#minutes = minutes
  }

  add(key: string, bytes: number): void {
    const minute = this.#forget()
    const bucket = this.#buckets.get(minute) ?? new Map<string, number>()
    this.#buckets.set(minute, bucket)
    bucket.set(key, (bucket.get(key) ?? 0) + bytes)
    this.#sums.set(key, (this.#sums.get(key) ?? 0) + bytes)
    this.#total += bytes
  }

  bytesOf(key: string): number {
    this.#forget()
    return this.#sums.get(key) ?? 0
  }

  get total(): number {
    this.#forget()
    return this.#total
  }

  /** @returns the minute that it is */
  #forget(): number {
    const minute = Math.floor(this.#clock.monotonic() / MINUTE_MS)
    for (const [old, bucket] of this.#buckets) {
      if (old > minute - this.#minutes) break
      this.#buckets.delete(old)
      for (const [key, bytes] of bucket) {
        this.#total -= bytes
        const left = (this.#sums.get(key) ?? 0) - bytes
        if (left > 0) this.#sums.set(key, left)
        else this.#sums.delete(key)
      }
    }
    return minute
  }
}
