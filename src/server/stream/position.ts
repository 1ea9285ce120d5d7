import { comparePositions, type Position } from '../../apis/delivery-segment.ts'

/**
 * How far a client has read the stream. Its messages come from three sequences: the events of the log, the outcomes of the log, and the
 * WebhookDeliveries. Each has an order, which is that of the versions in etcd, but a server sees the three by separate watches, with no
 * mutual order. So a position says for each of them where the next message may be. It means the same on every replica.
 */

export const SOURCES = ['events', 'outcomes', 'objects'] as const
export type Source = (typeof SOURCES)[number]

/** By source: everything before it has been read. */
export type StreamPosition = Readonly<Record<Source, Position>>

export const START: StreamPosition = {
  events: { version: 0, index: 0 },
  outcomes: { version: 0, index: 0 },
  objects: { version: 0, index: 0 },
}

export function isBefore(a: Position, b: Position): boolean {
  return comparePositions(a, b) < 0
}

export function laterOf(a: Position, b: Position): Position {
  return isBefore(a, b) ? b : a
}

/** Where the next message may be once the one here was read. */
export function behind({ version, index }: Position): Position {
  return { version, index: index + 1 }
}

/** Where the next message may be once everything up to this version was read. */
export function behindVersion(version: number): Position {
  return { version: version + 1, index: 0 }
}

/** Whether nothing is missing for a client that continues at `position`, if everything from `floor` on is known. */
export function isCovered(position: StreamPosition, floor: StreamPosition): boolean {
  return SOURCES.every((source) => !isBefore(position[source], floor[source]))
}

/** By source, the later one. */
export function furthest(a: StreamPosition, b: StreamPosition): StreamPosition {
  return {
    events: laterOf(a.events, b.events),
    outcomes: laterOf(a.outcomes, b.outcomes),
    objects: laterOf(a.objects, b.objects),
  }
}

/** For clients, which do not look into it: `48213.7-48215-48199`. An index of 0 is left out. */
export function formatStreamPosition({ events, outcomes, objects }: StreamPosition): string {
  return `${partOf(events)}-${partOf(outcomes)}-${partOf(objects)}`
}

function partOf({ version, index }: Position): string {
  return index === 0 ? `${version}` : `${version}.${index}`
}

const PART = String.raw`(\d{1,15})(?:\.(\d{1,6}))?`
/** Of a whole position. */
export const STREAM_POSITION = new RegExp(`^${PART}-${PART}-${PART}$`)

export function parseStreamPosition(text: string): StreamPosition | undefined {
  const match = STREAM_POSITION.exec(text)
  if (!match) return undefined
  const at = (group: number): Position => ({
    version: Number(match[group]),
    index: Number(match[group + 1] ?? 0),
  })
  return { events: at(1), outcomes: at(3), objects: at(5) }
}
