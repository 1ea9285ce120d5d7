/** Receivers that behave as badly as real ones: errors, resets, partial answers, slowness. They record everything. */
import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Reception } from '../support/verdict.ts'
import type { SeededRandom } from './seeded-random.ts'

/**
 * A reception with its times, by `performance.now()`. `answeredAt`: when it was answered with 2xx, otherwise 0; `endedAt`: when
 * it was answered, broken off or given up; infinity while it is in progress.
 */
export type SeenReception = Reception & {
  at: number
  answeredAt: number
  endedAt: number
  body: string
  /** It was broken off without any answer, on a used connection: to the sender it looks like one that was idle for too long. */
  isStale?: true
  /** The signature header, which is made for each attempt, with the second in which it began. */
  signature?: string | undefined
}

/** `hang`: no answer, until the sender gives up. */
export type Manner = 'ok' | 'slow' | 'error' | 'reset' | 'half' | 'hang'

export type ReceiversOptions = {
  random: SeededRandom
  /** The current run, to which new connections belong. */
  run: () => number
  /** The run that has sent a request, if it is known; otherwise that of the connection. */
  runOf?: (headers: IncomingHttpHeaders) => number
  /** The behavior for a request. Absent: occasionally bad. */
  manner?: (endpoint: string) => Manner
  /** Events that the endpoint always rejects. */
  isPoisoned: (endpoint: string, body: string) => boolean
}

const HALF_MS = 100

const BAD_MANNERS: readonly { manner: Manner; share: number }[] = [
  { manner: 'error', share: 0.03 },
  { manner: 'reset', share: 0.01 },
  { manner: 'half', share: 0.005 },
  { manner: 'slow', share: 0.02 },
]

export class Receivers {
  readonly receptions: SeenReception[] = []
  /** Ids that each endpoint has answered with 200. */
  readonly taken = new Map<string, Set<string>>()
  readonly #options: ReceiversOptions
  readonly #runs = new WeakMap<Socket, number>()
  /** Number of earlier requests on the same connection. */
  readonly #used = new WeakMap<Socket, number>()
  readonly #server: Server

  private constructor(options: ReceiversOptions) {
    this.#options = options
    this.#server = createServer((request, response) => void this.#handle(request, response))
    this.#server.on('connection', (socket: Socket) => {
      this.#runs.set(socket, options.run())
      socket.on('error', () => undefined)
    })
  }

  static async start(options: ReceiversOptions): Promise<Receivers> {
    const receivers = new Receivers(options)
    receivers.#server.listen(0, '127.0.0.1')
    await once(receivers.#server, 'listening')
    return receivers
  }

  /** An endpoint's URL ends with its name. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const at = performance.now()
    const run = this.#options.runOf?.(request.headers) ?? this.#runs.get(request.socket) ?? 0
    const used = this.#used.get(request.socket) ?? 0
    this.#used.set(request.socket, used + 1)
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    } catch {
      // The sender was killed in the middle of the request.
      return
    }
    const endpoint = (request.url ?? '').slice(1)
    const body = Buffer.concat(chunks).toString('utf8')
    const id = String(request.headers['webhook-id'])
    const endedAt = Number.POSITIVE_INFINITY
    const signature = request.headers['webhook-signature']?.toString()
    const times = { at, answeredAt: 0, endedAt }
    const reception: SeenReception = { endpoint, id, run, answer: 'failed', ...times, body, signature }
    this.receptions.push(reception)
    response.on('close', () => end(reception))
    const manner = this.#options.isPoisoned(endpoint, body) ? 'error' : this.#mannerOf(endpoint)
    if (manner === 'hang') return
    if (manner === 'slow') setTimeout(() => this.#take(reception, response), this.#slowness())
    else if (manner === 'ok') this.#take(reception, response)
    else {
      if (manner === 'reset' && used > 0) reception.isStale = true
      end(reception)
      refuse(manner, response)
    }
  }

  #mannerOf(endpoint: string): Manner {
    return this.#options.manner?.(endpoint) ?? this.#anyManner()
  }

  #anyManner(): Manner {
    let chance = this.#options.random.fraction()
    for (const { manner, share } of BAD_MANNERS) {
      chance -= share
      if (chance < 0) return manner
    }
    return 'ok'
  }

  #slowness(): number {
    return this.#options.random.between(20, 400)
  }

  #take(reception: SeenReception, response: ServerResponse): void {
    // From here on the sender may know, whether it lives to store it or not.
    reception.answer = 'ok'
    reception.answeredAt = performance.now()
    end(reception)
    const taken = this.taken.get(reception.endpoint) ?? new Set()
    this.taken.set(reception.endpoint, taken.add(reception.id))
    response.writeHead(200, { 'content-length': 2 }).end('ok')
  }
}

function end(reception: SeenReception): void {
  reception.endedAt = Math.min(reception.endedAt, performance.now())
}

function refuse(manner: Manner, response: ServerResponse): void {
  if (manner === 'error') {
    response.writeHead(503, { 'content-length': 4 }).end('busy')
    return
  }
  const reset = () => response.socket?.resetAndDestroy()
  if (manner === 'reset') {
    reset()
    return
  }
  response.writeHead(200, { 'content-length': 100 }).write('the beginning')
  // An immediate reset could prevent that it is ever read.
  setTimeout(reset, HALF_MS)
}
