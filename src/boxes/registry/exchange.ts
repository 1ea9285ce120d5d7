import type { IncomingHttpHeaders } from 'node:http'
import type { SecureContext } from 'node:tls'
import { Client } from 'undici'
import type { AddressClass } from '../../net/address-class.ts'
import { vettedConnect } from '../../net/vetted-connect.ts'
import { TooLargeError } from './connect-failure.ts'

export type HttpGetOptions = {
  trust: SecureContext
  userAgent: string
  /** Asked of every address before it is dialled. */
  permits(kind: AddressClass): boolean
  accept: string
  /** Value of `Authorization`. */
  authorization?: string | undefined
  maxBytes: number
  signal: AbortSignal
}

export type HttpResponse = {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
  /** Where it came from. */
  from: AddressClass
}

/** Of what is said beside an error; the rest of it is left. */
const MAX_ERROR_BYTES = 64 * 1024
/** To the head of an answer, and between two pieces of it; the caller's signal is over all of it. */
const IDLE_TIMEOUT_MS = 20_000
const MAX_HEADER_BYTES = 32 * 1024

/** One GET over a connection of its own. @throws Error with a code, also TooLargeError where the body does not end in time */
export async function httpGet(url: URL, options: HttpGetOptions): Promise<HttpResponse> {
  let from: AddressClass = 'never'
  const client = new Client(url.origin, {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: IDLE_TIMEOUT_MS,
    bodyTimeout: IDLE_TIMEOUT_MS,
    connect: vettedConnect({
      trust: options.trust,
      permits: options.permits,
      onConnected: (kind) => {
        from = kind
      },
    }),
  })
  try {
    const { statusCode, headers, body } = await client.request({
      method: 'GET',
      path: url.pathname + url.search,
      headers: {
        accept: options.accept,
        'user-agent': options.userAgent,
        ...(options.authorization === undefined ? {} : { authorization: options.authorization }),
      },
      signal: options.signal,
    })
    return { status: statusCode, headers, body: await bodyOf(body, statusCode, options.maxBytes), from }
  } finally {
    // Also in the midst of an answer that nobody reads on.
    await client.destroy().catch(() => undefined)
  }
}

async function bodyOf(body: AsyncIterable<Buffer>, status: number, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of body) {
    size += piece.length
    pieces.push(piece)
    if (status >= 400 && size >= MAX_ERROR_BYTES) break
    if (size > maxBytes) throw new TooLargeError('the answer is too large')
  }
  return Buffer.concat(pieces)
}
