import type { IncomingMessage, ServerResponse } from 'node:http'

/** A response that goes on until one side ends it: server-sent events. */

/** One client. */
export type StreamConnection = {
  /** @returns false if the client has to read first: then `onDrain` is called */
  write(text: string): boolean
  /** Ends the response once the client has read it. */
  end(text: string): void
  /** Closes the connection. */
  abort(): void
  onDrain(listener: () => void): void
  /** Called once, when the response has ended or the client has gone. */
  onClose(listener: () => void): void
  /** Whether the client may still do what it was allowed to. @throws Problem; ApiError */
  authorize(): Promise<void>
}

/** Called once, when the head of the response was written. */
export type ResponseStream = (connection: StreamConnection) => void

export const STREAM_TYPE = 'text/event-stream'

/** Proxies must pass on each message at once. */
const UNBUFFERED = { 'x-accel-buffering': 'no' }

/** Writes the head and starts the stream; a HEAD request gets the head alone. @param authorize as in `StreamConnection` */
export function startResponseStream(
  { method, socket }: IncomingMessage,
  response: ServerResponse,
  {
    headers,
    start,
    authorize,
  }: {
    headers: Readonly<Record<string, string>>
    start: ResponseStream
    authorize: () => Promise<void>
  },
): void {
  if (socket.destroyed) return
  response.writeHead(200, { ...headers, ...UNBUFFERED, 'content-type': STREAM_TYPE })
  if (method === 'HEAD') {
    response.end()
    return
  }
  socket.setNoDelay(true)
  // If the client has gone, `close` reports it.
  response.on('error', () => undefined)
  start({
    write: (text) => response.write(text),
    end: (text) => void response.end(text),
    abort: () => void response.destroy(),
    onDrain: (listener) => void response.on('drain', listener),
    onClose: (listener) => void response.once('close', listener),
    authorize,
  })
}
