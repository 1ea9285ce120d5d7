/** The WebhookEvents that are known, without their data: which wait to be accepted, and which to be finished. */
import type { EventOutline } from '../../apis/event-outline.ts'
import { derivedName, messageId, nameOfMessage } from '../../apis/ids.ts'

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
