import type { IncomingMessage, ServerResponse } from 'node:http'
import { contextOf, type RequestContext } from './context.ts'
import { rateLimitHeaders } from './limits.ts'
import { type Problem, problemBody } from './problems.ts'

/** How every response is sent: its headers, and its body. */

export type HttpResponse = {
  status: number
  contentType?: string
  body?: string | Uint8Array
  headers?: Readonly<Record<string, string>>
}

/** Of every response. Never cacheable: responses may hold secrets. */
export const FIXED_HEADERS = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const

/** Headers of every response of an operation, as the OpenAPI document describes them; `reply` sends them. */
export const DESCRIBED_HEADERS = {
  'X-Request-Id': 'ID of the request in the log.',
  RateLimit: 'Requests that remain under the rate limits of the API token and the organization.',
  'RateLimit-Policy': 'Rate limits of the API token and the organization, in requests per second.',
} as const

/** How much a rejected client may still send before its connection is closed. */
const DRAINED_BYTES = 1024 * 1024

/**
 * Drains an unread request body first; closing the socket at once could lose the
 * response.
 */
export function send(request: IncomingMessage, response: ServerResponse, answer: HttpResponse): void {
  if (response.headersSent || response.destroyed) return
  if (!request.complete) drain(request)
  const body = answer.body ?? ''
  const headers: Record<string, string | number> = {
    ...FIXED_HEADERS,
    ...answer.headers,
  }
  if (answer.body !== undefined) headers['content-type'] = answer.contentType ?? 'application/json'
  if (answer.status !== 204) headers['content-length'] = Buffer.byteLength(body)
  response.writeHead(answer.status, headers)
  const sent = request.method === 'HEAD' ? '' : body
  if (answer.headers?.connection === 'close' && !request.complete) linger(request, response, sent)
  else response.end(sent)
}

/** For a client that is still sending, before its connection is closed. */
const LINGER_MS = 1_000

/** Ends the response, and the connection with it, a while after the client has it: closing at once could lose the response. */
function linger(request: IncomingMessage, response: ServerResponse, body: string | Uint8Array): void {
  response.write(body)
  const end = () => response.end()
  const timer = setTimeout(end, LINGER_MS)
  request.once('end', end)
  response.once('close', () => clearTimeout(timer))
}

/** With a line break, for terminals. */
export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}

export function problemResponse(problem: Problem, requestId: string): HttpResponse {
  return {
    status: problem.status,
    contentType: 'application/problem+json',
    body: jsonLine(problemBody(problem, requestId)),
    headers: problem.headers,
  }
}

function drain(request: IncomingMessage): void {
  let left = DRAINED_BYTES
  request.on('data', (chunk: Uint8Array) => {
    left -= chunk.length
    if (left < 0) request.destroy()
  })
  request.resume()
}

/** Sends the one response to a request. */
export function reply(request: IncomingMessage, response: ServerResponse, answer: HttpResponse): void {
  const context = contextOf(response)
  send(request, response, { ...answer, headers: { ...headersOfContext(context), ...answer.headers } })
  context.replied()
}

/** Headers that name the request and the limits that it counted against. */
export function headersOfContext({ requestId, limits }: Pick<RequestContext, 'requestId' | 'limits'>) {
  return {
    'x-request-id': requestId,
    ...(Object.keys(limits).length === 0 ? {} : rateLimitHeaders(limits)),
  }
}
