import { LRUCache } from 'lru-cache'
import { decodeEventLine } from '../../apis/delivery-segment.ts'
import type { PayloadRef } from '../../apis/webhook-delivery.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { copyString } from '../../lib/text.ts'
import type { LogStore } from './log-store.ts'
import { readEventLines } from './reader.ts'

/**
 * Reads bodies from their segments. What is due from one segment is due at nearly the same time, so a segment is read and unpacked once and
 * kept while there is room. Segments never change.
 */

/** Of segments, each of 256 KiB or one larger event, so together they stay below 16 MiB as text and as buffers. */
const READS_AT_A_TIME = 4
const OVERHEAD_BYTES = 200

type Body = { organization: string; buffer: Buffer }
type Bodies = ReadonlyMap<number, Body>

const NONE: Bodies = new Map()

type SegmentBodiesOptions = {
  store: Pick<LogStore, 'read'>
  /** Of the bodies that are kept. */
  maxBytes: number
  /** Called with the bytes of the bodies of a segment that was read. */
  onRead: (bytes: number) => void
}

export class SegmentBodies {
  readonly #options: SegmentBodiesOptions
  readonly #kept: LRUCache<string, Bodies>
  /** By name of the segment. */
  readonly #reading = new Map<string, Promise<Bodies>>()
  readonly #turns = new Semaphore({ atOnce: READS_AT_A_TIME })

  constructor(options: SegmentBodiesOptions) {
    this.#options = options
    this.#kept = new LRUCache({ maxSize: options.maxBytes, sizeCalculation: sizeOf })
  }

  get bytes(): number {
    return this.#kept.calculatedSize
  }

  /**
   * @param organization of the delivery; bodies of others are not returned, or anyone who can create a delivery by hand could have them
   * sent. Organizations take turns.
   * @returns undefined if the segment was deleted (by hand: retention keeps it), or has no such event of the organization
   * @throws ApiError; UnreadableError
   */
  async read({ segment, event }: PayloadRef, organization: string): Promise<Buffer | undefined> {
    const bodies = this.#kept.get(segment) ?? (await this.#readOnce(segment, organization))
    const body = bodies.get(event)
    return body?.organization === organization ? body.buffer : undefined
  }

  async #readOnce(segment: string, organization: string): Promise<Bodies> {
    const running = this.#reading.get(segment)
    if (running) return await running
    const reading = this.#turns
      .run(() => this.#readSegment(segment), { group: organization })
      .finally(() => this.#reading.delete(segment))
    this.#reading.set(segment, reading)
    return await reading
  }

  async #readSegment(name: string): Promise<Bodies> {
    const { store, onRead } = this.#options
    const lines = await readEventLines(store, name)
    if (!lines) return NONE
    const bodies = bodiesOf(lines)
    onRead(sizeOf(bodies))
    this.#kept.set(name, bodies)
    return bodies
  }
}

function bodiesOf(lines: readonly string[]): Bodies {
  const bodies = new Map<number, Body>()
  for (const [index, line] of lines.entries()) {
    const event = decodeEventLine(line)
    if (!event) continue
    const { namespace, payload } = event
    bodies.set(index, { organization: copyString(namespace), buffer: Buffer.from(payload, 'utf8') })
  }
  return bodies
}

function sizeOf(bodies: Bodies): number {
  let bytes = OVERHEAD_BYTES
  for (const { buffer } of bodies.values()) bytes += buffer.length + OVERHEAD_BYTES
  return bytes
}
