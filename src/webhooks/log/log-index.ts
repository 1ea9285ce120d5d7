/** What the log in the store consists of: names, versions, times and sizes of its segments, and nothing of what is in them. */
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { sizeOf } from './codec.ts'
import { KEY_LIFE_MS } from './dedupe.ts'
import type { OutcomesSummary, SegmentSummary } from './retention-plan.ts'
import type { LogDelivery, LogSegment } from './store.ts'

export type SegmentEntry = SegmentSummary & {
  readonly name: string
  /** Until when its Idempotency-Keys stand, in milliseconds since 1970; absent where it has none. */
  readonly keysUntil?: number
  /** There is nothing else in it. */
  readonly keysOnly?: boolean
  gone?: true
}
export type OutcomesEntry = OutcomesSummary & { readonly name: string; gone?: true }

/** What the API server adds to an object: UID, times, labels, managed fields. */
const OBJECT_OVERHEAD_BYTES = 800

type Entry = { readonly version: number; readonly bytes: number; gone?: true }

/** Segments of one kind in the order of the log; a version is in it once. */
export class LogSequence<T extends Entry> {
  #entries: T[] = []
  #bytes = 0
  #dead = 0

  get size(): number {
    return this.#entries.length - this.#dead
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Oldest first. */
  values(): readonly T[] {
    if (this.#dead > 0) this.#entries = this.#entries.filter(({ gone }) => !gone)
    this.#dead = 0
    return this.#entries
  }

  oldest(): T | undefined {
    return this.#entries.find(({ gone }) => !gone)
  }

  add(entry: T): void {
    const place = this.#placeOf(entry.version)
    if (this.#entries[place]?.version === entry.version) return
    if (place === this.#entries.length) this.#entries.push(entry)
    else this.#entries.splice(place, 0, entry)
    this.#bytes += entry.bytes
  }

  /** Many at once, in any order. */
  merge(found: readonly T[]): void {
    const entries = new Map<number, T>()
    for (const entry of [...found, ...this.values()]) entries.set(entry.version, entry)
    this.#entries = [...entries.values()].sort((a, b) => a.version - b.version)
    this.#bytes = this.#entries.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  remove(entry: T): void {
    if (entry.gone) return
    entry.gone = true
    this.#dead += 1
    this.#bytes -= entry.bytes
  }

  /** Place of the first entry that is not before `version`; nearly always at the end. */
  #placeOf(version: number): number {
    let [low, high] = [0, this.#entries.length]
    const last = this.#entries.at(-1)
    if (!last || last.version < version) return high
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#entries[middle]?.version ?? 0) < version) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** A segment of accepted events, as the delivery plane sees it. */
export function toSegmentEntry(segment: LogSegment): SegmentEntry {
  const { name, version, createdAt, keys, deliveries } = segment
  const organization = organizationOf(deliveries)
  const bytes = segment.bytes ?? OBJECT_OVERHEAD_BYTES + bytesOf(deliveries) + (keys?.bytes ?? 0)
  const entry = { name, version, createdAt, organization, bytes }
  if (!keys) return entry
  return { ...entry, keysUntil: keys.newestAt + KEY_LIFE_MS, keysOnly: deliveries.length === 0 }
}

/** @returns '' where they are of several, or of none */
function organizationOf(deliveries: readonly LogDelivery[]): string {
  const name = deliveries[0]?.event.namespace ?? ''
  return deliveries.every(({ event }) => event.namespace === name) ? name : ''
}

/** An event that goes to several is in the segment once. */
function bytesOf(deliveries: readonly LogDelivery[]): number {
  const events = new Map<number, AcceptedEvent & { targets: LogDelivery['endpoint'][] }>()
  for (const { eventIndex, event, endpoint } of deliveries) {
    const held = events.get(eventIndex)
    if (held) held.targets.push(endpoint)
    else events.set(eventIndex, { event, targets: [endpoint] })
  }
  return sizeOf([...events.values()]).bytes
}

/** Bytes that a segment takes whose records have so many characters. */
export function outcomesBytes(size: number): number {
  return size + OBJECT_OVERHEAD_BYTES
}
