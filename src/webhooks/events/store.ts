import { derivedName, messageId, nameOfMessage } from '../../apis/ids.ts'
import type { EventOutline } from '../../apis/webhook-event.ts'
import type { Clock } from '../../lib/clock.ts'
import { copyString } from '../../lib/text.ts'

/** The WebhookEvents that are known, without their data: which wait to be accepted, and which to be finished. */

/** Own writes of a status: the version of the last that was answered, 0 without one, and the one that the watch has shown. */
type PendingWrites = { version: number; watched: number; underWay: boolean }

/** `at`: the first version that was seen to say so. */
type Accepted = { event: EventOutline; at: number }

export class WebhookEventStore {
  /** Whether all that were made before one that is known are known: lists come page by page, in the order of names. */
  isComplete: () => boolean = () => true
  /** Told the UID of each that was shown with a state, or has gone: what is remembered of what it was before is of no use. */
  onSettled: (uid: string) => void = () => undefined
  /** Told of each, by the 26 characters of the event's id, that has come to its end or has gone. */
  onFinished: (name: string) => void = () => undefined
  /** Not accepted yet, by namespace and UID. */
  readonly #waiting = new Map<string, Map<string, EventOutline>>()
  /** Accepted, deliveries under way: by the 26 characters of the event's id. */
  readonly #accepted = new Map<string, Accepted>()
  /** Finished, with a time to live. */
  readonly #expiring = new Map<string, EventOutline>()
  /** By UID, while the watch may be behind them. */
  readonly #writes = new Map<string, PendingWrites>()

  /** From the watch, which may be behind an own write. @returns true when there is something to do for the namespace */
  apply(event: EventOutline): boolean {
    const { uid } = event.metadata
    const writes = this.#writes.get(uid)
    if (!writes) return this.#hold(event)
    const shown = versionOf(event)
    // Behind itself the watch is only when the store was set back, and then all is news.
    const isBehind = shown < writes.version && shown >= writes.watched
    writes.watched = shown
    if (isBehind) return false
    writes.version = 0
    if (!writes.underWay) this.#writes.delete(uid)
    return this.#hold(event)
  }

  /** From the watch, or when it was deleted here. */
  remove(event: EventOutline): void {
    this.#writes.delete(event.metadata.uid)
    this.#letGo(event)
    this.onSettled(event.metadata.uid)
    this.onFinished(eventName(event))
  }

  /** Whether it was shown, and has no state yet. */
  isWaiting({ metadata: { namespace, uid } }: EventOutline): boolean {
    return this.#waiting.get(namespace)?.has(uid) === true
  }

  /** Whether there is something left to do for it. */
  isOpen(event: EventOutline): boolean {
    const { uid } = event.metadata
    return (
      this.isWaiting(event) ||
      this.#expiring.has(uid) ||
      this.accepted(eventName(event))?.metadata.uid === uid
    )
  }

  /** Before its status is written. */
  beginWrite(event: EventOutline): void {
    const { version, watched } = this.#writes.get(event.metadata.uid) ?? {
      version: 0,
      watched: versionOf(event),
    }
    this.#writes.set(event.metadata.uid, { version, watched, underWay: true })
  }

  /** Its status was written. @param version of the answer; absent: the event has gone, or is another one */
  completeWrite(event: EventOutline, version: number | undefined): void {
    const { uid } = event.metadata
    const writes = this.#writes.get(uid)
    if (!writes) return
    // It was shown before the answer came, or what came after it was.
    const isKnown = version !== undefined && writes.watched >= version
    if (!isKnown) this.#hold(event)
    if (isKnown || version === undefined) this.#writes.delete(uid)
    else this.#writes.set(uid, { version, watched: writes.watched, underWay: false })
  }

  /** Nobody knows whether its status was written. */
  failWrite({ metadata }: EventOutline): void {
    const writes = this.#writes.get(metadata.uid)
    if (!writes) return
    writes.underWay = false
    if (writes.version === 0) this.#writes.delete(metadata.uid)
  }

  /** Those with events that are not over. */
  organizations(): Set<string> {
    const left = [...this.#accepted.values().map(({ event }) => event), ...this.#expiring.values()]
    return new Set([...this.#waiting.keys(), ...left.map(({ metadata }) => metadata.namespace)])
  }

  #hold(event: EventOutline): boolean {
    const before = this.#accepted.get(eventName(event))
    this.#letGo(event)
    const { state } = event.status ?? {}
    if (state === undefined) {
      const waiting = this.#waiting.get(event.metadata.namespace) ?? new Map<string, EventOutline>()
      waiting.set(event.metadata.uid, event)
      this.#waiting.set(event.metadata.namespace, waiting)
      return true
    }
    this.onSettled(event.metadata.uid)
    if (state === 'accepted') {
      const at = before?.event.metadata.uid === event.metadata.uid ? before.at : versionOf(event)
      this.#accepted.set(eventName(event), { event, at })
      return true
    }
    this.onFinished(eventName(event))
    if (event.spec.ttlSecondsAfterFinished === undefined) return false
    this.#expiring.set(event.metadata.uid, event)
    return true
  }

  #letGo(event: EventOutline): void {
    const { namespace, uid } = event.metadata
    this.#waiting.get(namespace)?.delete(uid)
    if (this.#waiting.get(namespace)?.size === 0) this.#waiting.delete(namespace)
    this.#accepted.delete(eventName(event))
    this.#expiring.delete(uid)
  }

  /** When the one that waits longest was made, milliseconds since 1970, in namespaces that count; undefined when none waits. */
  oldestWaiting(counts: (namespace: string) => boolean): number | undefined {
    let oldest: number | undefined
    for (const [namespace, events] of this.#waiting) {
      if (!counts(namespace)) continue
      for (const { metadata } of events.values()) {
        const madeAt = Date.parse(metadata.creationTimestamp)
        if (madeAt < (oldest ?? Number.POSITIVE_INFINITY)) oldest = madeAt
      }
    }
    return oldest
  }

  /** In the order of their creation: the time has whole seconds, so within one the store's order decides. */
  waitingIn(namespace: string): EventOutline[] {
    return [...(this.#waiting.get(namespace)?.values() ?? [])].sort(
      (a, b) =>
        Date.parse(a.metadata.creationTimestamp) - Date.parse(b.metadata.creationTimestamp) ||
        Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion),
    )
  }

  accepted(name: string): EventOutline | undefined {
    return this.#accepted.get(name)?.event
  }

  /** A version of the store by which it was accepted; infinite where it is not known to be. */
  acceptedAt(name: string): number {
    return this.#accepted.get(name)?.at ?? Number.POSITIVE_INFINITY
  }

  acceptedIn(namespace: string): EventOutline[] {
    const all = this.#accepted.values().map(({ event }) => event)
    return [...all.filter(({ metadata }) => metadata.namespace === namespace)]
  }

  expiringIn(namespace: string): EventOutline[] {
    return [...this.#expiring.values()].filter(({ metadata }) => metadata.namespace === namespace)
  }
}

function versionOf({ metadata }: EventOutline): number {
  return Number(metadata.resourceVersion)
}

/** The 26 characters of the id of a WebhookEvent's deliveries: the same again after a crash. */
export function eventName(event: EventOutline): string {
  const known = event.status?.eventId === undefined ? undefined : nameOfMessage(event.status.eventId)
  return known ?? derivedName(Date.parse(event.metadata.creationTimestamp), `event ${event.metadata.uid}`)
}

export function eventIdOf(event: EventOutline): string {
  return messageId(eventName(event))
}

/**
 * Events whose deliveries this process cannot count yet: that nothing of them is pending does not mean that they were
 * delivered. The log may show an append late, however long ago it was: how far it is shown decides, not the time.
 */

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
    this.confirm(name)
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
  foundInLog(name: string, namespace: string): void {
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
  confirm(name: string): void {
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
  mayStillArrive(name: string, acceptedAt: number): boolean {
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
      if (version <= shownUpTo) this.confirm(name)
    }
  }

  #count(namespace: string, by: number): void {
    this.#total += by
    const count = this.ofOrganization(namespace) + by
    if (count === 0) this.#ofOrganization.delete(namespace)
    else this.#ofOrganization.set(namespace, count)
  }
}
