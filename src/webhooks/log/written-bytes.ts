import type { SegmentLines } from '../../apis/delivery-segment.ts'
import { KeyedSums } from '../../lib/fair-queue.ts'
import { copyString } from '../../lib/text.ts'
import type { Clock } from '../../lib/time.ts'
import { targetsByEvent } from './idempotency-keys.ts'

/**
 * The bytes that Davit adds to the store, by organization. Every process reads the whole log, so each knows what all of them have written
 * together, and one limit holds for the installation however many processes there are.
 */

const MINUTE_MS = 60_000
/** Old versions of objects take up space until the store is compacted, which takes five to ten minutes. */
const WRITTEN_MINUTES = 10
export const WRITTEN_MS = WRITTEN_MINUTES * MINUTE_MS

/** No organization has this name. */
const NO_ORGANIZATION = ''

type WindowOptions = {
  minutes?: number
  /** Of one key in `fairTotal`. Default: everything. */
  maxPerKey?: number
}

/** Bytes by key over the last minutes, in buckets of a minute: memory does not grow with traffic. */
export class ByteWindow {
  readonly #clock: Clock
  readonly #minutes: number
  /** By minute of the monotonic clock. */
  readonly #buckets = new Map<number, Map<string, number>>()
  readonly #sums: KeyedSums
  /** The latest minute for which old buckets were dropped. */
  #minute = Number.NEGATIVE_INFINITY

  constructor(
    clock: Clock,
    { minutes = WRITTEN_MINUTES, maxPerKey = Number.POSITIVE_INFINITY }: WindowOptions = {},
  ) {
    this.#clock = clock
    this.#minutes = minutes
    this.#sums = new KeyedSums(maxPerKey)
  }

  /** @param ageMs how long ago they were written; negative: now */
  add(key: string, bytes: number, ageMs = 0): void {
    const now = this.#forget()
    const minute = Math.floor((this.#clock.monotonic() - Math.max(0, ageMs)) / MINUTE_MS)
    if (minute <= now - this.#minutes) return
    const bucket = this.#buckets.get(minute) ?? new Map<string, number>()
    this.#buckets.set(minute, bucket)
    bucket.set(key, (bucket.get(key) ?? 0) + bytes)
    this.#sums.add(key, bytes)
  }

  bytesOf(key: string): number {
    this.#forget()
    return this.#sums.of(key)
  }

  get total(): number {
    this.#forget()
    return this.#sums.total
  }

  /**
   * The total in which a key counts no more than it may have. Objects of accepted deliveries are written in any case: an organization that
   * writes more of them than its limit has to wait itself, and does not stop the others.
   */
  get fairTotal(): number {
    this.#forget()
    return this.#sums.fairTotal
  }

  #forget(): number {
    const minute = Math.floor(this.#clock.monotonic() / MINUTE_MS)
    if (minute === this.#minute) return minute
    this.#minute = minute
    for (const [old, bucket] of this.#buckets) {
      if (old > minute - this.#minutes) continue
      this.#buckets.delete(old)
      for (const [key, bytes] of bucket) this.#sums.add(key, -bytes)
    }
    return minute
  }
}

/** JSON around an event, and the text of a delivery. */
const EVENT_OVERHEAD_BYTES = 10
const DELIVERY_BYTES = 60
/** Of the record of an outcome. Each delivery counts one in advance: an organization pays for its own, and no reader has to add them up. */
const OUTCOME_BYTES = 150
/** What of a text counts at least as written, however small it is packed: every reader unpacks all of it. */
const LEAST_SHARE = 0.1

/**
 * The bytes that a segment of events adds to the store, with the outcomes of its deliveries, by organization.
 * @param stored its size as it is stored, which outcomes share: many that are written together are packed as well
 */
export function writtenBy({ events, deliveries }: SegmentLines, stored: number): ReadonlyMap<string, number> {
  const targets = targetsByEvent(deliveries)
  const sums = new Map<string, number>()
  let plain = 0
  events.forEach((line, index) => {
    const count = targets.get(index)?.count ?? 0
    const bytes = EVENT_OVERHEAD_BYTES + line.length + count * DELIVERY_BYTES
    plain += bytes
    const organization = organizationIn(line)
    sums.set(organization, (sums.get(organization) ?? 0) + bytes + count * OUTCOME_BYTES)
  })
  const share = Math.max(stored / plain, LEAST_SHARE)
  return new Map([...sums].map(([name, bytes]) => [copyString(name), Math.ceil(bytes * share)]))
}

/** The second word of an event line. */
function organizationIn(line: string): string {
  const start = line.indexOf(' ') + 1
  const end = line.indexOf(' ', start)
  return start === 0 || end === -1 ? NO_ORGANIZATION : line.slice(start, end)
}

/** Stored size of an object without body and attempts, and of an attempt. */
const OBJECT_BYTES = 1400
const ATTEMPT_BYTES = 150

/** Roughly the bytes that each write of a WebhookDelivery adds. @param bodyBytes of the body in it, 0 if that is in its segment */
export function objectBytes(bodyBytes: number, attempts: number): number {
  return OBJECT_BYTES + bodyBytes + attempts * ATTEMPT_BYTES
}
