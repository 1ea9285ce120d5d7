import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Logger } from '../../lib/log.ts'
import { type Clock, type Random, sleep } from '../../lib/time.ts'
import { Connections } from './connections.ts'
import { Problem, problemBody } from './problems.ts'
import { createRequestIds } from './request.ts'
import { FIXED_HEADERS, jsonLine, problemResponse, send } from './response.ts'

/**
 * The certificate of a server, in two files as of a mounted Secret, which may be renewed while the server runs. Polls the files: a
 * mounted Secret changes by replacing a symbolic link, which a watch on the files does not report.
 */

/** In PEM form: the chain, and its key. */
export type Certificate = { cert: string; key: string }

export type CertificateSource = {
  current(): Certificate
  /** If the listener throws, the earlier certificate stays, and the next one is tried. */
  listen(listener: (certificate: Certificate) => void): void
  close(): void
}

export type CertificateFiles = { certFile: string; keyFile: string }

const LOOK_MS = 30_000

/** @throws Error if they cannot be read */
export async function watchCertificateFiles(
  files: CertificateFiles,
  { log, lookMs = LOOK_MS }: { log: Logger; lookMs?: number },
): Promise<CertificateSource> {
  let current = await read(files)
  const listeners: ((certificate: Certificate) => void)[] = []
  const look = async () => {
    try {
      const found = await read(files)
      if (found.cert === current.cert && found.key === current.key) return
      for (const listener of listeners) listener(found)
      current = found
      log.info('certificate_renewed', 'loaded renewed certificate', { file: files.certFile })
    } catch (error) {
      log.warn('certificate_reload_failed', 'failed to load certificate; keeping the previous one', {
        file: files.certFile,
        error,
      })
    }
  }
  const timer = setInterval(() => void look(), lookMs)
  timer.unref()
  return {
    current: () => current,
    listen: (listener) => void listeners.push(listener),
    close: () => clearInterval(timer),
  }
}

async function read({ certFile, keyFile }: CertificateFiles): Promise<Certificate> {
  const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
  return { cert, key }
}

/** The HTTP server below the app: it bounds what a client can hold of it, and tells each client that it rejects why. */

export type ServerLimits = {
  /** Open connections: see connections.ts. */
  connections: number
  headersMs: number
  /** For the whole request; the body has an earlier deadline of its own. */
  requestMs: number
  /** How often these two are checked. */
  checkMs: number
  keepAliveMs: number
  /** For a response that the client does not read. */
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

/** Connections beyond the limit, with requests in progress on all others, that get a 503 before they end. */
const REJECTED_CONNECTIONS = 200
/** How much a rejected client may still send, in reads of the socket, and how long it may stay silent. */
const LINGER_CHUNKS = 64
const LINGER_MS = 1_000

export type ServerOptions = {
  random: Random
  limits?: Partial<ServerLimits>
  /** Absent: plain http. */
  certificate?: Certificate | undefined
}

export type RequestListener = (request: IncomingMessage, response: ServerResponse) => void

/** @throws Error for an invalid certificate */
export function createHttpServer(
  listener: RequestListener,
  { random, limits: given, certificate }: ServerOptions,
): Server | TlsServer {
  const limits = { ...SERVER_LIMITS, ...given }
  const nextId = createRequestIds(random)
  /** The last request of a connection. */
  const requests = new WeakMap<Socket, IncomingMessage>()
  const connections = new Connections(limits.connections)
  const options = {
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: limits.keepAliveMs,
    maxHeaderSize: limits.headerBytes,
    // Nothing depends on the host, and Node's own rejection would be no problem document.
    requireHostHeader: false,
  }
  const answer: RequestListener = (request, response) => {
    requests.set(request.socket, request)
    response.once('close', connections.requested(request.socket))
    if (!connections.isRejected(request.socket)) return listener(request, response)
    const problem = new Problem('overloaded', { headers: { connection: 'close' } })
    send(request, response, problemResponse(problem, nextId()))
  }
  const server = certificate
    ? createTlsServer({ ...options, ...certificate, handshakeTimeout: limits.headersMs }, answer)
    : createServer(options, answer)
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const problem = new Problem('bad_request', { detail: 'The only supported Expect value is 100-continue.' })
    send(request, response, problemResponse(problem, nextId()))
  })
  server.timeout = limits.idleMs
  server.maxConnections = limits.connections + REJECTED_CONNECTIONS
  const handshake = certificate !== undefined
  server.on('connection', (socket: Socket) => connections.opened(socket, { handshake }))
  if (handshake) server.on('secureConnection', (socket: Socket) => connections.secured(socket))
  const refused = new WeakMap<Socket, number>()
  server.on('clientError', (error: Error & { code?: string }, socket: Socket) => {
    const seen = refused.get(socket) ?? 0
    refused.set(socket, seen + 1)
    const current = requests.get(socket)
    // Its own response was sent or is on the way; a second one would be taken for that of the next request.
    const answered = current !== undefined && !current.complete
    if (seen === 0 && socket.writable && !answered) refuse(socket, problemOfParser(error.code), nextId())
    else if (seen === 0 || seen > LINGER_CHUNKS) socket.destroy()
  })
  return server
}

/** What Node's parser found before there was a request. */
function problemOfParser(code: string | undefined): Problem {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new Problem('request_timeout')
  if (code === 'HPE_HEADER_OVERFLOW') return new Problem('headers_too_large')
  return new Problem('bad_request', { detail: 'Malformed HTTP/1.1 request.' })
}

/** Lingers, since the client may still be sending and would lose the response if the socket closed at once. */
function refuse(socket: Socket, problem: Problem, id: string): void {
  socket.setTimeout(LINGER_MS, () => socket.destroy())
  const body = jsonLine(problemBody(problem, id))
  const lines = [
    `HTTP/1.1 ${problem.status} ${problem.code}`,
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    ...Object.entries(FIXED_HEADERS).map(([name, value]) => `${name}: ${value}`),
    `x-request-id: ${id}`,
    'connection: close',
    '',
    body,
  ]
  socket.end(lines.join('\r\n'))
}

/** The server of `davit api`: it listens, counts requests, and ends without cutting off a response. */

export type ApiServerOptions = {
  /** An address without brackets; port 0 is any free port. */
  address: { host: string; port: number }
  listener: RequestListener
  limits?: Partial<ServerLimits>
  /** Absent for plain http. */
  certificate?: CertificateSource | undefined
  clock: Clock
  random: Random
}

export type ApiServer = {
  address: AddressInfo
  inFlight(): number
  /**
   * Ends within `ms`. For the first `lingerMs` it still serves new requests, one for each connection, since load balancers need a
   * while to notice. After that it accepts no connection, closes idle ones, and answers the requests that are in flight.
   * @param onClosing called when it begins to close: responses that have no end of their own have to end
   * @returns how many requests were cut off after `ms`
   */
  drain(how: { ms: number; lingerMs: number; onClosing?: () => void }): Promise<number>
}

/** @throws Error when the address cannot be listened on, or the certificate is invalid */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { address, listener, limits = {}, certificate, clock, random } = options
  const answering = new Set<ServerResponse>()
  let draining = false
  let closing = false
  const server = createHttpServer(
    (request: IncomingMessage, response: ServerResponse) => {
      answering.add(response)
      if (draining) response.shouldKeepAlive = false
      response.once('close', () => {
        answering.delete(response)
        // The connection would wait for a next request.
        if (closing) setImmediate(() => server.closeIdleConnections())
      })
      listener(request, response)
    },
    { random, limits, certificate: certificate?.current() },
  )
  certificate?.listen((renewed) => {
    if (server instanceof TlsServer) server.setSecureContext(renewed)
  })
  await listen(server, address)
  return {
    address: server.address() as AddressInfo,
    inFlight: () => answering.size,
    async drain({ ms, lingerMs, onClosing }) {
      draining = true
      for (const response of answering) response.shouldKeepAlive = false
      if (lingerMs > 0) await sleep(clock, lingerMs)
      closing = true
      onClosing?.()
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      await Promise.race([closed, sleep(clock, ms - lingerMs)])
      const left = answering.size
      server.closeAllConnections()
      await closed
      return left
    },
  }
}

function listen(server: Server, { host, port }: ApiServerOptions['address']): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}
