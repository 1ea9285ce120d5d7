import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { Random } from '../../lib/clock.ts'
import type { Certificate } from './certificate.ts'
import { jsonLine, problemResponse, send } from './context.ts'
import { Problem, problemBody } from './problems.ts'
import { createRequestIds } from './request.ts'

export type ServerLimits = {
  /** Connections that are served; some more are told so, and beyond those the socket closes. */
  connections: number
  headersMs: number
  /** For the whole request; a body has a deadline of its own before this one. */
  requestMs: number
  /** How often the two are looked at. */
  checkMs: number
  keepAliveMs: number
  /** Of a connection on which a request is answered and nothing moves: its client does not read. */
  idleMs: number
  headerBytes: number
}

export const SERVER_LIMITS: ServerLimits = {
  connections: 2_000,
  headersMs: 10_000,
  requestMs: 20_000,
  checkMs: 1_000,
  keepAliveMs: 65_000,
  idleMs: 60_000,
  headerBytes: 16 * 1024,
}

/** Connections beyond the limit that get an answer before they end. */
const TOLD = 200
/** What a client that was refused may go on sending, in reads of the socket, and how long it may do nothing. */
const LINGER_CHUNKS = 64
const LINGER_MS = 1_000

export type ServerOptions = {
  random: Random
  limits?: ServerLimits
  /** Absent: it serves plain http. */
  certificate?: Certificate | undefined
}

export type RequestListener = (request: IncomingMessage, response: ServerResponse) => void

/** An HTTP server that bounds what a client can hold of it, and tells each that it refuses why. @throws Error for a certificate that is none */
export function createHttpServer(
  listener: RequestListener,
  { random, limits = SERVER_LIMITS, certificate }: ServerOptions,
): Server | TlsServer {
  const nextId = createRequestIds(random)
  /** The last request of a connection. */
  const requests = new WeakMap<Socket, IncomingMessage>()
  const crowded = new WeakSet<Socket>()
  let connections = 0
  const options = {
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: limits.keepAliveMs,
    maxHeaderSize: limits.headerBytes,
    // Nothing depends on the name; without it Node would refuse in words that are no problem of ours.
    requireHostHeader: false,
  }
  const answer: RequestListener = (request, response) => {
    requests.set(request.socket, request)
    if (crowded.has(request.socket)) turnAway(request, response, nextId())
    else listener(request, response)
  }
  const server = certificate
    ? createTlsServer({ ...options, ...certificate, handshakeTimeout: limits.headersMs }, answer)
    : createServer(options, answer)
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const problem = new Problem('bad_request', { detail: 'Of expectations only 100-continue is met.' })
    send(request, response, problemResponse(problem, nextId()))
  })
  server.timeout = limits.idleMs
  server.maxConnections = limits.connections + TOLD
  // With TLS, that on which requests come: the one below it is bounded by `maxConnections` and the time for a handshake.
  server.on(certificate ? 'secureConnection' : 'connection', (socket: Socket) => {
    connections += 1
    if (connections > limits.connections) crowded.add(socket)
    socket.once('close', () => {
      connections -= 1
    })
  })
  const refused = new WeakMap<Socket, number>()
  server.on('clientError', (error: Error & { code?: string }, socket: Socket) => {
    const seen = refused.get(socket) ?? 0
    refused.set(socket, seen + 1)
    const underWay = requests.get(socket)
    // Its own answer is on the way or was given; anything more would be taken for that of the next request.
    const answered = underWay !== undefined && !underWay.complete
    if (seen === 0 && socket.writable && !answered) refuse(socket, problemOfParser(error.code), nextId())
    else if (seen === 0 || seen > LINGER_CHUNKS) socket.destroy()
  })
  return server
}

function turnAway(request: IncomingMessage, response: ServerResponse, id: string): void {
  const problem = new Problem('overloaded', { headers: { connection: 'close' } })
  send(request, response, problemResponse(problem, id))
}

/** What Node's parser found, before there is a request. */
function problemOfParser(code: string | undefined): Problem {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new Problem('request_timeout')
  if (code === 'HPE_HEADER_OVERFLOW') return new Problem('headers_too_large')
  return new Problem('bad_request', { detail: 'It is not HTTP/1.1 as it has to be.' })
}

/** The client may still be sending: closing at once would take the answer from it. */
function refuse(socket: Socket, problem: Problem, id: string): void {
  socket.setTimeout(LINGER_MS, () => socket.destroy())
  socket.end(textOf(problem, id))
}

function textOf(problem: Problem, id: string): string {
  const body = jsonLine(problemBody(problem, id))
  return [
    `HTTP/1.1 ${problem.status} ${problem.code}`,
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'x-content-type-options: nosniff',
    `x-request-id: ${id}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
}
