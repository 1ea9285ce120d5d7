import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Response } from 'express'
import { contextOf } from './context.ts'
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
  RateLimit: 'Remaining requests within the limits of the API token and the organization.',
  'RateLimit-Policy': 'Limits of the API token and the organization, in requests per second.',
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
  response.end(request.method === 'HEAD' ? undefined : body)
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
export function reply(
  request: IncomingMessage,
  response: ServerResponse & Pick<Response, 'locals'>,
  answer: HttpResponse,
): void {
  const context = contextOf(response)
  const { requestId, limits } = context
  send(request, response, {
    ...answer,
    headers: {
      'x-request-id': requestId,
      ...(Object.keys(limits).length === 0 ? {} : rateLimitHeaders(limits)),
      ...answer.headers,
    },
  })
  context.replied()
}
