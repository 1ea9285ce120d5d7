/**
 * Events that this process appended and the log may not have shown yet: that nothing of them is pending does not
 * mean that they were delivered. Held for as long as the log may take to show an append.
 */
import type { Clock } from '../../ports/clock.ts'

const UNSEEN_MS = 10_000

type Appended = { at: number; delivered: boolean }

export class UnseenEvents {
  readonly #clock: Clock
  /** By the 26 characters of the event's id, in the order of the appends. */
  readonly #appended = new Map<string, Appended>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Call it before the append: the log may show the event before its answer comes. */
  appending(name: string): void {
    const now = this.#clock.monotonic()
    this.#appended.delete(name)
    this.#appended.set(name, { at: now, delivered: false })
    for (const [old, { at }] of this.#appended) {
      if (now - at < UNSEEN_MS) return
      this.#appended.delete(old)
    }
  }

  /** All of its deliveries have ended. */
  delivered(name: string): void {
    const appended = this.#appended.get(name)
    if (appended) appended.delivered = true
  }

  /** Whether all of its deliveries are known to have ended, without a look at what is pending. */
  wasDelivered(name: string): boolean {
    return this.#appended.get(name)?.delivered === true
  }

  /** Whether the log may still have to show it. */
  mayComeYet(name: string): boolean {
    const appended = this.#appended.get(name)
    return appended !== undefined && !appended.delivered && this.#clock.monotonic() - appended.at < UNSEEN_MS
  }

  forget(name: string): void {
    this.#appended.delete(name)
  }
}
