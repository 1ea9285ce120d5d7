import {
  type AcceptedEvent,
  comparePositions,
  decodeEventLine,
  formatPosition,
  type Position,
  parsePosition,
  type SegmentEvent,
  type SegmentLines,
} from '../../apis/delivery-segment.ts'
import { timeOfName } from '../../apis/ids.ts'
import { LogTimes } from './log-times.ts'

/**
 * Keys in the delivery log: the first position with a key counts, later ones are duplicates. See "Keys" in README.md. An idempotency key
 * is a key with a fingerprint of its request. If the request creates something outside of the log, the event is a claim without
 * receivers, and a `done` line follows. Retention deletes segments before keys expire, so it copies their keys as shorter `kept` lines.
 */

/** How long an idempotency key stands for its request. */
export const KEY_LIFE_MS = 24 * 60 * 60 * 1000

/** An id whose time is further ahead of the log than this has its time from a wrong clock. Writers may be a minute ahead. */
export const MAX_AHEAD_MS = 2 * 60_000

/** In place of an event type; no event type has a colon. */
const CLAIM = 'davit:claim'
const DONE = 'davit:done'
const KEPT = 'davit:kept'

/** Whether a line is only about a key, and no event. @param type of a line in a segment */
export function isKeyLine(type: string): boolean {
  return type === CLAIM || type === DONE || type === KEPT
}

/** `position` is the segment's version and the index of the event; in a `kept` line, the position that it copies. */
export type KeyRecord = {
  kind: 'event' | 'claim' | 'done'
  /** The 26 characters of the id that the request was accepted under. */
  id: string
  namespace: string
  key: string
  fingerprint: string
  position: Position
  deliveries: number
  /** Index of its first delivery in the segment at `position`. */
  firstDelivery: number
  /** When the key was used at the latest, milliseconds since 1970. Present if the clock that made the id was ahead. */
  usedBy?: number
}

type Mark = Pick<KeyRecord, 'id' | 'namespace' | 'key' | 'fingerprint'>

/** The first record of a request that creates something outside of the log. */
export function claimLine(mark: Mark): AcceptedEvent {
  return keyLine(mark, CLAIM, '')
}

export function doneLine(mark: Mark): AcceptedEvent {
  return keyLine(mark, DONE, '')
}

export function keptLine(record: KeyRecord): AcceptedEvent {
  const { position, kind, deliveries, firstDelivery, usedBy } = record
  const words = [formatPosition(position), kind, deliveries, firstDelivery, usedBy]
  return keyLine(record, KEPT, words.filter((word) => word !== undefined).join(' '))
}

function keyLine({ id, namespace, key, fingerprint }: Mark, type: string, payload: string): AcceptedEvent {
  return { event: { id, namespace, key, fingerprint, type, payload }, targets: [] }
}

/** The key record of an event line; undefined if it has no idempotency key. */
export function keyRecordOf(
  event: SegmentEvent,
  offset: { position: Position; deliveries: number; firstDelivery: number },
): KeyRecord | undefined {
  const { id, namespace, key, fingerprint, type, payload } = event
  if (key === undefined || fingerprint === undefined || Number.isNaN(timeOfName(id))) return undefined
  const mark = { id, namespace, key, fingerprint }
  if (type === CLAIM) return { ...mark, ...offset, kind: 'claim' }
  if (type === DONE) return { ...mark, ...offset, kind: 'done' }
  if (type !== KEPT) return { ...mark, ...offset, kind: 'event' }
  const [text = '', kind, deliveries, firstDelivery, usedBy] = payload.split(' ')
  const position = parsePosition(text)
  if (!position || (kind !== 'event' && kind !== 'claim' && kind !== 'done')) return undefined
  const place = { position, deliveries: Number(deliveries), firstDelivery: Number(firstDelivery) }
  return { ...mark, kind, ...place, ...(usedBy === undefined ? {} : { usedBy: Number(usedBy) }) }
}

type Use = Pick<KeyRecord, 'id' | 'usedBy'>

/** When the key was used: its life begins then. Milliseconds since 1970 */
export function usedAt({ id, usedBy = Number.POSITIVE_INFINITY }: Use): number {
  return Math.min(timeOfName(id), usedBy)
}

/**
 * Corrects the time of a record whose id lies in the future: a clock that was ahead would make its keys live as much longer.
 * @param writtenBy when the record was written at the latest, milliseconds since 1970
 */
export function correctedBy<T extends Use>(record: T, writtenBy: number): T {
  return usedAt(record) - writtenBy > MAX_AHEAD_MS ? { ...record, usedBy: writtenBy } : record
}

/** Whether the key still stands for its request. @param now milliseconds since 1970 */
export function isKeyAlive(record: Use, now: number): boolean {
  return now - usedAt(record) < KEY_LIFE_MS
}

/** Of several positions with one key the first counts (interface S6). */
export function isBefore(a: Pick<KeyRecord, 'position'>, b: Pick<KeyRecord, 'position'>): boolean {
  return comparePositions(a.position, b.position) < 0
}

/** All key records of a segment, in log order. @param version of the segment */
export function keyRecordsOf(spec: SegmentLines, version: number): KeyRecord[] {
  let targets: Map<number, { count: number; first: number }> | undefined
  return spec.events.flatMap((line, index) => {
    const event = decodeEventLine(line)
    if (event?.fingerprint === undefined) return []
    targets ??= targetsByEvent(spec.deliveries)
    const { count = 0, first = 0 } = targets.get(index) ?? {}
    return keyRecordOf(event, { position: { version, index }, deliveries: count, firstDelivery: first }) ?? []
  })
}

/** The deliveries of each event of a segment, by index of the event. */
export function targetsByEvent(deliveries: string): Map<number, { count: number; first: number }> {
  const targets = new Map<number, { count: number; first: number }>()
  const lines = deliveries === '' ? [] : deliveries.split('\n')
  lines.forEach((line, index) => {
    const event = Number.parseInt(line, 10)
    const known = targets.get(event)
    if (known) known.count += 1
    else targets.set(event, { count: 1, first: index })
  })
  return targets
}

type SeenUse = { id: string; version: number; seenAt: number }
type FirstUse = SeenUse & { eventIndex: number; receivers: number }

/** As long as a retry after a crash can take. */
const REMEMBERED_MS = 15 * 60_000
/** The newest are remembered: some 30 MB. */
const MAX_KEYS = 200_000

/** The first positions of recent keys. `now` is of the monotonic clock: a wall clock set ahead would forget all keys at once. */
export class DedupeIndex {
  readonly #times = new LogTimes()
  /** In the order in which they were read or looked up. */
  readonly #first = new Map<string, FirstUse>()
  readonly #maxKeys: number

  constructor(maxKeys = MAX_KEYS) {
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#first.size
  }

  /** Call in log order. @param time by which it was written, milliseconds since 1970 */
  segmentSeen(version: number, time: number): void {
    this.#times.add(version, time)
  }

  /** Call in log order. @returns true if an earlier position has the key, unless that key had expired by then */
  isDuplicate(
    event: Pick<SegmentEvent, 'id' | 'namespace' | 'key'> & { receivers: number },
    version: number,
    eventIndex: number,
    now: number,
  ): boolean {
    if (event.key === undefined) return false
    const key = `${event.namespace}/${event.key}`
    const first = this.#first.get(key)
    if (first && !this.#isExpired(first, { id: event.id, version, seenAt: now }))
      return first.version !== version || first.eventIndex !== eventIndex
    // Re-insert it as the newest.
    this.#first.delete(key)
    this.#first.set(key, { id: event.id, version, eventIndex, receivers: event.receivers, seenAt: now })
    this.#forget(now)
    return false
  }

  /**
   * The number of receivers of the event that has the key in the log; undefined if none is known to. The caller may retry for long, so a
   * key that is looked up is kept.
   */
  receiversOf(namespace: string, key: string, now: number): number | undefined {
    const name = `${namespace}/${key}`
    const first = this.#first.get(name)
    if (!first) return undefined
    this.#first.delete(name)
    this.#first.set(name, { ...first, seenAt: now })
    return first.receivers
  }

  /** By the times in the ids, so that all replicas decide alike. A clock that was ahead is corrected by the log. */
  #isExpired(first: SeenUse, later: SeenUse): boolean {
    const [from, to] = [this.#corrected(first), this.#corrected(later)]
    if (later.seenAt - first.seenAt >= KEY_LIFE_MS - MAX_AHEAD_MS) return true
    const slack = from.usedBy === undefined ? 0 : MAX_AHEAD_MS
    return usedAt(to) - usedAt(from) >= KEY_LIFE_MS - slack
  }

  #corrected({ id, version }: SeenUse): Use {
    return correctedBy({ id }, this.#times.writtenBy(version))
  }

  #forget(now: number): void {
    for (const [key, { seenAt }] of this.#first) {
      if (this.#first.size <= this.#maxKeys && now - seenAt <= REMEMBERED_MS) return
      this.#first.delete(key)
    }
  }
}
