import type { Clock } from '../../ports/clock.ts'
import { ApiError, type RawObject, type WatchEvent } from '../../ports/kubernetes.ts'
import { errorOfEvent } from './api-status.ts'
import { LineSplitter } from './line-splitter.ts'
import type { OpenStream } from './transport.ts'

export type WatchLimits = {
  clock: Clock
  /** No byte for so long, and the stream may be dead without anybody saying so: it is ended. */
  silenceMs: number
  maxLineBytes: number
}

/** The events of a watch that `open` opens, one array for all that came together. @throws ApiError as WatchSource says */
export async function* watchEvents(
  open: () => Promise<OpenStream>,
  limits: WatchLimits,
): AsyncGenerator<WatchEvent[]> {
  const stream = await open()
  const splitter = new LineSplitter(limits.maxLineBytes)
  const watchdog = new Watchdog(stream, limits)
  try {
    for await (const chunks of stream.chunks) {
      watchdog.alive()
      const { events, error } = parseLines(chunks.flatMap((chunk) => splitter.push(chunk)))
      if (events.length > 0) yield events
      if (error) throw error
    }
    if (splitter.pending > 0) throw broken('the stream ended inside a line')
  } catch (error) {
    // Quiet kinds get no bookmarks, so silence alone is no failure: the watch goes on from where it was.
    if (watchdog.silenced) return
    if (error instanceof ApiError) throw error
    throw broken(error instanceof Error ? error.message : String(error), error)
  } finally {
    watchdog.stop()
    stream.close()
  }
}

/** What can be used before the first line that cannot comes out too: it happened. */
function parseLines(lines: Buffer[]): { events: WatchEvent[]; error?: ApiError } {
  const events: WatchEvent[] = []
  for (const line of lines) {
    const event = parseLine(line)
    if (event instanceof ApiError) return { events, error: event }
    events.push(event)
  }
  return { events }
}

type RawEvent = { type?: unknown; object?: RawObject }

const DELETED = Buffer.from('{"type":"DELETED",')
/** With its quotes it is not inside a string. */
const SPEC = Buffer.from(',"spec":')

/**
 * A deletion carries the whole object, which was read when it came: of one that is sent as `..., "metadata": ..., "spec": ...`
 * only what stands before its spec is read. Each replica hears of every segment of the log that is deleted.
 */
function parseDeletion(line: Buffer): RawEvent | undefined {
  if (!line.subarray(0, DELETED.length).equals(DELETED)) return undefined
  const end = line.indexOf(SPEC)
  if (end === -1) return undefined
  try {
    const event = JSON.parse(`${line.toString('utf8', 0, end)}}}`) as RawEvent
    return event.object?.metadata === undefined ? undefined : event
  } catch {
    // A field of that name stands further inside.
    return undefined
  }
}

function parseLine(line: Buffer): WatchEvent | ApiError {
  let event: RawEvent
  try {
    event = parseDeletion(line) ?? (JSON.parse(line.toString('utf8')) as RawEvent)
  } catch (error) {
    return garbage(line, error)
  }
  const { type, object } = event ?? {}
  if (type === 'ERROR') return errorOfEvent(object)
  if (typeof object?.metadata !== 'object' || object.metadata === null) return garbage(line)
  if (type === 'ADDED' || type === 'MODIFIED') return { type, object, bytes: line.length }
  if (type === 'DELETED') return { type, object }
  if (type !== 'BOOKMARK') return garbage(line)
  return { type, resourceVersion: object.metadata.resourceVersion ?? '' }
}

/** `status` 200: the connection was fine, so the same may come again from the same version. */
function garbage(line: Buffer, cause?: unknown): ApiError {
  return new ApiError('Unavailable', `not a watch event, in a line of ${line.length} bytes`, {
    status: 200,
    cause,
  })
}

function broken(message: string, cause?: unknown): ApiError {
  return new ApiError('Unavailable', `the watch broke: ${message}`, cause === undefined ? {} : { cause })
}

/** Ends a stream that went silent. One timer that looks back, instead of one per chunk. */
class Watchdog {
  readonly #stream: OpenStream
  readonly #limits: WatchLimits
  #heardAt: number
  #stopTimer: () => void
  silenced = false

  constructor(stream: OpenStream, limits: WatchLimits) {
    this.#stream = stream
    this.#limits = limits
    this.#heardAt = limits.clock.monotonic()
    this.#stopTimer = limits.clock.after(limits.silenceMs, () => this.#look())
  }

  alive(): void {
    this.#heardAt = this.#limits.clock.monotonic()
  }

  stop(): void {
    this.#stopTimer()
  }

  #look(): void {
    const { clock, silenceMs } = this.#limits
    const left = this.#heardAt + silenceMs - clock.monotonic()
    if (left > 0) {
      this.#stopTimer = clock.after(left, () => this.#look())
      return
    }
    this.silenced = true
    this.#stream.close(new Error(`the watch was silent for ${silenceMs} ms`))
  }
}
