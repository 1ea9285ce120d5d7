import type { Socket } from 'node:net'
import { LRUCache } from 'lru-cache'
import { Client } from 'undici'
import { createTrust, dial, type OnDialed, type Resolve } from '../../net/dial.ts'
import type { AddressPolicy, ConnectTarget } from '../../net/egress-policy.ts'

/**
 * Connections to receivers, kept while idle for the next attempt to the same origin. Each attempt has a connection to
 * itself while it lasts, so a path that hangs delays no other path of its host; the caller bounds concurrent attempts.
 */

export type Connection = {
  readonly origin: string
  readonly client: Client
  /** The socket, connecting or connected; absent before the first request. */
  socket: Socket | undefined
  /** Requests completed since it was last connected. */
  completed: number
  /** Ends it, whatever it is doing. Resolves when the socket is closed. */
  destroy(): Promise<void>
}

/** How long a connection stays idle, unless the receiver announces less. */
const IDLE_MS = 30_000
const MAX_IDLE_MS = 60_000
/** Closes this much before the time that the receiver announces, so that a request does not meet its close. */
const IDLE_MARGIN_MS = 1000
const MAX_HEADER_BYTES = 16 * 1024

/** Connects with the first request, and again if the socket was closed in between. */
export function openConnection(target: ConnectTarget, dialTarget: DialTarget): Connection {
  const client = new Client(target.origin, {
    pipelining: 1,
    maxHeaderSize: MAX_HEADER_BYTES,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: MAX_IDLE_MS,
    keepAliveTimeoutThreshold: IDLE_MARGIN_MS,
    // These bound only gaps; the attempt has one deadline over everything.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (_options, callback) => {
      connection.completed = 0
      connection.socket = dialTarget(target, (error, socket) =>
        socket ? callback(null, socket) : callback(error ?? new Error('not connected'), null),
      )
    },
  })
  const connection: Connection = {
    origin: target.origin,
    client,
    socket: undefined,
    completed: 0,
    destroy() {
      connection.socket?.destroy()
      return client.destroy()
    },
  }
  return connection
}

/** Returns the socket at once, still connecting. */
export type DialTarget = (target: ConnectTarget, onDialed: OnDialed) => Socket

const ADDRESS_TIMEOUT_MS = 2500
/** Origins whose TLS session is kept, so that a new connection costs one round trip and less CPU. */
const MAX_SESSIONS = 1000

/** Dials only addresses that the policy lets webhooks reach. @param ca PEM of authorities trusted in addition to the known ones */
export function createDialTarget(
  policy: AddressPolicy,
  resolve: Resolve,
  ca: string | undefined,
): DialTarget {
  const context = createTrust(ca, false)
  const sessions = new LRUCache<string, Buffer>({ max: MAX_SESSIONS })
  return ({ origin, secure, hostname, port, internal }, onDialed) => {
    const permits = (address: string) => {
      const { kind } = policy.classify(address, hostname)
      return internal ? kind === 'allowed' : kind !== 'forbidden'
    }
    const onSession = (session: Buffer) => void sessions.set(origin, session)
    const options = {
      resolve,
      permits,
      addressTimeoutMs: ADDRESS_TIMEOUT_MS,
      ...(secure ? { tls: { context, session: sessions.get(origin), onSession } } : {}),
    }
    return dial(hostname, port, options, onDialed)
  }
}

export class ConnectionPool {
  readonly #dial: DialTarget
  readonly #maxIdle: number
  readonly #byOrigin = new Map<string, Connection[]>()
  /** In the order in which they became idle. */
  readonly #idle = new Set<Connection>()
  #closed = false

  /** @param maxIdle idle connections in all; beyond it, the one that has been idle longest is closed */
  constructor(dialTarget: DialTarget, maxIdle: number) {
    this.#dial = dialTarget
    this.#maxIdle = maxIdle
  }

  /** The idle connection to the target's origin that was used last, or a new one. */
  take(target: ConnectTarget): Connection {
    const idle = this.#byOrigin.get(target.origin)?.at(-1)
    if (idle) {
      this.#forget(idle)
      return idle
    }
    return this.open(target)
  }

  open(target: ConnectTarget): Connection {
    const connection = openConnection(target, this.#dial)
    // The receiver closed it, or it was idle for too long.
    connection.client.on('disconnect', () => {
      if (this.#idle.has(connection)) void this.#discard(connection)
    })
    return connection
  }

  /** Call it after a complete request and response. */
  release(connection: Connection): void {
    if (this.#closed || connection.socket?.destroyed !== false) {
      void connection.destroy()
      return
    }
    this.#idle.add(connection)
    const sameOrigin = this.#byOrigin.get(connection.origin)
    if (sameOrigin) sameOrigin.push(connection)
    else this.#byOrigin.set(connection.origin, [connection])
    const [oldest] = this.#idle
    if (this.#idle.size > this.#maxIdle && oldest) void this.#discard(oldest)
  }

  /** Closes the idle connections. Those released later are closed too. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#idle].map((connection) => this.#discard(connection)))
  }

  #discard(connection: Connection): Promise<void> {
    this.#forget(connection)
    return connection.destroy()
  }

  #forget(connection: Connection): void {
    if (!this.#idle.delete(connection)) return
    const sameOrigin = this.#byOrigin.get(connection.origin)
    if (!sameOrigin) return
    sameOrigin.splice(sameOrigin.indexOf(connection), 1)
    if (sameOrigin.length === 0) this.#byOrigin.delete(connection.origin)
  }
}
