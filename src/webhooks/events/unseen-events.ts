/**
 * Events whose deliveries this process cannot count yet: that nothing of them is pending does not mean that they were
 * delivered. The log may show an append late, however long ago it was: how far it is shown decides, not the time.
 */

import { copyString } from '../../lib/own-text.ts'
import type { Clock } from '../../lib/ports-clock.ts'

/** An append without an answer that the log has not shown by then was not made. */
const UNANSWERED_MS = 10_000

type Appended = {
  at: number
  namespace: string
  /** Deliveries that are on their way into the tally; 0 once one is there. */
  unseen: number
  /** Of the log with the event in it; undefined while the append has no answer. */
  version?: number
  /** The version of the log in which the delivery stands that ended when no other was known. */
  endedIn?: number
}

export class UnconfirmedAppends {
  readonly #clock: Clock
  readonly #shownUpTo: () => number
  /** By the 26 characters of the event's id, until `forget`. */
  readonly #events = new Map<string, Appended>()
  /** Those that take room, in the order of the appends. */
  readonly #unseen = new Map<string, Appended>()
  readonly #ofOrganization = new Map<string, number>()
  #total = 0

  /** @param shownUpTo every segment of the log up to this version was taken in */
  constructor(clock: Clock, shownUpTo: () => number) {
    this.#clock = clock
    this.#shownUpTo = shownUpTo
  }

  /** Events of which something is known. */
  get size(): number {
    return this.#events.size
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
    this.seen(name)
    const appended = { at: this.#clock.monotonic(), namespace, unseen: deliveries }
    this.#events.set(name, appended)
    if (deliveries > 0) this.#unseen.set(name, appended)
    this.#count(namespace, deliveries)
  }

  /** The append was answered. @param version of the log with the event in it */
  appended(name: string, version: number): void {
    const appended = this.#events.get(name)
    if (appended) appended.version = version
  }

  /** The log has shown it before it was accepted: the process before appended it, or an answer was lost. */
  found(name: string, namespace: string): void {
    const known = this.#events.get(name)
    if (known) known.version ??= 0
    else this.#events.set(name, { at: this.#clock.monotonic(), namespace, unseen: 0, version: 0 })
  }

  /** An append of it has no answer, and the log may still show it. */
  isUnanswered(name: string): boolean {
    const appended = this.#events.get(name)
    if (!appended || appended.version !== undefined || appended.endedIn !== undefined) return false
    return this.#clock.monotonic() - appended.at < UNANSWERED_MS
  }

  /** The first of its deliveries is known: the tally counts them from now on. */
  seen(name: string): void {
    const appended = this.#unseen.get(name)
    if (!appended) return
    this.#unseen.delete(name)
    this.#count(appended.namespace, -appended.unseen)
    appended.unseen = 0
  }

  /**
   * All of its deliveries that are known have ended, whoever appended it.
   * @param version of the log in which the last of them stands @param namespace its organization, if it is to be finished
   */
  delivered(name: string, version: number, namespace: string | undefined): void {
    const known = this.#events.get(name)
    if (known) known.endedIn = version
    else if (namespace !== undefined)
      // It may be cut out of the text of a segment, which must not stay.
      this.#events.set(copyString(name), {
        at: this.#clock.monotonic(),
        namespace,
        unseen: 0,
        endedIn: version,
      })
  }

  /**
   * Whether all of its deliveries have ended, if none is pending: they stand in one segment, which may be shown later than
   * the object of one of them.
   */
  wasDelivered(name: string): boolean {
    const { endedIn } = this.#events.get(name) ?? {}
    return endedIn !== undefined && this.#shownUpTo() >= endedIn
  }

  /**
   * Whether the log may still have to show it.
   * @param acceptedAt a version of the event whose status says that it is in the log
   */
  mayComeYet(name: string, acceptedAt: number): boolean {
    const { endedIn, version } = this.#events.get(name) ?? {}
    return this.#shownUpTo() < (endedIn ?? version ?? acceptedAt)
  }

  /** It has come to its end, is gone, or is another replica's; what the log has not shown of it takes room until it has. */
  forget(name: string): void {
    this.#events.delete(name)
  }

  /** What has no answer and was not shown by now was not appended; what was shown and is pending nowhere takes no room. */
  expire(): void {
    const now = this.#clock.monotonic()
    const shownUpTo = this.#shownUpTo()
    for (const [name, { at, version = 0 }] of this.#unseen) {
      if (now - at < UNANSWERED_MS) return
      if (version <= shownUpTo) this.seen(name)
    }
  }

  #count(namespace: string, by: number): void {
    this.#total += by
    const count = this.ofOrganization(namespace) + by
    if (count === 0) this.#ofOrganization.delete(namespace)
    else this.#ofOrganization.set(namespace, count)
  }
}
