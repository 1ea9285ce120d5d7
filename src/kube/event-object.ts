import type { RawObject } from './client.ts'
import type { RecordedEvent } from './event-recorder.ts'

/** What an event is about. */
export type RegardingObject = Pick<RawObject, 'apiVersion' | 'kind' | 'metadata'>

/** Events of cluster-scoped objects live here. */
const NAMESPACE_OF_CLUSTER = 'default'
const CONTROLLER = 'davit'
/** Limits of the API server, in bytes. */
const MAX_NOTE = 1024
const MAX_INSTANCE = 128
const MAX_NAME = 253

export function namespaceOfEvent(about: RegardingObject): string {
  return about.metadata.namespace ?? NAMESPACE_OF_CLUSTER
}

/** An events.k8s.io/v1 Event. @param at.now milliseconds since 1970 @param at.suffix makes the name unique, hex */
export function eventObject(
  about: RegardingObject,
  event: RecordedEvent,
  at: { now: number; suffix: string; instance: string },
): RawObject {
  const { namespace, name, uid, resourceVersion } = about.metadata
  const stem = name.slice(0, MAX_NAME - at.suffix.length - 1).replace(/[^a-z0-9]+$/, '')
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `${stem}.${at.suffix}`, namespace: namespaceOfEvent(about) },
    eventTime: microTime(at.now),
    reportingController: CONTROLLER,
    reportingInstance: truncateUtf8(at.instance, MAX_INSTANCE),
    action: 'Reconcile',
    type: event.type,
    reason: event.reason,
    note: truncateUtf8(event.message, MAX_NOTE),
    regarding: { apiVersion: about.apiVersion, kind: about.kind, namespace, name, uid, resourceVersion },
  }
}

/** The patch that counts a repeat. @param count 2 or more */
export function seriesPatch(count: number, now: number): object {
  return { series: { count, lastObservedTime: microTime(now) } }
}

/** The API server wants all six digits. @param now milliseconds since 1970 */
export function microTime(now: number): string {
  return new Date(now).toISOString().replace('Z', '000Z')
}

/** The beginning of a text that fits into so many bytes of UTF-8, cut between characters. */
export function truncateUtf8(text: string, most: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= most) return text
  let end = most
  // The first byte that is left out must not continue a character.
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}
