/**
 * Events whose deliveries this process cannot count yet: that nothing of them is pending does not mean that they were
 * delivered. The log may show an append late, however long ago it was: how far it is shown decides, not the time.
 */
import type { Clock } from '../../ports/clock.ts'

/** An append without an answer that the log has not shown by then was not made. */
const UNANSWERED_MS = 10_000

type Appended = {
  at: number
  namespace: string
  /** Deliveries that are on their way into the tally; 0 once one is there. */
  unseen: number
  /** Of the log with the event in it; undefined while the append has no answer. */
  version: number | undefined
  delivered: boolean
}

export class UnseenEvents {
  readonly #clock: Clock
  readonly #shownUpTo: () => number
  /** By the 26 characters of the event's id, until `forget`. */
  readonly #appended = new Map<string, Appended>()
  /** Those that have unseen deliveries, in the order of the appends. */
  readonly #unseen = new Map<string, Appended>()
  readonly #ofOrganization = new Map<string, number>()
  #total = 0

  /** @param shownUpTo every segment of the log up to this version was taken in */
  constructor(clock: Clock, shownUpTo: () => number) {
    this.#clock = clock
    this.#shownUpTo = shownUpTo
  }

  /** Deliveries that were appended and not shown yet. */
  get total(): number {
    return this.#total
  }

  ofOrganization(namespace: string): number {
    return this.#ofOrganization.get(namespace) ?? 0
  }

  /** Call it before the append: the log may show the event before its answer comes. */
  appending(name: string, namespace: string, deliveries: number): void {
    this.forget(name)
    const at = this.#clock.monotonic()
    const appended = { at, namespace, unseen: deliveries, version: undefined, delivered: false }
    this.#appended.set(name, appended)
    if (deliveries > 0) this.#unseen.set(name, appended)
    this.#count(namespace, deliveries)
  }

  /** The append was answered. @param version of the log with the event in it */
  appended(name: string, version: number): void {
    const appended = this.#appended.get(name)
    if (appended) appended.version = version
  }

  /** The log has shown it before it was accepted: the process before appended it, or an answer was lost. */
  found(name: string, namespace: string): void {
    if (this.wasDelivered(name)) return
    this.forget(name)
    const at = this.#clock.monotonic()
    this.#appended.set(name, { at, namespace, unseen: 0, version: 0, delivered: false })
  }

  /** The first of its deliveries is known: the tally counts them from now on. */
  seen(name: string): void {
    const appended = this.#unseen.get(name)
    if (!appended) return
    this.#unseen.delete(name)
    this.#count(appended.namespace, -appended.unseen)
    appended.unseen = 0
  }

  /** All of its deliveries have ended, whoever appended it. @param namespace its organization */
  delivered(name: string, namespace: string | undefined): void {
    const appended = this.#appended.get(name)
    if (appended) appended.delivered = true
    else if (namespace !== undefined) {
      const at = this.#clock.monotonic()
      this.#appended.set(name, { at, namespace, unseen: 0, version: undefined, delivered: true })
    }
  }

  /** Whether all of its deliveries are known to have ended. */
  wasDelivered(name: string): boolean {
    return this.#appended.get(name)?.delivered === true
  }

  /**
   * Whether the log may still have to show it.
   * @param acceptedAt version of the event when its status said that it is in the log
   */
  mayComeYet(name: string, acceptedAt: number): boolean {
    const appended = this.#appended.get(name)
    return !appended?.delivered && this.#shownUpTo() < (appended?.version ?? acceptedAt)
  }

  /** Call it when the event has come to its end, or is gone. */
  forget(name: string): void {
    this.seen(name)
    this.#appended.delete(name)
  }

  /** What has no answer and was not shown by now was not appended; what was shown and is pending nowhere takes no room. */
  forgetOld(): void {
    const now = this.#clock.monotonic()
    const shownUpTo = this.#shownUpTo()
    for (const [name, { at, version }] of this.#unseen) {
      if (now - at < UNANSWERED_MS) return
      if (version === undefined) this.forget(name)
      else if (version <= shownUpTo) this.seen(name)
    }
  }

  #count(namespace: string, by: number): void {
    this.#total += by
    const count = this.ofOrganization(namespace) + by
    if (count === 0) this.#ofOrganization.delete(namespace)
    else this.#ofOrganization.set(namespace, count)
  }
}
