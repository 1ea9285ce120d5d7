/** The WebhookEvents that are known, without their data: which wait to be accepted, and which to be finished. */
import type { EventOutline } from '../../api/event-outline.ts'
import { derivedName, messageId, nameOfMessage } from '../../domain/message-id.ts'

export class EventBook {
  /** Whether every event is known: a list comes page by page, in the order of names, not of creation. */
  complete: () => boolean = () => true
  /** Not accepted yet, by namespace and UID. */
  readonly #waiting = new Map<string, Map<string, EventOutline>>()
  /** Accepted, deliveries under way: by the 26 characters of the event's id. */
  readonly #accepted = new Map<string, EventOutline>()
  /** Finished, with a time to live. */
  readonly #expiring = new Map<string, EventOutline>()

  /** @returns true when there is something to do for the namespace */
  apply(event: EventOutline): boolean {
    this.remove(event)
    const { state } = event.status ?? {}
    if (state === undefined) {
      const waiting = this.#waiting.get(event.metadata.namespace) ?? new Map<string, EventOutline>()
      waiting.set(event.metadata.uid, event)
      this.#waiting.set(event.metadata.namespace, waiting)
      return true
    }
    if (state === 'accepted') {
      this.#accepted.set(eventName(event), event)
      return true
    }
    if (event.spec.ttlSecondsAfterFinished === undefined) return false
    this.#expiring.set(event.metadata.uid, event)
    return true
  }

  remove(event: EventOutline): void {
    const { namespace, uid } = event.metadata
    this.#waiting.get(namespace)?.delete(uid)
    if (this.#waiting.get(namespace)?.size === 0) this.#waiting.delete(namespace)
    this.#accepted.delete(eventName(event))
    this.#expiring.delete(uid)
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
    return this.#accepted.get(name)
  }

  acceptedIn(namespace: string): EventOutline[] {
    return [...this.#accepted.values()].filter(({ metadata }) => metadata.namespace === namespace)
  }

  expiringIn(namespace: string): EventOutline[] {
    return [...this.#expiring.values()].filter(({ metadata }) => metadata.namespace === namespace)
  }
}

/** The 26 characters of the id of a WebhookEvent's deliveries: the same again after a crash. */
export function eventName(event: EventOutline): string {
  const known = event.status?.eventId === undefined ? undefined : nameOfMessage(event.status.eventId)
  return known ?? derivedName(Date.parse(event.metadata.creationTimestamp), `event ${event.metadata.uid}`)
}

export function eventIdOf(event: EventOutline): string {
  return messageId(eventName(event))
}
