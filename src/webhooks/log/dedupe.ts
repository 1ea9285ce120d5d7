import {
  type AcceptedEvent,
  comparePositions,
  type DeliverySegmentSpec,
  decodeEventLine,
  formatPosition,
  type Position,
  parsePosition,
  type SegmentEvent,
} from '../../apis/delivery-segment.ts'
import { timeOfName } from '../../apis/ids.ts'

/**
 * Idempotency-Keys in the delivery log. A request that came with a key is an event whose key has a fingerprint. Where
 * what it makes is outside of the log, the event is a claim that nobody gets, and a note follows when it is made.
 * Retention deletes segments sooner than keys expire: it repeats what they say of keys in shorter lines.
 */

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

/** What a segment says of Idempotency-Keys. */

/** In the order of the log. @param version of the segment */
export function keyRecordsOf(
  spec: Pick<DeliverySegmentSpec, 'events' | 'deliveries'>,
  version: number,
): KeyRecord[] {
  let targets: Targets | undefined
  return spec.events.flatMap((line, index) => {
    const event = decodeEventLine(line)
    if (event?.fingerprint === undefined) return []
    targets ??= targetsOf(spec.deliveries)
    const { count = 0, first = 0 } = targets.get(index) ?? {}
    return keyRecordOf(event, { position: { version, index }, deliveries: count, firstDelivery: first }) ?? []
  })
}

/** By index of the event. */
type Targets = Map<number, { count: number; first: number }>

function targetsOf(deliveries: string): Targets {
  const targets: Targets = new Map()
  const lines = deliveries === '' ? [] : deliveries.split('\n')
  lines.forEach((line, index) => {
    const event = Number.parseInt(line, 10)
    const known = targets.get(event)
    if (known) known.count += 1
    else targets.set(event, { count: 1, first: index })
  })
  return targets
}

/**
 * Of several places in the log with one key the first counts; later ones are never delivered, unless the key had
 * expired by then. Remembered for as long as a repeat after a crash can come.
 */

type Place = { id: string; version: number; eventIndex: number; seenAt: number }

const KEPT_MS = 15 * 60_000
/** Of more keys the newest are remembered: some 30 MB. */
const MAX_KEYS = 200_000

export class DedupeIndex {
  /** In the order in which they were shown, or asked for. */
  readonly #first = new Map<string, Place>()
  readonly #maxKeys: number

  constructor(maxKeys = MAX_KEYS) {
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#first.size
  }

  /**
   * Places must be shown in the order of the log. @param now milliseconds of the steady clock: one that is set ahead would
   * have all keys forgotten at once
   * @returns true when an earlier place has the key
   */
  isDuplicate(
    event: Pick<SegmentEvent, 'id' | 'namespace' | 'key'>,
    version: number,
    eventIndex: number,
    now: number,
  ): boolean {
    if (event.key === undefined) return false
    const key = `${event.namespace}/${event.key}`
    const first = this.#first.get(key)
    if (first && !isExpired(first.id, event.id))
      return first.version !== version || first.eventIndex !== eventIndex
    // As the newest, or it would be forgotten as early as the one before.
    this.#first.delete(key)
    this.#first.set(key, { id: event.id, version, eventIndex, seenAt: now })
    this.#forget(now)
    return false
  }

  /**
   * Whether the log is known to hold the key. Whoever asks may ask again, for as long as a note of what was appended cannot be
   * written, so a key that is asked for stays. @param now milliseconds of the steady clock
   */
  has(namespace: string, key: string, now: number): boolean {
    const name = `${namespace}/${key}`
    const first = this.#first.get(name)
    if (!first) return false
    this.#first.delete(name)
    this.#first.set(name, { ...first, seenAt: now })
    return true
  }

  #forget(now: number): void {
    for (const [key, { seenAt }] of this.#first) {
      if (this.#first.size <= this.#maxKeys && now - seenAt <= KEPT_MS) return
      this.#first.delete(key)
    }
  }
}

/** By the ids' own times: whoever takes a request decides so, and no other clock may see it otherwise. */
function isExpired(first: string, later: string): boolean {
  return timeOfName(later) - timeOfName(first) >= KEY_LIFE_MS
}
