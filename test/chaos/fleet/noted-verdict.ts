/** Compares created WebhookEvents with the log, and with their own statuses. */
import type { LoggedEvent } from '../stored.ts'
import { numberIn } from './published-verdict.ts'

/** The final state of an object. */
export type NotedEvent = {
  name: string
  state?: string | undefined
  eventId?: string | undefined
  /** When it was first seen as dispatched, by `performance.now()`. */
  endSeenAt?: number | undefined
}

export type NotedEvidence = {
  /** Numbers of the WebhookEvents of each organization, in the order of their creation. */
  notes: ReadonlyMap<string, readonly number[]>
  objects: readonly NotedEvent[]
  /** In the order of the log. */
  events: readonly LoggedEvent[]
  /** By the id of an event, when the last of its endpoints received it successfully for the first time. */
  takenAt: ReadonlyMap<string, number>
}

export type NotedVerdict = {
  /** Created, but missing in the end. */
  missing: string[]
  /** Not dispatched after everything has settled. */
  undone: string[]
  /** Dispatched, but not in the log. */
  unsent: string[]
  /** In the log under another id than in the object. */
  misnamed: string[]
  /** Dispatched before one of its endpoints had received it. */
  early: string[]
  /** In the log before an earlier one of its organization. */
  misplaced: string[]
}

/** Duplicates and wrong endpoints in the log are judged for all events alike. */
export function judgeNoted({ notes, objects, events, takenAt }: NotedEvidence): NotedVerdict {
  const logged = new Map(events.map((event) => [numberIn(event.body), event]))
  const objectsByName = new Map(objects.map((one) => [one.name, one]))
  const verdict: NotedVerdict = {
    missing: [],
    undone: [],
    unsent: [],
    misnamed: [],
    early: [],
    misplaced: [],
  }
  for (const n of [...notes.values()].flat()) {
    const name = nameOfNote(n)
    const object = objectsByName.get(name)
    const event = logged.get(n)
    if (!object) verdict.missing.push(name)
    else if (object.state !== 'dispatched') verdict.undone.push(`${name} (${object.state ?? 'no state'})`)
    if (!event) verdict.unsent.push(name)
    else if (object && object.eventId !== event.id)
      verdict.misnamed.push(`${name} says ${object.eventId}, the log ${event.id}`)
    if (event && isEarly(object, takenAt.get(event.id))) verdict.early.push(name)
  }
  const places = new Map([...logged.keys()].map((n, index) => [n, index]))
  for (const numbers of notes.values()) verdict.misplaced.push(...misplacedAmong(numbers, places))
  return verdict
}

function isEarly(object: NotedEvent | undefined, takenAt = Number.NEGATIVE_INFINITY): boolean {
  return takenAt > (object?.endSeenAt ?? Number.POSITIVE_INFINITY)
}

function misplacedAmong(numbers: readonly number[], places: ReadonlyMap<number, number>): string[] {
  let furthest = -1
  return numbers.flatMap((n) => {
    const index = places.get(n) ?? furthest
    const isBefore = index < furthest
    furthest = Math.max(furthest, index)
    return isBefore ? [nameOfNote(n)] : []
  })
}

export function nameOfNote(n: number): string {
  return `note-${n}`
}
