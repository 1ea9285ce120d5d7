/**
 * Events that this process appended and the log may not have shown yet: that nothing of them is pending does not
 * mean that they were delivered. Held for as long as the log may take to show an append.
 */
import type { Clock } from '../../ports/clock.ts'

const UNSEEN_MS = 10_000

type Appended = {
  at: number
  namespace: string
  /** Deliveries that are on their way into the tally; 0 once one is there. */
  unseen: number
  delivered: boolean
}

export class UnseenEvents {
  readonly #clock: Clock
  /** By the 26 characters of the event's id, in the order of the appends. */
  readonly #appended = new Map<string, Appended>()
  readonly #unseen = new Map<string, number>()
  #total = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Deliveries that were appended and not shown yet. */
  get total(): number {
    return this.#total
  }

  ofOrganization(namespace: string): number {
    return this.#unseen.get(namespace) ?? 0
  }

  /** Call it before the append: the log may show the event before its answer comes. */
  appending(name: string, namespace: string, deliveries: number): void {
    this.forget(name)
    const at = this.#clock.monotonic()
    this.#appended.set(name, { at, namespace, unseen: deliveries, delivered: false })
    this.#count(namespace, deliveries)
    this.forgetOld()
  }

  /** The first of its deliveries is known: the tally counts them from now on. */
  seen(name: string): void {
    const appended = this.#appended.get(name)
    if (!appended) return
    this.#count(appended.namespace, -appended.unseen)
    appended.unseen = 0
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
    this.seen(name)
    this.#appended.delete(name)
  }

  /** What the log has not shown by now was not appended. */
  forgetOld(): void {
    const now = this.#clock.monotonic()
    for (const [name, { at }] of this.#appended) {
      if (now - at < UNSEEN_MS) return
      this.forget(name)
    }
  }

  #count(namespace: string, by: number): void {
    this.#total += by
    const count = this.ofOrganization(namespace) + by
    if (count === 0) this.#unseen.delete(namespace)
    else this.#unseen.set(namespace, count)
  }
}
