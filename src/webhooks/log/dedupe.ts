/**
 * Idempotency-Keys in the delivery log. A request that came with a key is an event whose key has a fingerprint. Where
 * what it makes is outside of the log, the event is a claim that nobody gets, and a note follows when it is made.
 * Retention deletes segments sooner than keys expire: it repeats what they say of keys in shorter lines.
 */
import type { AcceptedEvent, SegmentEvent } from '../../apis/delivery-segment.ts'
import { timeOfName } from '../../apis/ids.ts'
import { comparePositions, formatPosition, type Position, parsePosition } from '../../apis/position.ts'

/** How long a key stands for its request. */
export const KEY_LIFE_MS = 24 * 60 * 60 * 1000

/** In the place of an event type, of which none has a colon. */
const CLAIM = 'davit:claim'
const DONE = 'davit:done'
const KEPT = 'davit:kept'

/** Whether it only says something of a key, and is no event. @param type of a line in a segment */
export function isKeyLine(type: string): boolean {
  return type === CLAIM || type === DONE || type === KEPT
}

/**
 * What a place in the log says of a key. `position` is that of the place, with the index of the event; of a shorter
 * line that retention wrote, the one of the place that it repeats.
 */
export type KeyRecord = {
  kind: 'event' | 'claim' | 'done'
  /** The 26 characters of the id that the request was accepted under. */
  id: string
  namespace: string
  key: string
  fingerprint: string
  position: Position
  /** Endpoints that get the event. */
  deliveries: number
  /** Index of its first delivery in the segment at `position`. */
  firstDelivery: number
}

type Mark = { id: string; namespace: string; key: string; fingerprint: string }

/** The first record of a request that makes something outside of the log. */
export function claimLine(mark: Mark): AcceptedEvent {
  return { event: { ...wordsOf(mark), type: CLAIM, payload: '' }, targets: [] }
}

/** What the request asked for is made. */
export function doneLine(mark: Mark): AcceptedEvent {
  return { event: { ...wordsOf(mark), type: DONE, payload: '' }, targets: [] }
}

/** The same record, short, for a place behind. */
export function keptLine(record: KeyRecord): AcceptedEvent {
  const { position, kind, deliveries, firstDelivery } = record
  const payload = `${formatPosition(position)} ${kind} ${deliveries} ${firstDelivery}`
  return { event: { ...wordsOf(record), type: KEPT, payload }, targets: [] }
}

/** What a place in the log says of a key; undefined where no request brought one. */
export function keyRecordOf(
  event: SegmentEvent,
  place: { position: Position; deliveries: number; firstDelivery: number },
): KeyRecord | undefined {
  const { id, namespace, key, fingerprint, type, payload } = event
  if (key === undefined || fingerprint === undefined || Number.isNaN(timeOfName(id))) return undefined
  const mark = { id, namespace, key, fingerprint }
  if (type === CLAIM) return { ...mark, ...place, kind: 'claim' }
  if (type === DONE) return { ...mark, ...place, kind: 'done' }
  if (type !== KEPT) return { ...mark, ...place, kind: 'event' }
  const [where = '', kind, deliveries, firstDelivery] = payload.split(' ')
  const position = parsePosition(where)
  if (!position || (kind !== 'event' && kind !== 'claim' && kind !== 'done')) return undefined
  return { ...mark, kind, position, deliveries: Number(deliveries), firstDelivery: Number(firstDelivery) }
}

/** Whether a key from that time still stands for its request. @param now milliseconds since 1970 */
export function isKeyAlive(record: Pick<KeyRecord, 'id'>, now: number): boolean {
  return now - timeOfName(record.id) < KEY_LIFE_MS
}

/** Of several places with one key the first counts (settled, "Idempotency"). */
export function isBefore(a: Pick<KeyRecord, 'position'>, b: Pick<KeyRecord, 'position'>): boolean {
  return comparePositions(a.position, b.position) < 0
}

function wordsOf({ id, namespace, key, fingerprint }: Mark) {
  return { id, namespace, key, fingerprint }
}
