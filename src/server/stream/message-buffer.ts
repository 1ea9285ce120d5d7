import type { Position } from '../../apis/delivery-segment.ts'
import { Fifo } from '../../lib/fair-queue.ts'
import {
  behind,
  behindVersion,
  furthest,
  isBefore,
  isCovered,
  laterOf,
  SOURCES,
  type Source,
  START,
  type StreamPosition,
} from './position.ts'

/**
 * The newest messages of the stream, of all organizations, within a limit of bytes. Clients have no queues of their own: each reads here,
 * at its own pace.
 *
 * Messages of a source may be added in any order, as a list has them, and wait until everything before them was seen. If the limit is
 * reached, the organization that holds most loses its oldest messages. What was lost or never known raises a floor: a client whose position
 * is before it may have missed something and has to start again.
 */

type About = {
  readonly source: Source
  readonly position: Position
  readonly organization: string
  /** The type of the server-sent event. */
  readonly type: 'event' | 'delivery'
}

/** @property data JSON, without line breaks */
export type Message = About & { readonly data: string }

/** A message that waits for those before it. */
export type Draft = About & {
  /** Of an event: it may be in the log twice, and counts once, at its first position. */
  readonly key?: string
  /** What it takes in memory in addition to `BYTES_OF_DRAFT`. */
  readonly bytes?: number
  /** Its data when everything before it was seen; undefined if there is nothing to tell any more. */
  readonly render: () => string | undefined
}

/** The messages of one organization, oldest first. @property first number of the first one, counted from the start */
type Kept = {
  messages: Fifo<Message>
  first: number
  bytes: number
  floor: StreamPosition
}

type MessageBufferOptions = {
  maxBytes: number
  /** Called when an organization has new messages; undefined: when the buffer has closed. */
  onNews: (organization: string | undefined) => void
}

/** What a message takes in addition to its text, roughly. */
const BYTES_OF_MESSAGE = 160
/** What one takes that waits. */
const BYTES_OF_DRAFT = 500
/** Of the limit, for messages that wait for earlier ones, as most of a list do. */
const SHARE_OF_WAITING = 0.5
/** One such part of the limit is freed at once. */
const FREED_AT_ONCE = 1 / 64

export class MessageBuffer {
  readonly #options: MessageBufferOptions
  readonly #kept = new Map<string, Kept>()
  readonly #waiting: Record<Source, Draft[]> = { events: [], outcomes: [], objects: [] }
  #waitingBytes = 0
  #keptBytes = 0
  #seen = START
  #floor = START
  #isClosed = false

  constructor(options: MessageBufferOptions) {
    this.#options = options
  }

  /** Of all messages, roughly. */
  get bytes(): number {
    return this.#waitingBytes + this.#keptBytes
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Every message before it was added, or is never going to be. */
  get seen(): StreamPosition {
    return furthest(this.#seen, this.#floor)
  }

  hasSeen(source: Source): boolean {
    return this.#seen[source].version > 0
  }

  /** One that comes too late is ignored: its place in the order has passed. */
  add(draft: Draft): void {
    const { source, position } = draft
    if (this.#isClosed || isBefore(position, this.#seen[source])) return
    if (isBefore(position, this.#floor[source])) {
      this.#dropRepeats(source, [draft])
      return
    }
    this.#waiting[source].push(draft)
    this.#waitingBytes += bytesOfDraft(draft)
    if (this.bytes > this.#options.maxBytes) this.#makeSpace()
  }

  /** Messages up to this version may be missing: no client may continue before it. */
  skipped(sources: readonly Source[], version: number): void {
    for (const source of sources) this.#raiseFloor(source, behindVersion(version))
  }

  /** To be called when every message of the source up to this version was added. */
  seenUpTo(source: Source, version: number): void {
    const next = behindVersion(version)
    if (!isBefore(this.#seen[source], next)) return
    this.#seen = { ...this.#seen, [source]: next }
    const waiting = this.#waiting[source]
    if (waiting.length === 0) return
    const due = waiting.filter(({ position }) => isBefore(position, next))
    this.#setWaiting(
      source,
      waiting.filter(({ position }) => !isBefore(position, next)),
    )
    for (const draft of withoutRepeats(due.sort(byPosition))) {
      this.#keep(draft)
      if (this.bytes > this.#options.maxBytes) this.#makeSpace()
    }
    for (const organization of new Set(due.map((one) => one.organization))) this.#options.onNews(organization)
  }

  /** Whether the buffer has everything that a client with this position lacks, as far as there is anything. */
  covers(organization: string, position: StreamPosition): boolean {
    const { floor = this.#floor } = this.#kept.get(organization) ?? {}
    return isCovered(position, furthest(floor, this.#floor))
  }

  /** Number of the oldest message, or of the next one if there is none. */
  first(organization: string): number {
    return this.#kept.get(organization)?.first ?? 0
  }

  /** Number of the next message. */
  end(organization: string): number {
    const kept = this.#kept.get(organization)
    return kept ? kept.first + kept.messages.size : 0
  }

  /** Undefined if there is none (any more). */
  at(organization: string, number: number): Message | undefined {
    const kept = this.#kept.get(organization)
    return kept && number >= kept.first ? kept.messages.at(number - kept.first) : undefined
  }

  /** What is in it is no longer valid: everything is being read again. */
  close(): void {
    this.#isClosed = true
    this.#kept.clear()
    for (const source of SOURCES) this.#setWaiting(source, [])
    this.#keptBytes = 0
    this.#options.onNews(undefined)
  }

  #keep({ source, position, organization, type, render }: Draft): void {
    const data = render()
    if (data === undefined) return
    const message: Message = { source, position, organization, type, data }
    const kept = this.#kept.get(organization) ?? {
      messages: new Fifo<Message>(),
      first: 0,
      bytes: 0,
      floor: START,
    }
    this.#kept.set(organization, kept)
    kept.messages.push(message)
    const bytes = bytesOf(message)
    kept.bytes += bytes
    this.#keptBytes += bytes
  }

  #makeSpace(): void {
    const { maxBytes } = this.#options
    if (this.#waitingBytes > maxBytes * SHARE_OF_WAITING) this.#dropWaiting()
    while (this.bytes > maxBytes) {
      const largest = this.#largest()
      if (!largest) return
      this.#dropOldest(largest, this.bytes - maxBytes * (1 - FREED_AT_ONCE))
    }
  }

  /** Drops the older half of those that wait, of the source that takes most. */
  #dropWaiting(): void {
    const bytesOf = (source: Source) => sizeOfDrafts(this.#waiting[source])
    const [source] = [...SOURCES].sort((a, b) => bytesOf(b) - bytesOf(a))
    if (!source) return
    const waiting = this.#waiting[source].sort(byPosition)
    const half = Math.ceil(waiting.length / 2)
    const dropped = waiting.slice(0, half)
    this.#setWaiting(source, waiting.slice(half))
    const last = dropped.at(-1)
    if (last) this.#raiseFloor(source, behind(last.position))
    this.#dropRepeats(source, dropped)
  }

  /** A client that may continue has read them at their first positions. @param dropped from before the floor */
  #dropRepeats(source: Source, dropped: readonly Draft[]): void {
    const keys = new Set(dropped.flatMap(({ key }) => (key === undefined ? [] : [key])))
    if (keys.size === 0) return
    const hasKey = ({ key }: Draft) => key !== undefined && keys.has(key)
    this.#setWaiting(
      source,
      this.#waiting[source].filter((draft) => !hasKey(draft)),
    )
  }

  #setWaiting(source: Source, drafts: Draft[]): void {
    this.#waitingBytes += sizeOfDrafts(drafts) - sizeOfDrafts(this.#waiting[source])
    this.#waiting[source] = drafts
  }

  #largest(): Kept | undefined {
    let largest: Kept | undefined
    for (const kept of this.#kept.values()) {
      const has = kept.messages.size > 0
      if (has && kept.bytes > (largest?.bytes ?? 0)) largest = kept
    }
    return largest
  }

  /** Frees so many bytes, but never more than half of what the organization has, since another one may then have more. */
  #dropOldest(kept: Kept, bytes: number): void {
    const until = Math.max(kept.bytes / 2, kept.bytes - bytes)
    while (kept.bytes > until) {
      const oldest = kept.messages.shift()
      if (!oldest) return
      const { source, position } = oldest
      kept.floor = { ...kept.floor, [source]: laterOf(kept.floor[source], behind(position)) }
      kept.first += 1
      const dropped = bytesOf(oldest)
      kept.bytes -= dropped
      this.#keptBytes -= dropped
    }
  }

  #raiseFloor(source: Source, position: Position): void {
    this.#floor = { ...this.#floor, [source]: laterOf(this.#floor[source], position) }
  }
}

function bytesOfDraft({ bytes = 0 }: Draft): number {
  return BYTES_OF_DRAFT + bytes
}

function sizeOfDrafts(drafts: readonly Draft[]): number {
  return drafts.reduce((sum, draft) => sum + bytesOfDraft(draft), 0)
}

function byPosition({ position: a }: Draft, { position: b }: Draft): number {
  return a.version - b.version || a.index - b.index
}

/** Only the first of each key. @param drafts in order */
function withoutRepeats(drafts: readonly Draft[]): readonly Draft[] {
  if (drafts.length < 2) return drafts
  const keys = new Set<string>()
  return drafts.filter(({ key }) => {
    if (key === undefined) return true
    const isFirst = !keys.has(key)
    keys.add(key)
    return isFirst
  })
}

/** A string takes one byte for each character if all of them are Latin-1, and two otherwise. */
function bytesOf({ data }: Message): number {
  const isNarrow = Buffer.byteLength(data, 'utf8') === data.length
  return BYTES_OF_MESSAGE + (isNarrow ? data.length : 2 * data.length)
}
