import type { Clock } from '../lib/ports-clock.ts'
import { ApiError, type WatchEvent } from './client.ts'
import type { ParseJson } from './json-of.ts'
import { LineSplitter } from './line-splitter.ts'
import type { OpenStream } from './transport.ts'
import { parseLine } from './watch-line.ts'

export type WatchStreamOptions = {
  /** Reads a line. */
  parse: ParseJson
  clock: Clock
  /** No byte for so long, and the stream may be dead without anybody saying so: it is ended. */
  silenceMs: number
  maxLineBytes: number
}

/** The events of a watch that `open` opens, one array for all that came together. @throws ApiError as WatchSource says */
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

/**
 * What can be used before the first line that cannot comes out too: it happened. In loops, since every segment of the log
 * comes this way in each replica, and `flatMap` costs as much as a third of the parsing.
 */
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
  return new ApiError('Unavailable', `the watch broke: ${message}`, cause === undefined ? {} : { cause })
}

/** Ends a stream that went silent. One timer that looks back, instead of one per chunk. */
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
    this.#stopTimer = needs.clock.after(needs.silenceMs, () => this.#look())
  }

  alive(): void {
    this.#heardAt = this.#needs.clock.monotonic()
  }

  stop(): void {
    this.#stopTimer()
  }

  #look(): void {
    const { clock, silenceMs } = this.#needs
    const left = this.#heardAt + silenceMs - clock.monotonic()
    if (left > 0) {
      this.#stopTimer = clock.after(left, () => this.#look())
      return
    }
    this.silenced = true
    this.#stream.close(new Error(`the watch was silent for ${silenceMs} ms`))
  }
}
