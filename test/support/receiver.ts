/** A real HTTP or HTTPS server that receives webhooks in tests, records them and gives scripted answers. */
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import type { Certificate } from './tls.ts'

export type ReceivedRequest = {
  method: string
  /** Path and query. */
  path: string
  headers: IncomingHttpHeaders
  /** Alternating names and values, in their original form. */
  rawHeaders: string[]
  /** The exact bytes. */
  body: Buffer
  /** Milliseconds of `performance.now()`, when the body was complete. */
  receivedAt: number
  /** Number of its connection, from 1. */
  connection: number
}

export type Response = {
  /** 200 if absent. */
  status?: number
  headers?: Record<string, string>
  body?: string | Uint8Array
  delayMs?: number
  /** Delays the answer until it has settled. */
  after?: Promise<unknown>
}

/** `hang`: never answers. `reset`: ends the connection without an answer. A function decides per request. */
export type Answer = Response | 'hang' | 'reset' | ((request: ReceivedRequest) => Response | 'hang' | 'reset')

export type ReceiverOptions = {
  /** Absent: a free port. */
  port?: number
  /** Absent: plain HTTP. */
  tls?: Certificate
  /** Default 127.0.0.1. */
  host?: string
  /** Name in `url` instead of the address. */
  hostname?: string
}

export type Receiver = {
  /** `https://host:port`, without a path. */
  url: string
  port: number
  /** All requests, in the order in which they were complete. */
  requests: readonly ReceivedRequest[]
  /** Connections opened so far. */
  connections(): number
  /** Requests to one path. */
  received(path: string): ReceivedRequest[]
  /** Answers of a path, one request after another; the last one stays. Without any, 200. */
  answer(path: string, ...answers: Answer[]): void
  /** Resolves with the first `count` requests (of one path), rejects after `timeoutMs` (30 s if absent). */
  waitFor(count: number, options?: { path?: string; timeoutMs?: number }): Promise<ReceivedRequest[]>
  /** Ends every connection and stops listening. */
  close(): Promise<void>
}

export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const host = options.host ?? '127.0.0.1'
  const requests: ReceivedRequest[] = []
  const scripts = new Map<string, Answer[]>()
  const events = new EventEmitter().setMaxListeners(0)
  const connections = new Map<Socket, number>()
  let opened = 0

  const handle = (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('error', () => undefined)
    incoming.on('end', () => {
      const request = describe(incoming, Buffer.concat(chunks), connections.get(incoming.socket) ?? 0)
      requests.push(request)
      respond(response, nextAnswer(scripts.get(request.path), request))
      events.emit('request')
    })
  }
  const server = options.tls ? createSecureServer(options.tls, handle) : createServer(handle)
  server.on(options.tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    opened += 1
    connections.set(socket, opened)
    socket.on('close', () => connections.delete(socket))
    socket.on('error', () => undefined)
  })
  server.on('tlsClientError', () => undefined)
  server.listen(options.port ?? 0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const name = options.hostname ?? (host.includes(':') ? `[${host}]` : host)
  const received = (path: string) => requests.filter((request) => request.path === path)

  return {
    url: `${options.tls ? 'https' : 'http'}://${name}:${port}`,
    port,
    requests,
    connections: () => opened,
    received,
    answer: (path, ...answers) => void scripts.set(path, answers),
    waitFor: (count, { path, timeoutMs = 30_000 } = {}) => {
      const matching = () => (path === undefined ? requests : received(path))
      return waitUntil(events, () => (matching().length >= count ? matching().slice(0, count) : undefined), {
        timeoutMs,
        failure: () => `${matching().length} of ${count} requests ${path ?? ''} came within ${timeoutMs} ms`,
      })
    },
    async close() {
      if (!server.listening) return
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

/** The event in `request`, if an independent implementation verifies its signature with `secret`. */
export function verifyWebhook(request: ReceivedRequest, secret: string): unknown {
  return new Webhook(secret).verify(request.body, request.headers as Record<string, string>)
}

/** Whether it is signed with one of these secrets. */
export function isSignedBy(request: ReceivedRequest, secrets: readonly string[]): boolean {
  return secrets.some((secret) => {
    try {
      verifyWebhook(request, secret)
      return true
    } catch {
      return false
    }
  })
}

/** Resolves after a quiet period of this length, or after `limitMs`. */
export async function untilQuiet({ requests }: Receiver, forMs: number, limitMs = 60_000): Promise<void> {
  const over = performance.now() + limitMs
  let seen = -1
  while (seen !== requests.length && performance.now() < over) {
    seen = requests.length
    await sleep(forMs)
  }
}

function describe(incoming: IncomingMessage, body: Buffer, connection: number): ReceivedRequest {
  const { method = '', url = '', headers, rawHeaders } = incoming
  return { method, path: url, headers, rawHeaders, body, receivedAt: performance.now(), connection }
}

function nextAnswer(
  script: Answer[] | undefined,
  request: ReceivedRequest,
): Exclude<Answer, (r: never) => unknown> {
  const answer = (script && script.length > 1 ? script.shift() : script?.[0]) ?? {}
  return typeof answer === 'function' ? answer(request) : answer
}

function respond(response: ServerResponse, answer: Response | 'hang' | 'reset'): void {
  if (answer === 'hang') return
  if (answer === 'reset') {
    response.socket?.resetAndDestroy()
    return
  }
  const send = () => response.writeHead(answer.status ?? 200, answer.headers).end(answer.body)
  if (answer.after) void answer.after.then(send, send)
  else if (answer.delayMs) setTimeout(send, answer.delayMs)
  else send()
}

function waitUntil<T>(
  events: EventEmitter,
  found: () => T | undefined,
  limit: { timeoutMs: number; failure: () => string },
): Promise<T> {
  return new Promise((resolve, reject) => {
    const settle = (run: () => void) => {
      clearTimeout(timer)
      events.off('request', check)
      run()
    }
    const check = () => {
      const value = found()
      if (value !== undefined) settle(() => resolve(value))
    }
    const timer = setTimeout(() => settle(() => reject(new Error(limit.failure()))), limit.timeoutMs)
    events.on('request', check)
    check()
  })
}
