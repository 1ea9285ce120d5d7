import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { Client } from 'undici'
import type { Clock } from '../../lib/time.ts'
import {
  createTrust,
  dial,
  ForbiddenAddressError,
  type OnDialed,
  UnknownInternalNameError,
} from '../../net/dial.ts'
import type { AddressPolicy, ConnectTarget } from '../../net/egress-policy.ts'
import { normalizeResponses, type ResponseNormalizer } from '../../net/lenient-responses.ts'
import { isNotFound, type ResolveName } from '../../net/resolver.ts'

/**
 * Connections to receivers, kept while idle for the next attempt to the same origin. Each attempt has a connection to
 * itself while it lasts, so a path that hangs delays no other path of its host; the caller bounds concurrent attempts.
 */

export type Connection = {
  readonly origin: string
  readonly client: Client
  /** The socket, connecting or connected; absent before the first request. */
  socket: Socket | undefined
  /** The first error of the socket. An alert of TLS that comes after the handshake is followed by others. */
  error: Error | undefined
  /** Requests completed since it was last connected. */
  completed: number
  /** Call it when a request is about to be written. */
  expectResponse(): void
  /** Whether what was verified when it connected still holds. */
  isCurrent(): boolean
  /** Ends it, whatever it is doing. Resolves when the socket is closed. */
  destroy(): Promise<void>
}

/** How long a connection stays idle, unless the receiver announces less. */
const IDLE_MS = 30_000
const MAX_IDLE_MS = 60_000
/** Closes this much before the time that the receiver announces, so that a request does not meet its close. */
const IDLE_MARGIN_MS = 1000
/** A connection in constant use would never notice that its receiver has moved, or has got another certificate. */
const MAX_AGE_MS = 300_000
const MAX_HEADER_BYTES = 16 * 1024

/** Connects with the first request, and again if the socket was closed in between. */
export function openConnection(
  target: ConnectTarget,
  dialTarget: DialTarget,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): Connection {
  let responses: ResponseNormalizer | undefined
  let connectedAt = 0
  let certifiedUntil = Number.POSITIVE_INFINITY
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
      connection.error = undefined
      connection.socket = dialTarget(target, (error, socket) => {
        if (!socket) return callback(error ?? new Error('not connected'), null)
        responses = normalizeResponses(socket)
        socket.once('error', (first) => {
          connection.error = first
        })
        connectedAt = clock.monotonic()
        certifiedUntil =
          socket instanceof TLSSocket ? expiryOf(socket, clock.now()) : Number.POSITIVE_INFINITY
        callback(null, socket)
      })
    },
  })
  const connection: Connection = {
    origin: target.origin,
    client,
    socket: undefined,
    error: undefined,
    completed: 0,
    expectResponse: () => responses?.expectResponse(),
    isCurrent: () => clock.monotonic() - connectedAt < MAX_AGE_MS && clock.now() < certifiedUntil,
    destroy() {
      connection.socket?.destroy()
      return client.destroy()
    },
  }
  return connection
}

/** More certificates than a chain has. */
const MAX_CHAIN = 10

/**
 * When the first certificate of the receiver expires, milliseconds since 1970. Those that have expired already were not needed to
 * verify the connection.
 */
function expiryOf(socket: TLSSocket, now: number): number {
  let until = Number.POSITIVE_INFINITY
  let certificate = socket.getPeerX509Certificate()
  for (let i = 0; certificate && i < MAX_CHAIN; i += 1) {
    const expiry = certificate.validToDate.getTime()
    if (expiry > now) until = Math.min(until, expiry)
    certificate = certificate.issuerCertificate
  }
  return until
}

/** Returns the socket at once, still connecting. */
export type DialTarget = (target: ConnectTarget, onDialed: OnDialed) => Socket

const ADDRESS_TIMEOUT_MS = 2500

/** Dials only addresses that the policy lets webhooks reach. @param ca PEM of authorities trusted in addition to the known ones */
export function createDialTarget(
  policy: AddressPolicy,
  resolve: ResolveName,
  ca: string | undefined,
): DialTarget {
  const context = createTrust(ca, false)
  return (target, onDialed) => {
    const { secure, hostname, port, internal } = target
    const permits = (address: string) => {
      const { kind } = policy.classify(address, hostname)
      return internal ? kind === 'allowed' : kind !== 'forbidden'
    }
    const options = {
      resolve: async (_: string, signal?: AbortSignal) => await addressesOf(target, resolve, permits, signal),
      permits,
      addressTimeoutMs: ADDRESS_TIMEOUT_MS,
      ...(secure ? { tls: { context } } : {}),
    }
    return dial(hostname, port, options, onDialed)
  }
}

/** Names inside of the cluster look alike whether they do not exist, or exist at an address that is forbidden. */
async function addressesOf(
  target: ConnectTarget,
  resolve: ResolveName,
  permits: (address: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const { queryName, isInternalName } = target
  try {
    const found = await resolve(queryName, signal)
    const isPermitted = found.addresses.every(permits)
    // A public name may only be slow. One at an address that is not permitted reads as if the machine did not know it.
    if (found.isMachineName && !(isPermitted && isInternalName)) {
      const { addresses, error } = await found.asWritten
      if (addresses.length > 0) return addresses
      if (isPermitted) return found.addresses
      if (!isNotFound(error)) throw error
      // Any name may be tried with the machine's search list, and most do not exist there.
      if (!isInternalName) throw new ForbiddenAddressError(queryName, { seemsUnknown: true })
    }
    return found.addresses
  } catch (error) {
    if (isInternalName && isNotFound(error)) throw new UnknownInternalNameError(queryName)
    throw error
  }
}

export class ConnectionPool {
  readonly #dial: DialTarget
  readonly #maxIdle: number
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>
  readonly #byOrigin = new Map<string, Connection[]>()
  /** In the order in which they became idle. */
  readonly #idle = new Set<Connection>()
  #closed = false

  /** @param maxIdle idle connections in all; beyond it, the one that has been idle longest is closed */
  constructor(dialTarget: DialTarget, maxIdle: number, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#dial = dialTarget
    this.#maxIdle = maxIdle
    this.#clock = clock
  }

  /** The idle connection to the target's origin that was used last, or a new one. */
  take(target: ConnectTarget): Connection {
    for (;;) {
      const idle = this.#byOrigin.get(target.origin)?.at(-1)
      if (!idle) return this.open(target)
      if (idle.isCurrent()) {
        this.#forget(idle)
        return idle
      }
      void this.#discard(idle)
    }
  }

  open(target: ConnectTarget): Connection {
    const connection = openConnection(target, this.#dial, this.#clock)
    // The receiver closed it, or it was idle for too long.
    connection.client.on('disconnect', () => {
      if (this.#idle.has(connection)) void this.#discard(connection)
    })
    return connection
  }

  /** Call it after a complete request and response. */
  release(connection: Connection): void {
    if (this.#closed || connection.socket?.destroyed !== false || !connection.isCurrent()) {
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
