/** Compares WebhookEvents that were made with what is in the log, and with what they say of it themselves. */
import type { LoggedEvent } from '../stored.ts'
import { numberIn } from './published-verdict.ts'

/** What an object shows in the end. */
export type NotedEvent = {
  name: string
  state?: string | undefined
  eventId?: string | undefined
  /** When it was first seen to be dispatched, by `performance.now()`. */
  endShownAt?: number | undefined
}

export type NotedEvidence = {
  /** Numbers of the WebhookEvents of each organization, in the order of their creation. */
  notes: ReadonlyMap<string, readonly number[]>
  objects: readonly NotedEvent[]
  /** In the order of the log. */
  events: readonly LoggedEvent[]
  /** By the id of an event, when the last of its endpoints took it for the first time. */
  takenAt: ReadonlyMap<string, number>
}

export type NotedVerdict = {
  /** Made, and not there in the end. */
  missing: string[]
  /** Not dispatched when all has come to rest. */
  undone: string[]
  /** Dispatched, and not in the log. */
  unsent: string[]
  /** In the log under another id than the object says. */
  misnamed: string[]
  /** Dispatched before one of its endpoints had taken it. */
  early: string[]
  /** In the log before one of its organization that was made earlier. */
  misplaced: string[]
}

/** Whether the log has an event several times, and at the right endpoints, is judged for all events alike. */
export function judgeNoted({ notes, objects, events, takenAt }: NotedEvidence): NotedVerdict {
  const logged = new Map(events.map((event) => [numberIn(event.body), event]))
  const shown = new Map(objects.map((one) => [one.name, one]))
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
    const object = shown.get(name)
    const event = logged.get(n)
    if (!object) verdict.missing.push(name)
    else if (object.state !== 'dispatched') verdict.undone.push(`${name} (${object.state ?? 'no state'})`)
    if (!event) verdict.unsent.push(name)
    else if (object && object.eventId !== event.id)
      verdict.misnamed.push(`${name} says ${object.eventId}, the log ${event.id}`)
    if (event && isEarly(object, takenAt.get(event.id))) verdict.early.push(name)
  }
  const places = new Map([...logged.keys()].map((n, place) => [n, place]))
  for (const numbers of notes.values()) verdict.misplaced.push(...misplacedAmong(numbers, places))
  return verdict
}

function isEarly(object: NotedEvent | undefined, takenAt = Number.NEGATIVE_INFINITY): boolean {
  return takenAt > (object?.endShownAt ?? Number.POSITIVE_INFINITY)
}

function misplacedAmong(numbers: readonly number[], places: ReadonlyMap<number, number>): string[] {
  let furthest = -1
  return numbers.flatMap((n) => {
    const place = places.get(n) ?? furthest
    const isBefore = place < furthest
    furthest = Math.max(furthest, place)
    return isBefore ? [nameOfNote(n)] : []
  })
}

export function nameOfNote(n: number): string {
  return `note-${n}`
}
