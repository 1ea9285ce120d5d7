import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Problem, problemBody } from './problems.ts'

export type HttpResponse = {
  status: number
  contentType?: string
  body?: string | Uint8Array
  headers?: Readonly<Record<string, string>>
}

/** What a client that was refused may go on sending before its connection is closed. */
const DRAINED_BYTES = 1024 * 1024

/**
 * Sends an answer. None may be kept by anybody: some of them hold a secret, all of them are one caller's.
 * The rest of a body that was not wanted is read and thrown away, since closing at once would take the answer
 * from a client that is still sending.
 */
export function send(request: IncomingMessage, response: ServerResponse, answer: HttpResponse): void {
  if (response.headersSent || response.destroyed) return
  if (!request.complete) drain(request)
  const body = answer.body ?? ''
  const headers: Record<string, string | number> = {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...answer.headers,
  }
  if (answer.body !== undefined) headers['content-type'] = answer.contentType ?? 'application/json'
  if (answer.status !== 204) headers['content-length'] = Buffer.byteLength(body)
  response.writeHead(answer.status, headers)
  response.end(request.method === 'HEAD' ? undefined : body)
}

/** With a line break, so that what follows on a terminal has a line of its own. */
export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}

export function problemResponse(problem: Problem, requestId: string): HttpResponse {
  return {
    status: problem.status,
    contentType: 'application/problem+json',
    body: jsonLine(problemBody(problem, requestId)),
    ...(problem.details.headers ? { headers: problem.details.headers } : {}),
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
