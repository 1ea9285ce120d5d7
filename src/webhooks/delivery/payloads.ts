import type { PayloadRef } from '../../apis/webhook-delivery.ts'
import type { SegmentBodies } from '../log/segment-bodies.ts'

/**
 * The bodies of deliveries in memory: one buffer per event, shared by its deliveries and sent as it is. Only bytes bound how many are
 * kept. A body that is not here is read from its segment when it is needed.
 */

/** The body of an event with open entries. */
export type EventBody = {
  /** Name of its segment, and its index there. */
  readonly segment: string
  readonly event: number
  readonly bytes: number
  /** Entries of the event that are open, in all shards. */
  open: number
  buffer: Buffer | undefined
}

/** A body of any length costs about so much more: the buffer itself, and its place in a list. */
const OVERHEAD_BYTES = 200
/** Longer lists are cleaned of bodies that are gone, once these are more than the others. */
const MIN_LIST = 64

export class Payloads {
  readonly #maxBytes: number
  readonly #segments: Pick<SegmentBodies, 'read' | 'bytes'>
  /** Those that are kept, by the power of two that their size reaches, oldest first; and some that are gone. */
  readonly #bySize: EventBody[][] = []
  readonly #kept: number[] = []
  #bytes = 0

  /** @param maxBytes of the bodies that are kept for entries, without those that `segments` has read */
  constructor(maxBytes: number, segments: Pick<SegmentBodies, 'read' | 'bytes'>) {
    this.#maxBytes = maxBytes
    this.#segments = segments
  }

  get bytes(): number {
    return this.#bytes + this.#segments.bytes
  }

  /**
   * Keeps a body that is to be sent soon. Over the limit the largest go first, and of these the newest, since the oldest is sent next:
   * it may be this one.
   */
  keep(body: EventBody, text: string): void {
    if (body.buffer || body.open === 0) return
    body.buffer = Buffer.from(text, 'utf8')
    this.#bytes += body.bytes + OVERHEAD_BYTES
    const size = sizeClass(body)
    this.#list(size).push(body)
    this.#kept[size] = (this.#kept[size] ?? 0) + 1
    while (this.#bytes > this.#maxBytes && this.#dropLargest()) {}
  }

  /** The body is not sent soon, or no longer by this replica. */
  drop(body: EventBody): void {
    if (!body.buffer) return
    body.buffer = undefined
    this.#bytes -= body.bytes + OVERHEAD_BYTES
    const size = sizeClass(body)
    const kept = (this.#kept[size] ?? 0) - 1
    this.#kept[size] = kept
    const list = this.#list(size)
    if (list.length > MIN_LIST && list.length > 2 * kept)
      this.#bySize[size] = list.filter(({ buffer }) => buffer !== undefined)
  }

  /**
   * @param organization whose turn a read takes
   * @returns undefined if its segment is gone @throws ApiError; UnreadableError
   */
  async read({ buffer, segment, event }: EventBody, organization: string): Promise<Buffer | undefined> {
    return buffer ?? (await this.readReferred({ segment, event }, organization))
  }

  /**
   * The body of a delivery whose object refers to it.
   * @returns undefined if its segment is gone, or has no such event of the organization @throws ApiError; UnreadableError
   */
  async readReferred(ref: PayloadRef, organization: string): Promise<Buffer | undefined> {
    return await this.#segments.read(ref, organization)
  }

  #list(size: number): EventBody[] {
    const list = this.#bySize[size] ?? []
    this.#bySize[size] = list
    return list
  }

  #dropLargest(): boolean {
    for (let size = this.#bySize.length - 1; size >= 0; size -= 1) {
      for (let last = this.#list(size).pop(); last; last = this.#list(size).pop()) {
        if (!last.buffer) continue
        this.drop(last)
        return true
      }
    }
    return false
  }
}

function sizeClass({ bytes }: EventBody): number {
  return 32 - Math.clz32(bytes)
}
