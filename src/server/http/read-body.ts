import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../lib/ports-clock.ts'
import type { InFlightLimiter } from './load.ts'
import { Problem } from './problems.ts'

export type BodyLimits = {
  mostBytes: number
  /** For all of it, from the moment that it is asked for. */
  deadlineMs: number
}

export type BodyReader = {
  clock: Pick<Clock, 'after'>
  load: InFlightLimiter
  limits: BodyLimits
  /** Called with what gives the room of the body back, when the request is over. */
  onReserved(release: () => void): void
}

const WANTED =
  'Send Content-Type: application/json, in UTF-8 and without a Content-Encoding; with curl that is --json instead of -d.'
/** `application/json`, with no parameter but the character set that JSON has. */
const JSON_TYPE = /^application\/json[ \t]*(;[ \t]*charset="?utf-8"?[ \t]*)?;?$/i

/**
 * The body as text, undefined where there is none. Refused as soon as it is known to be wrong, while it streams.
 * @throws Problem unsupported_media_type, body_too_large, request_timeout, bad_json (no UTF-8), overloaded
 */
export async function readBody(request: IncomingMessage, reader: BodyReader): Promise<string | undefined> {
  const { headers } = request
  const length = Number(headers['content-length'] ?? 0)
  if (headers['transfer-encoding'] === undefined && length === 0) return undefined
  if (length > reader.limits.mostBytes) throw new Problem('body_too_large')
  if (length > 0) checkType(request)
  const chunks = await collect(request, reader, length)
  return chunks.length === 0 ? undefined : decode(chunks)
}

/** @throws Problem unsupported_media_type */
function checkType({ headers }: IncomingMessage): void {
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding.toLowerCase() !== 'identity' || !JSON_TYPE.test(headers['content-type'] ?? '')) {
    throw new Problem('unsupported_media_type', { detail: WANTED })
  }
}

/** Room is taken for the length that was announced, or as it comes where none was. */
function collect(request: IncomingMessage, reader: BodyReader, announced: number): Promise<Buffer[]> {
  const { clock, limits, load, onReserved } = reader
  if (announced > 0) onReserved(load.reserve(announced))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const stopTimer = clock.after(limits.deadlineMs, () => end(new Problem('request_timeout')))
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > limits.mostBytes) return end(new Problem('body_too_large'))
      try {
        // In chunks there may be none after all, which needs no type.
        if (announced === 0) checkType(request)
        if (announced === 0) onReserved(load.reserve(chunk.length))
        chunks.push(chunk)
      } catch (error) {
        end(error)
      }
    }
    const onEnd = () => end()
    const onClose = () => end(new Problem('bad_request', { detail: 'The body ended before its time.' }))
    const end = (error?: unknown) => {
      stopTimer()
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      // Of a connection that breaks there is nothing more to say.
      request.on('error', () => undefined)
      if (error === undefined) resolve(chunks)
      else reject(error)
    }
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
  })
}

function decode(chunks: readonly Buffer[]): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  } catch {
    throw new Problem('bad_json', { detail: 'It is not UTF-8.' })
  }
}
