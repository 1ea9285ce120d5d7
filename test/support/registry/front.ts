/** A proxy before a registry with TLS, a log of requests, and scripted faults. */
import { once } from 'node:events'
import {
  request as httpRequest,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type Duplex, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Certificate } from '../tls.ts'

export type SeenRequest = { method: string; path: string; authorization: string | undefined }

/** Answers instead of the registry, if it answers at all. @returns whether it did */
export type Trouble = (request: IncomingMessage, response: ServerResponse) => boolean

export type Front = {
  port: number
  requests: SeenRequest[]
  /** Called for each request until it is removed. */
  trouble: Trouble | undefined
  /** Rewrites the registry's challenge. */
  challenge: ((header: string) => string) | undefined
  /** Bandwidth of blobs; absent: unlimited. */
  bytesPerSecond: number | undefined
  stop(): Promise<void>
}

const SLICES = 20
const MAX_SEEN = 10_000

export type FrontOptions = {
  certificate: Certificate
  /** Address of the registry; absent: there is none, and only `own` answers. */
  upstream?: number
  host?: string
  port?: number
  /** Paths that are answered here. */
  own?: Readonly<Record<string, RequestListener>>
}

export async function startFront(options: FrontOptions): Promise<Front> {
  const sockets = new Set<Duplex>()
  const server = createServer({ ...options.certificate }, (request, response) => {
    const path = request.url ?? '/'
    const { authorization } = request.headers
    if (front.requests.length < MAX_SEEN)
      front.requests.push({ method: request.method ?? '', path, authorization })
    if (front.trouble?.(request, response)) return
    const own = options.own?.[path.replace(/\?.*$/, '')]
    if (own) return own(request, response)
    pass(front, options.upstream, request, response).catch(() => response.destroy())
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1')
  await once(server, 'listening')
  const front: Front = {
    port: (server.address() as AddressInfo).port,
    requests: [],
    trouble: undefined,
    challenge: undefined,
    bytesPerSecond: undefined,
    async stop() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
  return front
}

async function pass(
  front: Front,
  upstream: number | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (upstream === undefined) return void response.writeHead(404).end()
  const onward = httpRequest({
    host: '127.0.0.1',
    port: upstream,
    method: request.method,
    path: request.url,
    headers: request.headers,
  })
  const answered = once(onward, 'response') as Promise<[IncomingMessage]>
  await Promise.all([pipeline(request, onward), answered])
  const [answer] = await answered
  const headers = { ...answer.headers }
  const challenge = headers['www-authenticate']
  if (challenge !== undefined && front.challenge) headers['www-authenticate'] = front.challenge(challenge)
  response.writeHead(answer.statusCode ?? 500, headers)
  const slow = front.bytesPerSecond !== undefined && request.url?.includes('/blobs/sha256:')
  if (slow) await pipeline(answer, slowed(front), response)
  else await pipeline(answer, response)
}

function slowed(front: Front): Transform {
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      const send = async () => {
        const rate = front.bytesPerSecond ?? Number.POSITIVE_INFINITY
        const slice = Math.max(1, Math.floor(rate / SLICES))
        for (let at = 0; at < piece.length; at += slice) {
          this.push(piece.subarray(at, at + slice))
          await sleep(1000 / SLICES)
        }
      }
      send().then(() => done(), done)
    },
  })
}
