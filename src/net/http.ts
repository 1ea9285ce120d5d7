import type { IncomingHttpHeaders } from 'node:http'
import type { SecureContext } from 'node:tls'
import { Client } from 'undici'
import { dial } from './dial.ts'
import { type AddressClass, addressClass } from './egress-policy.ts'
import { normalizeResponses } from './lenient-responses.ts'
import { lookUp } from './resolver.ts'

/** A bounded request to a server that a user names: limits on time, header and body, and only to permitted addresses. */

/** The body is larger than is ever needed. */
export class TooLargeError extends Error {
  override readonly name = 'TooLargeError'
  readonly code = 'TOO_LARGE'
}

export type HttpRequestOptions = {
  method: 'GET' | 'HEAD'
  trust: SecureContext
  userAgent: string
  /** Asked about every address before it is dialed. */
  permits(address: AddressClass): boolean
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
  /** The class of the address that responded. */
  from: AddressClass
}

const CONNECT_MS = 10_000
/** Until the response head, and between two chunks of the body; the caller's signal bounds the whole request. */
const IDLE_TIMEOUT_MS = 20_000
const MAX_HEADER_BYTES = 32 * 1024
/** How much is read of the body of an error response. */
const MAX_ERROR_BYTES = 64 * 1024

/** One request over its own connection. @throws Error with a code, TooLargeError if the body exceeds `maxBytes` */
export async function httpRequest(url: URL, options: HttpRequestOptions): Promise<HttpResponse> {
  let from: AddressClass = 'never'
  const client = new Client(url.origin, {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: IDLE_TIMEOUT_MS,
    bodyTimeout: IDLE_TIMEOUT_MS,
    connect: ({ hostname, port }, callback) => {
      const dialOptions = {
        resolve: lookUp,
        permits: (address: string) => options.permits(addressClass(address)),
        tls: { context: options.trust },
        timeoutMs: CONNECT_MS,
      }
      dial(hostname.replace(/^\[|\]$/g, ''), Number(port) || 443, dialOptions, (error, socket) => {
        if (!socket) return callback(error ?? new Error('not connected'), null)
        from = addressClass(socket.remoteAddress ?? '')
        normalizeResponses(socket)
        callback(null, socket)
      })
    },
  })
  try {
    const { statusCode, headers, body } = await client.request({
      method: options.method,
      path: url.pathname + url.search,
      headers: {
        accept: options.accept,
        'user-agent': options.userAgent,
        ...(options.authorization === undefined ? {} : { authorization: options.authorization }),
      },
      signal: options.signal,
      // undici gives back what it has read of the socket when a body has to wait, and that would be normalized twice.
      highWaterMark: 2 * options.maxBytes,
    })
    return { status: statusCode, headers, body: await readBody(body, statusCode, options.maxBytes), from }
  } finally {
    // Also ends a response that is not read to its end.
    await client.destroy().catch(() => undefined)
  }
}

async function readBody(body: AsyncIterable<Buffer>, status: number, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    chunks.push(chunk)
    if (status >= 400 && size >= MAX_ERROR_BYTES) break
    if (size > maxBytes) throw new TooLargeError('the answer is too large')
  }
  return Buffer.concat(chunks)
}
