import { eventTypes } from '../apis/event-type.ts'
import { GROUP, type ResourceType } from '../apis/meta.ts'
import { webhookEvents } from '../apis/webhook-event.ts'
import { parseJson } from '../lib/json.ts'
import type { Clock } from '../lib/time.ts'
import { ApiError, apiErrorFromEvent, type RawObject, type WatchEvent } from './client.ts'
import type { OpenStream } from './transport.ts'

/**
 * A watch as a stream of bytes: lines, their JSON, and a watchdog for silence. Every replica reads every segment of
 * the log this way, so it skips what is not needed.
 */

/** @throws SyntaxError */
type ParseJson = (text: string) => unknown

/**
 * Kinds in which users choose property names. Elsewhere only `managedFields`, which is never read, has escaped
 * names.
 */
const FREE_FORM_KINDS: ReadonlySet<string> = new Set([webhookEvents.plural, eventTypes.plural])

/** The JSON parser for objects of a type, alone, in lists and in watches. */
export function jsonParserFor({ plural }: ResourceType): ParseJson {
  return FREE_FORM_KINDS.has(plural) ? parseJson : JSON.parse
}

const NEWLINE = 10

export class LineTooLong extends Error {
  override readonly name = 'LineTooLong'
}

/**
 * Splits bytes at newlines. It works on bytes, so a character across two chunks stays whole, and scans each byte
 * once.
 */
export class LineSplitter {
  readonly #maxBytes: number
  #pieces: Buffer[] = []
  #bytes = 0

  /** @param maxBytes per line */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Bytes of the unfinished line. */
  get pending(): number {
    return this.#bytes
  }

  /** The lines that ended in this chunk, without newlines and empty lines. @throws LineTooLong */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = []
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const line = this.#complete(chunk.subarray(start, end))
      if (line.length > 0) lines.push(line)
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
    return lines
  }

  #complete(last: Buffer): Buffer {
    if (this.#bytes === 0) return last
    this.#keep(last)
    const line = Buffer.concat(this.#pieces, this.#bytes)
    this.#pieces = []
    this.#bytes = 0
    return line
  }

  #keep(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#bytes > this.#maxBytes) throw new LineTooLong(`a line is longer than ${this.#maxBytes} bytes`)
  }
}

/**
 * One line of a watch. Overwrites the parts of `line` that it skips. @returns an error if the line is one or is not
 * a watch event
 */
export function parseLine(line: Buffer, parse: ParseJson): WatchEvent | ApiError {
  let event: RawEvent
  try {
    event = parseDeletion(line, parse) ?? parseWhole(line, parse)
  } catch (error) {
    return garbage(line, error)
  }
  const { type, object } = event ?? {}
  if (type === 'ERROR') return apiErrorFromEvent(object)
  if (typeof object?.metadata !== 'object' || object.metadata === null) return garbage(line)
  if (type === 'ADDED' || type === 'MODIFIED') return { type, object, bytes: line.length }
  if (type === 'DELETED') return { type, object }
  if (type !== 'BOOKMARK') return garbage(line)
  return { type, resourceVersion: object.metadata.resourceVersion ?? '' }
}

type RawEvent = { type?: unknown; object?: RawObject }

const DELETED = Buffer.from('{"type":"DELETED",')
/** The quotes show that it is not inside a string. */
const SPEC = Buffer.from(',"spec":')

/**
 * A deletion carries the whole object, which was read before. If the metadata stand before the spec, only the part
 * before the spec is parsed.
 */
function parseDeletion(line: Buffer, parse: ParseJson): RawEvent | undefined {
  if (!line.subarray(0, DELETED.length).equals(DELETED)) return undefined
  const end = line.indexOf(SPEC)
  if (end === -1) return undefined
  try {
    const event = parse(`${line.toString('utf8', 0, end)}}}`) as RawEvent
    return event.object?.metadata === undefined ? undefined : event
  } catch {
    // The field is nested deeper.
    return undefined
  }
}

function parseWhole(line: Buffer, parse: ParseJson): RawEvent {
  blankManagedFields(line)
  return parse(line.toString('utf8')) as RawEvent
}

const OURS = ['ADDED', 'MODIFIED'].map((type) =>
  Buffer.from(`{"type":"${type}","object":{"apiVersion":"${GROUP}/`),
)
/** Quotes inside strings are escaped, so neither can stand in a string, except at the end of a name. */
const FIELDS = Buffer.from('"managedFields":[')
const AFTER_FIELDS = Buffer.from('}],"name":"')
const SPACE = 0x20

/**
 * Blanks `managedFields`, half the keys of a segment; never needed from a watch. The API server sends fields of
 * custom resources in the order of their names, so `name` is next, and `managedFields` contain no lists.
 */
function blankManagedFields(line: Buffer): void {
  if (!beginsWithOneOf(line, OURS)) return
  const start = line.indexOf(FIELDS)
  if (start === -1) return
  const end = line.indexOf(AFTER_FIELDS, start)
  // It is in the spec or ends in it, so it is user data.
  if (end === -1 || end > line.indexOf(SPEC)) return
  line.fill(SPACE, start, end + '}],'.length)
}

function beginsWithOneOf(line: Buffer, starts: readonly Buffer[]): boolean {
  return starts.some((start) => line.subarray(0, start.length).equals(start))
}

/** `status` 200: the connection was fine, so the same line may come again from the same version. */
function garbage(line: Buffer, cause?: unknown): ApiError {
  return new ApiError('Unavailable', `invalid watch event in a line of ${line.length} bytes`, {
    status: 200,
    cause,
  })
}

export type WatchStreamOptions = {
  parse: ParseJson
  clock: Clock
  /** A stream without a byte for this long may be dead, and is ended. */
  silenceMs: number
  maxLineBytes: number
}

/** The events of a watch, one array per read. @throws ApiError as WatchSource says */
export async function* watchEvents(
  open: () => Promise<OpenStream>,
  needs: WatchStreamOptions,
): AsyncGenerator<WatchEvent[]> {
  const stream = await open()
  const splitter = new LineSplitter(needs.maxLineBytes)
  const watchdog = new Watchdog(stream, needs)
  try {
    for await (const chunks of stream.chunks) {
      watchdog.alive()
      const events: WatchEvent[] = []
      const error = parseChunks(chunks, { splitter, parse: needs.parse }, events)
      if (events.length > 0) yield events
      if (error) throw error
    }
    if (splitter.pending > 0) throw broken('the stream ended in the middle of a line')
  } catch (error) {
    // Quiet kinds get no bookmarks, so silence is not a failure: the watch continues from where it was.
    if (watchdog.silenced) return
    if (error instanceof ApiError) throw error
    throw broken(error instanceof Error ? error.message : String(error), error)
  } finally {
    watchdog.stop()
    stream.close()
  }
}

/** Events before a bad line are delivered: they happened. In loops, since `flatMap` costs a third of the parsing. */
function parseChunks(
  chunks: readonly Buffer[],
  { splitter, parse }: { splitter: LineSplitter; parse: ParseJson },
  events: WatchEvent[],
): ApiError | undefined {
  for (const chunk of chunks)
    for (const line of splitter.push(chunk)) {
      const event = parseLine(line, parse)
      if (event instanceof ApiError) return event
      events.push(event)
    }
  return undefined
}

function broken(message: string, cause?: unknown): ApiError {
  return new ApiError('Unavailable', `the watch failed: ${message}`, { cause })
}

/** Ends a silent stream. One timer that looks back, instead of one per chunk. */
class Watchdog {
  readonly #stream: OpenStream
  readonly #needs: WatchStreamOptions
  #heardAt: number
  #stopTimer: () => void
  silenced = false

  constructor(stream: OpenStream, needs: WatchStreamOptions) {
    this.#stream = stream
    this.#needs = needs
    this.#heardAt = needs.clock.monotonic()
    this.#stopTimer = needs.clock.after(needs.silenceMs, () => this.#check())
  }

  alive(): void {
    this.#heardAt = this.#needs.clock.monotonic()
  }

  stop(): void {
    this.#stopTimer()
  }

  #check(): void {
    const { clock, silenceMs } = this.#needs
    const left = this.#heardAt + silenceMs - clock.monotonic()
    if (left > 0) {
      this.#stopTimer = clock.after(left, () => this.#check())
      return
    }
    this.silenced = true
    this.#stream.close(new Error(`the watch received no data for ${silenceMs} ms`))
  }
}
