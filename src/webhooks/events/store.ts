import { derivedName, nameOfMessage } from '../../apis/ids.ts'
import type { EventOutline } from '../../apis/webhook-event.ts'
import { KeyedSums } from '../../lib/fair-queue.ts'
import { copyString } from '../../lib/text.ts'
import type { Clock } from '../../lib/time.ts'

/**
 * What the controller remembers of WebhookEvents: those that it still has work for (without their data), and appends of theirs that the
 * log has not returned yet.
 */

/** Status writes of this process: the version of the last answered one (0 without one), and the version from the watch. */
type PendingWrites = { version: number; watched: number; inFlight: boolean }

/** `at`: the first version with the state `accepted`. */
type Accepted = { event: EventOutline; at: number }

export class WebhookEventStore {
  /** False during the first list, which is in the order of names: older events may still be unknown. */
  isComplete: () => boolean = () => true
  /** Called with an event's UID once it has a state or is deleted, so that cached decisions can be dropped. */
  onSettled: (uid: string) => void = () => undefined
  /** Called with the 26 characters of an event's id once it is finished or deleted. */
  onFinished: (name: string) => void = () => undefined
  /** Undecided, by namespace and UID. */
  readonly #waiting = new Map<string, Map<string, EventOutline>>()
  /** Accepted, with open deliveries, by the 26 characters of the event's id. */
  readonly #accepted = new Map<string, Accepted>()
  readonly #expiring = new Map<string, EventOutline>()
  /** By UID, while the watch may be behind. */
  readonly #writes = new Map<string, PendingWrites>()

  /** From the watch, which may be behind a write of this process. @returns whether the namespace has to be reconciled */
  apply(event: EventOutline): boolean {
    const { uid } = event.metadata
    const writes = this.#writes.get(uid)
    if (!writes) return this.#keep(event)
    const version = versionOf(event)
    // The watch goes back only if the store was restored: then everything is new.
    const isBehind = version < writes.version && version >= writes.watched
    writes.watched = version
    if (isBehind) return false
    writes.version = 0
    if (!writes.inFlight) this.#writes.delete(uid)
    return this.#keep(event)
  }

  /** From the watch, or after a delete by this process. */
  remove(event: EventOutline): void {
    this.#writes.delete(event.metadata.uid)
    this.#drop(event)
    this.onSettled(event.metadata.uid)
    this.onFinished(eventName(event))
  }

  isWaiting({ metadata: { namespace, uid } }: EventOutline): boolean {
    return this.#waiting.get(namespace)?.has(uid) === true
  }

  isOpen(event: EventOutline): boolean {
    const { uid } = event.metadata
    return (
      this.isWaiting(event) ||
      this.#expiring.has(uid) ||
      this.accepted(eventName(event))?.metadata.uid === uid
    )
  }

  beginWrite(event: EventOutline): void {
    const { version, watched } = this.#writes.get(event.metadata.uid) ?? {
      version: 0,
      watched: versionOf(event),
    }
    this.#writes.set(event.metadata.uid, { version, watched, inFlight: true })
  }

  /** @param version of the answer; absent: the event was deleted or replaced */
  completeWrite(event: EventOutline, version: number | undefined): void {
    const { uid } = event.metadata
    const writes = this.#writes.get(uid)
    if (!writes) return
    // The watch was faster than the answer.
    const isKnown = version !== undefined && writes.watched >= version
    if (!isKnown) this.#keep(event)
    if (isKnown || version === undefined) this.#writes.delete(uid)
    else this.#writes.set(uid, { version, watched: writes.watched, inFlight: false })
  }

  /** The status may or may not have been written. */
  failWrite({ metadata }: EventOutline): void {
    const writes = this.#writes.get(metadata.uid)
    if (!writes) return
    writes.inFlight = false
    if (writes.version === 0) this.#writes.delete(metadata.uid)
  }

  organizations(): Set<string> {
    const left = [...this.#accepted.values().map(({ event }) => event), ...this.#expiring.values()]
    return new Set([...this.#waiting.keys(), ...left.map(({ metadata }) => metadata.namespace)])
  }

  #keep(event: EventOutline): boolean {
    const before = this.#accepted.get(eventName(event))
    this.#drop(event)
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

  #drop(event: EventOutline): void {
    const { namespace, uid } = event.metadata
    this.#waiting.get(namespace)?.delete(uid)
    if (this.#waiting.get(namespace)?.size === 0) this.#waiting.delete(namespace)
    this.#accepted.delete(eventName(event))
    this.#expiring.delete(uid)
  }

  /** Creation time of the oldest undecided event in some namespaces, milliseconds since 1970; undefined if there is none. */
  oldestWaiting(isIncluded: (namespace: string) => boolean): number | undefined {
    let oldest: number | undefined
    for (const [namespace, events] of this.#waiting) {
      if (!isIncluded(namespace)) continue
      for (const { metadata } of events.values()) {
        const createdAt = Date.parse(metadata.creationTimestamp)
        if (createdAt < (oldest ?? Number.POSITIVE_INFINITY)) oldest = createdAt
      }
    }
    return oldest
  }

  /** In the order of their creation; within a second, of their versions. */
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

  /** A version at which it was accepted; infinite if it is not known to be. */
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

/** The 26 characters of the event's id: derived, so that a retry after a crash has the same. */
export function eventName(event: EventOutline): string {
  const known = event.status?.eventId === undefined ? undefined : nameOfMessage(event.status.eventId)
  return known ?? derivedName(Date.parse(event.metadata.creationTimestamp), `event ${event.metadata.uid}`)
}

/** After this time, an append that has no answer and that the log has not returned was not made. */
const UNANSWERED_MS = 10_000

type Appended = {
  at: number
  namespace: string
  /** Deliveries that the counters do not have yet; 0 once they have one. */
  unconfirmed: number
  /** Version of the segment; undefined while the append has no answer. */
  version?: number
  /** Version of the segment with the delivery that ended when no other was known. */
  endedIn?: number
}

/**
 * Appended events whose deliveries this process cannot count yet: no pending delivery does not mean that the event is delivered. The log
 * may return an append late, so the version up to which it was read decides, not the time.
 */
export class UnconfirmedAppends {
  readonly #clock: Clock
  readonly #readUpTo: () => number
  /** By the 26 characters of the event's id, until `forget`. */
  readonly #events = new Map<string, Appended>()
  /** Those that count against the quota, in the order of the appends. */
  readonly #unconfirmed = new Map<string, Appended>()
  readonly #ofOrganization = new KeyedSums()

  /** @param readUpTo the version up to which every segment was read */
  constructor(clock: Clock, readUpTo: () => number) {
    this.#clock = clock
    this.#readUpTo = readUpTo
  }

  get size(): number {
    return this.#events.size
  }

  get total(): number {
    return this.#ofOrganization.total
  }

  ofOrganization(namespace: string): number {
    return this.#ofOrganization.of(namespace)
  }

  /** Call it before the append: the watch may be faster than the answer. */
  appending(name: string, namespace: string, deliveries: number): void {
    this.confirm(name)
    const appended = { at: this.#clock.monotonic(), namespace, unconfirmed: deliveries }
    this.#events.set(name, appended)
    if (deliveries > 0) this.#unconfirmed.set(name, appended)
    this.#ofOrganization.add(namespace, deliveries)
  }

  /** The append was answered. @param version of the segment */
  appended(name: string, version: number): void {
    const appended = this.#events.get(name)
    if (appended) appended.version = version
  }

  /** The log has it already: an earlier process appended it, or an answer was lost. */
  foundInLog(name: string, namespace: string): void {
    const known = this.#events.get(name)
    if (known) known.version ??= 0
    else this.#events.set(name, { at: this.#clock.monotonic(), namespace, unconfirmed: 0, version: 0 })
  }

  /** Its append has no answer, and the log may still return it. */
  isUnanswered(name: string): boolean {
    const appended = this.#events.get(name)
    if (!appended || appended.version !== undefined || appended.endedIn !== undefined) return false
    return this.#clock.monotonic() - appended.at < UNANSWERED_MS
  }

  /** The counters have one of its deliveries, and count them from now on. */
  confirm(name: string): void {
    const appended = this.#unconfirmed.get(name)
    if (!appended) return
    this.#unconfirmed.delete(name)
    this.#ofOrganization.add(appended.namespace, -appended.unconfirmed)
    appended.unconfirmed = 0
  }

  /**
   * All of its known deliveries have ended.
   * @param version of the segment with the last of them @param namespace its organization, if its status must be written
   */
  delivered(name: string, version: number, namespace: string | undefined): void {
    const known = this.#events.get(name)
    if (known) known.endedIn = version
    else if (namespace !== undefined)
      // A slice would keep the text of the segment in memory.
      this.#events.set(copyString(name), {
        at: this.#clock.monotonic(),
        namespace,
        unconfirmed: 0,
        endedIn: version,
      })
  }

  /** Whether all deliveries have ended, if none is pending: their segment may be read later than the object of one of them. */
  wasDelivered(name: string): boolean {
    const { endedIn } = this.#events.get(name) ?? {}
    return endedIn !== undefined && this.#readUpTo() >= endedIn
  }

  /** Whether the log may still return it. @param acceptedAt a version of the event with the state `accepted` */
  mayStillArrive(name: string, acceptedAt: number): boolean {
    const { endedIn, version } = this.#events.get(name) ?? {}
    return this.#readUpTo() < (endedIn ?? version ?? acceptedAt)
  }

  /** It is finished, deleted, or another replica's. Deliveries not read yet count against the quota until they are. */
  forget(name: string): void {
    this.#events.delete(name)
  }

  /** Releases the quota of appends that failed, and of those that were read and have no pending delivery. */
  expire(): void {
    const now = this.#clock.monotonic()
    const read = this.#readUpTo()
    for (const [name, { at, version = 0 }] of this.#unconfirmed) {
      if (now - at < UNANSWERED_MS) return
      if (version <= read) this.confirm(name)
    }
  }
}
